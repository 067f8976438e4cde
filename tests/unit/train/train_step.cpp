// StepEngine: what a step's loss and gradients are means over, what validation counts, when dropout acts, and when
// nothing may change.
#include "engine/make_recipe.h"
#include "step/step.h"

#include <cmath>

#include "kernels/backend.h"
#include "runs/open.h"
#include "runs/run_state.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace test_train_step {

struct Engine {
  explicit Engine(int64_t micro_batches = 1, double dropout = 0, Recompute recompute = Recompute::cheap,
                  LossAverage average = LossAverage::tokens)
      : model(make_model(tiny_llama(), "test")) {
    config.train.micro_batch = 2;
    config.train.dropout = dropout;
    config.train.recompute = recompute;
    config.train.loss_average = average;
    config.optimizer.type = OptimizerType::sgd;
    config.optimizer.momentum = config.optimizer.weight_decay = config.optimizer.clip_norm = 0;
    engine = std::make_unique<StepEngine>(*model, config, Types::of(DType::f64), backend_kernels(Backend::ref),
                                          StepShape{2, kWidth, micro_batches, true});
    engine->allocate();
    begin_weights(*engine, config);
  }
  std::vector<double> weights() {
    std::vector<double> out;
    for (const Param& p : model->params().params()) {
      TensorView v = engine->store().master(p);
      out.insert(out.end(), v.as<double>(), v.as<double>() + v.count());
    }
    return out;
  }
  double evaluated(const MicroBatch& m) {
    auto [sum, count] = engine->evaluate(m);
    return sum.value() / static_cast<double>(count);
  }
  Config config;
  std::unique_ptr<Model> model;
  std::unique_ptr<StepEngine> engine;
};

double norm(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x * x;
  return std::sqrt(s);
}

std::vector<double> change(const std::vector<double>& from, const std::vector<double>& to) {
  std::vector<double> d(from.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = to[i] - from[i];
  return d;
}

// Sums of a few hundred terms of one size, in double.
constexpr double kClose = 1024 * 0x1p-53;

TEST(Step, LossAndGradientAreMeansOverAllTokensThatCount) {
  const MicroBatch a = made_up(1, 2, 1), b = made_up(2, 2, 9);
  ASSERT_EQ(a.valid_tokens, 22);
  ASSERT_EQ(b.valid_tokens, 6);
  Engine both(2), first, second;
  const std::vector<double> begun = both.weights();
  const double lr = 0.5;
  auto [sum_a, count_a] = both.engine->evaluate(a);
  auto [sum_b, count_b] = both.engine->evaluate(b);
  EXPECT_EQ(count_a, 22);
  EXPECT_EQ(count_b, 6);
  StepResult r = both.engine->run({a, b}, 1, lr);
  EXPECT_EQ(r.tokens, 4 * kWidth);
  EXPECT_EQ(r.valid, 28);
  EXPECT_NEAR(r.loss, (sum_a.value() + sum_b.value()) / 28, kClose * r.loss);
  StepResult ra = first.engine->run({a}, 1, lr), rb = second.engine->run({b}, 1, lr);
  EXPECT_NEAR(r.loss, (22 * ra.loss + 6 * rb.loss) / 28, kClose * r.loss);
  std::vector<double> d = change(begun, both.weights()), da = change(begun, first.weights()),
                      db = change(begun, second.weights());
  EXPECT_NEAR(norm(d) / lr, r.grad_norm, kClose * r.grad_norm) << "plain sgd: the change is the gradient times the rate";
  for (size_t i = 0; i < d.size(); ++i) ASSERT_NEAR(d[i], (22 * da[i] + 6 * db[i]) / 28, kClose * norm(d)) << i;
}

// train.loss_average=micro: each micro batch counts alike, however many of its labels count; one without any counts as
// 0.
TEST(Step, MicroBatchesCountAlikeIfSet) {
  const MicroBatch a = made_up(1, 2, 1), b = made_up(2, 2, 9), none = made_up(3, 2, kWidth);
  Engine both(2, 0, Recompute::cheap, LossAverage::micro), three(3, 0, Recompute::cheap, LossAverage::micro), first, second;
  const std::vector<double> begun = both.weights();
  const double lr = 0.5;
  auto numbered = [](std::vector<MicroBatch> micros) {
    for (size_t i = 0; i < micros.size(); ++i) micros[i].index = static_cast<int64_t>(i);
    return micros;
  };
  const StepResult r = both.engine->run(numbered({a, b}), 1, lr), ra = first.engine->run({a}, 1, lr),
                   rb = second.engine->run({b}, 1, lr);
  EXPECT_EQ(r.valid, 28);
  EXPECT_GT(std::abs(ra.loss - rb.loss), 1e-3 * ra.loss) << "else this shows nothing";
  EXPECT_NEAR(r.loss, (ra.loss + rb.loss) / 2, kClose * r.loss);
  const std::vector<double> d = change(begun, both.weights()), da = change(begun, first.weights()),
                            db = change(begun, second.weights());
  for (size_t i = 0; i < d.size(); ++i) ASSERT_NEAR(d[i], (da[i] + db[i]) / 2, kClose * norm(d)) << i;
  EXPECT_NEAR(norm(d) / lr, r.grad_norm, kClose * r.grad_norm);
  EXPECT_NEAR(three.engine->run(numbered({a, none, b}), 1, lr).loss, (ra.loss + rb.loss) / 3, kClose * r.loss);
  const std::vector<double> dt = change(begun, three.weights());
  for (size_t i = 0; i < d.size(); ++i) ASSERT_NEAR(dt[i], (da[i] + db[i]) / 3, kClose * norm(d)) << i;
}

TEST(Step, ValidationChangesNothingAndCountsWhatCounts) {
  Engine e;
  const std::vector<double> begun = e.weights();
  const MicroBatch m = made_up(3, 2, 5);
  const double value = e.evaluated(m);
  EXPECT_EQ(e.weights(), begun);
  EXPECT_EQ(e.engine->optimizer().steps(), 0);
  EXPECT_NEAR(e.engine->run({m}, 1, 0).loss, value, kClose * value) << "the loss of a step, before its update";
  MicroBatch smaller = made_up(3, 1, 5);
  EXPECT_EQ(e.engine->evaluate(smaller).second, 7) << "the last one of a validation may have fewer rows";
  MicroBatch none = made_up(3, 2, kWidth);
  EXPECT_EQ(e.engine->evaluate(none).second, 0);
  EXPECT_EQ(e.engine->evaluate(none).first.value(), 0);
}

TEST(Step, DropoutHasAnotherMaskEveryStepAndNoneInValidation) {
  const MicroBatch m = made_up(4, 2, 0);
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::full}) {
    Engine plain(1, 0, recompute), drops(1, 0.3, recompute);
    const double without = plain.evaluated(m);
    EXPECT_EQ(drops.evaluated(m), without) << "validation knows no dropout";
    const double one = drops.engine->run({m}, 1, 0).loss, two = drops.engine->run({m}, 2, 0).loss;
    EXPECT_NE(one, without);
    EXPECT_NE(one, two) << "another step, another mask";
    EXPECT_EQ(drops.engine->run({m}, 1, 0).loss, one) << "the same step has the same mask";
    MicroBatch elsewhere = m;
    for (int64_t& s : elsewhere.sequence_index) s += 100;
    EXPECT_NE(drops.engine->run({elsewhere}, 1, 0).loss, one) << "another sequence, another mask";
    EXPECT_EQ(drops.evaluated(m), without) << "nor after training";
  }
}

