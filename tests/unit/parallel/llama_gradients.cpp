// The whole tape on a tiny Llama in f64: gradients against central differences, and equality of every way to keep
// activations.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "device/arena.h"
#include "model/model.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"
#include "parallel/stash.h"

namespace ravine {
namespace test_llama_gradients {

Json config(bool tied) {
  return Json{{"model_type", "llama"},   {"hidden_size", 12},        {"intermediate_size", 20},
              {"num_hidden_layers", 2},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
              {"head_dim", 4},           {"vocab_size", 19},         {"max_position_embeddings", 32},
              {"attention_bias", true},  {"mlp_bias", true},         {"tie_word_embeddings", tied},
              {"initializer_range", 0.3}};
}

struct Tiny {
  Tiny(DType compute, bool tied, Recompute recompute, double dropout, const std::vector<std::string>& unfused = {})
      : model(make_model(config(tied), "test")),
        kernels(ref_kernels()),
        types(Types::of(compute)),
        store(model->params(), types, DeviceKind::cpu),
        stash(make_stash(recompute)) {
    for (auto& op : unfused) recipe.unfuse(op);
    initialise(model->params(), store, 7);
    for (const Param& p : model->params().params())  // so that norms and biases take part
      if (p.init.kind != Init::normal && !p.tied)
        for (int64_t i = 0; i < p.shape.count(); ++i) {
          double x = (p.init.kind == Init::ones ? 1.0 : 0.0) + 0.1 * std::sin(3.0 * static_cast<double>(i) + 1);
          if (types.master == DType::f64)
            store.master(p).as<double>()[i] = x;
          else
            store.master(p).as<float>()[i] = static_cast<float>(x);
        }
    Ctx::Setup s;
    s.kernels = &kernels;
    s.arena = &arena;
    s.store = &store, s.grads = &store;
    s.stash = stash.get();
    s.recipe = &recipe;
    s.types = types;
    s.dropout = dropout;
    s.seed = 3;
    ctx = std::make_unique<Ctx>(s);
    store.refresh_copies(*ctx);
    for (int32_t i = 0; i < 14; ++i) {
      auto w = philox(5, {static_cast<uint32_t>(i), 0, 0, 0});
      ids.push_back(static_cast<int32_t>(w[0] % 19));
      labels.push_back(i == 3 || i == 13 ? -100 : static_cast<int32_t>(w[1] % 19));
      positions.push_back(i < 8 ? i : i - 8);
      sequences.push_back(i < 8 ? 0 : 1);
    }
    auto view = [](auto& v, DType t) { return view_of(v.data(), t, {static_cast<int64_t>(v.size())}); };
    batch.tokens = 14;
    batch.ids = view(ids, DType::i32);
    batch.positions = view(positions, DType::i32);
    batch.labels = view(labels, DType::i32);
    batch.sequences = view(sequences, DType::i64);
    batch.segments = {{0, 8, 0, 8}, {8, 5, 8, 5}};  // the last row is padding
    batch.max_position = 8;
    batch.grad_scale = 1.0 / 12;
  }
  double loss(bool backward) {
    ctx->begin_step(1);
    ctx->begin(batch, true);
    model->forward(*ctx);
    ctx->backward();
    double l = ctx->step_sums().total(StepSum::loss).value() / 12;
    if (backward) {
      store.finish_grads(*ctx);
    } else {
      store.end_step();
    }
    return l;
  }
  HeapArena arena;  // outlives all that holds tensors
  std::unique_ptr<Model> model;
  Kernels kernels;
  Types types;
  FlatStore store;
  std::unique_ptr<Stash> stash;
  Recipe recipe;
  std::unique_ptr<Ctx> ctx;
  std::vector<int32_t> ids, labels, positions;
  std::vector<int64_t> sequences;
  Batch batch;
};

class Gradients : public testing::TestWithParam<std::tuple<bool, double, bool>> {};

TEST_P(Gradients, EqualCentralDifferences) {
  auto [tied, dropout, unfused] = GetParam();
  std::vector<std::string> off;
  if (unfused) off = {"attention", "add_rms_norm", "loss_head"};
  Tiny run(DType::f64, tied, Recompute::cheap, dropout, off);
  run.loss(true);
  std::vector<std::pair<const Param*, std::vector<double>>> gradients;
  for (const Param& p : run.model->params().params()) {
    if (p.tied) continue;
    const double* g = run.store.grad(p).as<double>();
    gradients.push_back({&p, {g, g + p.shape.count()}});
  }
  run.store.end_step();
  EXPECT_EQ(run.arena.live(), 0);
  const double h = 1e-4;
  for (auto& [p, g] : gradients) {
    double* w = run.store.master(*p).as<double>();
    double scale = 0;
    for (double x : g) scale = std::max(scale, std::abs(x));
    EXPECT_GT(scale, 0) << p->name;
    for (int64_t i = 0; i < p->shape.count(); i += std::max<int64_t>(1, p->shape.count() / 5)) {
      double keep = w[i];
      auto at = [&](double d) {
        w[i] = keep + d;
        double l = run.loss(false);
        w[i] = keep;
        return l;
      };
      // Five points: error h^4 f'''''/30, rounding eps |loss| / h.
      double d = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      EXPECT_NEAR(g[static_cast<size_t>(i)], d, 3e-10 + 1e-7 * scale) << p->name << " [" << i << "]";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Gradients,
                         testing::Values(std::tuple{false, 0.0, false}, std::tuple{true, 0.0, false},
                                         std::tuple{true, 0.3, false}, std::tuple{false, 0.0, true}));

std::vector<std::byte> all_gradients(Tiny& run, double& loss) {
  loss = run.loss(true);
  std::vector<std::byte> out;
  for (const Param& p : run.model->params().params()) {
    if (p.tied) continue;
    TensorView g = run.store.grad(p);
    out.insert(out.end(), g.as<std::byte>(), g.as<std::byte>() + g.bytes());
  }
  run.store.end_step();
  EXPECT_EQ(run.arena.live(), 0);
  return out;
}

// Micro batches of a leaf add up, whichever way an op is made: two give twice the gradients of one.
TEST(MicroBatches, AddUpFusedOrNot) {
  for (const char* off : {"", "attention", "add_rms_norm", "loss_head"})
    for (bool tied : {false, true}) {
      std::vector<std::string> unfused;
      if (*off) unfused.push_back(off);
      Tiny once(DType::f64, tied, Recompute::none, 0, unfused), twice(DType::f64, tied, Recompute::none, 0, unfused);
      once.loss(true);
      for (int i = 0; i < 2; ++i) {
        twice.ctx->begin(twice.batch, true);
        twice.model->forward(*twice.ctx);
        twice.ctx->backward();
      }
      twice.store.finish_grads(*twice.ctx);
      for (const Param& p : once.model->params().params()) {
        if (p.tied) continue;
        const TensorView one = once.store.grad(p), two = twice.store.grad(*twice.model->params().find(p.name));
        double largest = 0, error = 0;
        for (int64_t i = 0; i < one.count(); ++i) {
          largest = std::max(largest, std::abs(one.as<double>()[i]));
          error = std::max(error, std::abs(two.as<double>()[i] - 2 * one.as<double>()[i]));
        }
        EXPECT_GT(largest, 0) << p.name;
        EXPECT_LE(error, 64 * 0x1p-53 * largest) << p.name << " " << off;  // a sum of 14 tokens and a chunk added to it
      }
      once.store.end_step();
      twice.store.end_step();
    }
}

TEST(Recompute, GivesTheSameBits) {
  for (DType t : {DType::f32, DType::bf16}) {
    double l0, l1, l2;
    Tiny none(t, true, Recompute::none, 0.2), cheap(t, true, Recompute::cheap, 0.2), full(t, true, Recompute::full, 0.2);
    auto g0 = all_gradients(none, l0), g1 = all_gradients(cheap, l1), g2 = all_gradients(full, l2);
    EXPECT_EQ(l0, l1);
    EXPECT_EQ(l0, l2);
    EXPECT_TRUE(g0 == g1);
    EXPECT_TRUE(g0 == g2);
  }
}

TEST(Accumulation, SecondMicroBatchAdds) {
  Tiny run(DType::f64, true, Recompute::cheap, 0);
  double once;
  auto g = all_gradients(run, once);
  for (int pass = 0; pass < 2; ++pass) {  // of one leaf: the second must add
    run.ctx->begin(run.batch, true);
    run.model->forward(*run.ctx);
    run.ctx->backward();
  }
  run.store.finish_grads(*run.ctx);
  size_t at = 0;
  for (const Param& p : run.model->params().params()) {
    if (p.tied || p.name == "model.embed_tokens.weight") {
      if (!p.tied) at += static_cast<size_t>(p.shape.count()) * 8;
      continue;
    }
    const double* two = run.store.grad(p).as<double>();
    for (int64_t i = 0; i < p.shape.count(); ++i) {
      double one;
      std::memcpy(&one, g.data() + at + static_cast<size_t>(i) * 8, 8);
      EXPECT_NEAR(two[i], 2 * one, 1e-15 + 4e-16 * std::abs(one)) << p.name;
    }
    at += static_cast<size_t>(p.shape.count()) * 8;
  }
}

TEST(Frozen, ParametersGetNoGradient) {
  Tiny run(DType::f64, false, Recompute::cheap, 0);
  apply_rules(run.model->params(), {{.match = "model.layers.0.*", .freeze = true},
                                    {.match = "model.layers.1.self_attn.q_proj.weight", .freeze = true}});
  FlatStore store(run.model->params(), run.types, DeviceKind::cpu);
  initialise(run.model->params(), store, 7);
  Ctx::Setup s;
  s.kernels = &run.kernels;
  s.arena = &run.arena;
  s.store = &store, s.grads = &store;
  s.stash = run.stash.get();
  s.types = run.types;
  Ctx c(s);
  c.begin(run.batch, true);
  run.model->forward(c);
  c.backward();
  store.finish_grads(c);
  for (const Param& p : run.model->params().params()) {
    TensorView g = store.grad(p);
    if (p.name.find("layers.0.") != std::string::npos) EXPECT_TRUE(g.absent()) << p.name;
    if (p.name == "model.layers.1.self_attn.q_proj.weight")
      for (int64_t i = 0; i < g.count(); ++i)
        ASSERT_EQ(g.as<double>()[i], 0) << "a frozen member of a joined product is cleared";
    if (p.name == "model.layers.1.self_attn.k_proj.weight") EXPECT_NE(g.as<double>()[0], 0);
  }
  store.end_step();
}

}  // namespace test_llama_gradients
}  // namespace ravine