TEST(Step, TheMaskIsTheSameHoweverMemoryIsKept) {
  const MicroBatch m = made_up(5, 2, 0);
  std::vector<double> losses, norms;
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::full}) {
    Engine e(1, 0.3, recompute);
    StepResult r = e.engine->run({m}, 7, 0.1);
    losses.push_back(r.loss), norms.push_back(r.grad_norm);
  }
  EXPECT_TRUE(losses[0] == losses[1] && losses[0] == losses[2]);
  EXPECT_TRUE(norms[0] == norms[1] && norms[0] == norms[2]);
}

TEST(Step, WithoutApplyNothingChanges) {
  Engine e;
  const std::vector<double> begun = e.weights();
  const MicroBatch m = made_up(6, 2, 0);
  StepResult r = e.engine->run({m}, 1, 0.5, {}, [](double, double) { return Verdict::skip; });
  EXPECT_GT(r.grad_norm, 0);
  EXPECT_EQ(e.weights(), begun);
  EXPECT_EQ(e.engine->optimizer().steps(), 0);
}

TEST(Step, WhatIsNotFiniteIsNotApplied) {
  Engine e;
  e.engine->store().master(*e.model->params().find("model.norm.weight")).as<double>()[0] = NAN;
  e.engine->store().refresh_copies(e.engine->ctx());
  StepResult r = e.engine->run({made_up(6, 2, 0)}, 1, 0.5);
  EXPECT_TRUE(std::isnan(r.loss));
  EXPECT_EQ(e.engine->optimizer().steps(), 0);
  int64_t bad = 0;
  for (double w : e.weights()) bad += std::isnan(w);
  EXPECT_EQ(bad, 1) << "one number was spoiled, and no other since";
}

TEST(Step, UnitsAreAnnouncedBeforeTheyChange) {
  Engine e;
  std::vector<std::string> updated;
  e.engine->run({made_up(6, 2, 0)}, 1, 0.5, [&](const Unit& u) {
    if (updated.empty() || updated.back() != u.name) updated.push_back(u.name);
  });
  EXPECT_EQ(updated, (std::vector<std::string>{"model.embed_tokens", "model.layers.0", "model.layers.1", "lm_head"}));
}

TEST(Step, AnotherNumberOfMicroBatchesThanPlannedIsAnError) {
  Engine e(2);
  EXPECT_THROW(e.engine->run({made_up(1, 2, 0)}, 1, 0.5), Error);
}

TEST(Step, ABatchWithoutLabelsThatCountTeachesNothing) {
  Engine e;
  const std::vector<double> begun = e.weights();
  StepResult r = e.engine->run({made_up(1, 2, kWidth)}, 1, 0.5);
  EXPECT_EQ(r.valid, 0);
  EXPECT_EQ(r.loss, 0);
  EXPECT_EQ(r.grad_norm, 0);
  EXPECT_EQ(e.weights(), begun);
}

TEST(Batches, RowsBecomeTheViewsOfTheModel) {
  MicroBatch m = made_up(9, 2, 3);
  m.positions[3] = 17;
  ModelBatch batch(m, 0.25, 6);
  const Batch& b = batch.batch();
  EXPECT_EQ(b.tokens, 2 * kWidth);
  EXPECT_EQ(b.grad_scale, 0.25);
  EXPECT_EQ(b.step, 6u);
  EXPECT_EQ(b.max_position, 18);
  ASSERT_EQ(b.segments.size(), 2u);
  EXPECT_EQ(b.segments[1].q_begin, kWidth);
  for (int64_t i = 0; i < b.tokens; ++i) {
    EXPECT_EQ(b.ids.as<int32_t>()[i], m.ids[static_cast<size_t>(i)]);
    EXPECT_EQ(b.labels.as<int32_t>()[i], m.labels[static_cast<size_t>(i)]);
    EXPECT_EQ(b.sequences.as<int64_t>()[i], m.sequence_index[static_cast<size_t>(i / kWidth)]);
    EXPECT_EQ(b.token_index.as<int32_t>()[i], i % kWidth);
  }
  m.labels.pop_back();
  EXPECT_THROW(ModelBatch(m, 1, 1), Error);
}

TEST(PrecisionRules, BecomeRules) {
  PrecisionOptions o;
  o.recipes.push_back({"model.layers.*", "rms_norm", DType::f64, DType::bf16});
  o.recipes.push_back({"lm_head", "loss_head", std::nullopt, DType::f16});
  o.unfused = {"attention"};
  Recipe r = make_recipe(o, ref_kernels());
  const RecipeRule* norm = r.find("model.layers.3", "rms_norm", Role::forward);
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->arithmetic, DType::f64);
  EXPECT_EQ(norm->rounding, DType::bf16);
  const RecipeRule* head = r.find("lm_head", "loss_head", Role::forward);
  ASSERT_NE(head, nullptr);
  EXPECT_FALSE(head->arithmetic.has_value());
  EXPECT_EQ(head->rounding, DType::f16);
  EXPECT_EQ(r.find("model.layers.3", "matmul", Role::forward), nullptr);
  EXPECT_EQ(r.find("model.layers.3", "rms_norm", Role::dx), norm) << "any role";
  o.recipes.push_back({.path = "*", .op = "matmul", .round = DType::bf16, .role = Role::dw});
  r = make_recipe(o, ref_kernels());
  EXPECT_EQ(r.find("model.layers.3", "matmul", Role::dx), nullptr);
  ASSERT_NE(r.find("model.layers.3", "matmul", Role::dw), nullptr);
  EXPECT_FALSE(r.fused("attention"));
  EXPECT_TRUE(r.fused("loss_head"));
  o.recipes.push_back({"*", "rms_nrm", std::nullopt, DType::bf16});
  EXPECT_THROW(make_recipe(o, ref_kernels()), UserError);
}

TEST(PrecisionRules, OnlyNamesOfUnfusedDefinitionsAreTaken) {
  PrecisionOptions o;
  for (const char* op : kUnfusable) {
    o.unfused = {op};
    EXPECT_FALSE(make_recipe(o, ref_kernels()).fused(op)) << op;
  }
  for (const char* op : {"*", "add_*", "matmul", "Rope", ""}) {
    o.unfused = {op};
    EXPECT_THROW(make_recipe(o, ref_kernels()), UserError) << "'" << op << "' would be taken and do nothing";
  }
}

}  // namespace test_train_step
}  // namespace ravine
