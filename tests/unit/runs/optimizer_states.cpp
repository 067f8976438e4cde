// Tests of states per row, block and tensor. A rule that sees rows, matrices or whole tensors gives the same bits as on
// one rank, for every way to divide a model. A resume from any other way gives the same bits, too. First with a rule of
// this test, then with all rules of the options.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>

#include "config/load.h"
#include "io/checkpoint.h"
#include "io/slices.h"
#include "kernels/backend.h"
#include "optim/make_update_rule.h"
#include "parallel/initialise.h"
#include "parallel/stash.h"
#include "runs/run_state.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/rank_threads.h"

namespace ravine {
namespace test_optimizer_states {

using Per = StateDeclaration::Per;

// A rule whose states are a moment like the parameter, a sum of squares of each row, and the largest number of each
// block of 5. If it sees whole tensors, it also has their sum of squares.
class ItemRule : public UpdateRule {
 public:
  explicit ItemRule(Whole sees) : sees_(sees) {}
  std::vector<StateDeclaration> states() const override {
    std::vector<StateDeclaration> out{{.name = "moment"},
                                      {.name = "rows", .per = Per::row},
                                      {.name = "blocks", .per = Per::block, .block = 5, .type = DType::f32}};
    if (sees_ == Whole::tensor) out.push_back({.name = "whole", .per = Per::tensor});
    return out;
  }
  Whole sees() const override { return sees_; }
  void update(Ctx&, const UpdateViews& v, int64_t step, double lr, double scale) const override {
    EXPECT_TRUE(v.copy.absent());
    ASSERT_EQ(v.spans.size(), 1u);
    if (v.param.data) visit_float(v.param.dtype, [&](auto zero) { run<decltype(zero)>(v, step, lr, scale); });
  }

 private:
  template <class T>
  void run(const UpdateViews& v, int64_t step, double lr, double scale) const {
    const int64_t items = v.param.shape[0], size = v.param.count() / items, columns = v.param.shape[-1], rows = size / columns,
                  blocks = ceil_div(columns, int64_t{5});
    ASSERT_EQ(v.states[1].count(), items * rows);
    ASSERT_EQ(v.states[2].count(), items * rows * blocks);
    for (int64_t item = 0; item < items; ++item) {
      const T* g = v.grad.as<T>() + item * size;
      T *w = v.param.as<T>() + item * size, *m = v.states[0].as<T>() + item * size;
      double whole = 0;
      for (int64_t i = 0; i < size; ++i) whole += std::pow(scale * static_cast<double>(static_cast<float>(g[i])), 2);
      if (sees_ == Whole::tensor) {
        T& kept = v.states[3].as<T>()[item];
        kept = static_cast<T>(0.9 * static_cast<double>(static_cast<float>(kept)) + whole);
        whole = static_cast<double>(static_cast<float>(kept));
      }
      for (int64_t r = 0; r < rows; ++r) {
        T& row = v.states[1].as<T>()[item * rows + r];
        double sum = 0;
        for (int64_t i = 0; i < columns; ++i) sum += std::pow(static_cast<double>(static_cast<float>(g[r * columns + i])), 2);
        row = static_cast<T>(static_cast<float>(0.5 * static_cast<double>(static_cast<float>(row)) + sum));
        for (int64_t i = 0; i < columns; ++i) {
          const int64_t at = r * columns + i;
          float& block = v.states[2].as<float>()[(item * rows + r) * blocks + i / 5];
          block = std::max(block, std::abs(static_cast<float>(g[at])));
          m[at] = static_cast<T>(static_cast<float>(0.9 * static_cast<double>(static_cast<float>(m[at])) +
                                                    static_cast<double>(static_cast<float>(g[at]))));
        }
        for (int64_t i = 0; i < columns; ++i) {
          const int64_t at = r * columns + i;
          const double step_size = lr * v.spans[0].lr_mult /
                                   (1 + std::sqrt(static_cast<double>(static_cast<float>(row))) + 0.1 * std::sqrt(whole) +
                                    static_cast<double>(step));
          const double block = static_cast<double>(v.states[2].as<float>()[(item * rows + r) * blocks + i / 5]);
          w[at] = static_cast<T>(
              static_cast<float>(static_cast<double>(static_cast<float>(w[at])) * (1 - lr * v.spans[0].weight_decay) -
                                 step_size * static_cast<double>(static_cast<float>(m[at])) / (1 + block)));
        }
      }
    }
  }
  Whole sees_;
};

Json shape() {
  return {{"model_type", "llama"},    {"hidden_size", 32},        {"intermediate_size", 44}, {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"num_key_value_heads", 1}, {"vocab_size", 61},        {"max_position_embeddings", 32},
          {"initializer_range", 0.3}, {"attention_bias", true}};
}

struct Layout {
  int data = 1, tensor = 1, zero = 0;
  std::string text() const { return fmt::format("data {}, tensor {}, ZeRO {}", data, tensor, zero); }
};

using Numbers = std::map<std::string, std::vector<double>>;  // by name in checkpoints

// Steps first..last; made-up gradients, whole numbers that data ranks share out, so that their sums are exact.
using MakeRule = std::function<std::unique_ptr<UpdateRule>()>;

MakeRule item_rule(Whole sees) {
  return [sees] { return std::make_unique<ItemRule>(sees); };
}

Numbers trained(const MakeRule& make_rule, const Types& types, const Layout& layout, int first, int last,
                const std::string& from, const std::string& to, bool* whole = nullptr) {
  Numbers out;
  std::map<std::string, std::vector<Box>> saved;
  std::map<std::string, Shape> shapes;
  std::mutex mutex;
  on_ranks({.data = layout.data, .tensor = layout.tensor}, [&](const Ranks& ranks) {
    std::unique_ptr<Model> model = make_model(shape(), "test");
    ParamSet& set = model->params();
    for (const char* name : {"model.layers.0.mlp.up_proj.weight", "model.layers.1.self_attn.o_proj.weight",
                             "model.layers.1.mlp.down_proj.weight", "model.layers.1.input_layernorm.weight"})
      set.find(name)->policy.trainable = false;
    set.find("model.layers.0.self_attn.q_proj.weight")->policy.lr_mult = 3;
    HeapArena arena;
    const Kernels kernels = ref_kernels();
    const auto stash = make_stash(Recompute::none);
    FlatStore store(set, types, DeviceKind::cpu,
                    {.zero = layout.zero, .whole_below = 100, .first_rank_saves = make_rule()->diverges(), .ranks = &ranks});
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.types = types;
    for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) s.groups[static_cast<size_t>(axis)] = &ranks.along(axis);
    Ctx c(s);
    store.attach(c);
    OptimizerOptions options;
    options.clip_norm = 100;
    Optimizer optimizer(options, store, DeviceKind::cpu, ranks.at().tensor, layout.tensor, make_rule(), layout.data,
                        ranks.at().data);
    if (from.empty()) {
      initialise(store, 5);
      store.refresh_copies(c);
    } else {
      const bool kept = restore(store, optimizer, c, *model, CheckpointReader(from, true));
      if (whole && ranks.first()) *whole = kept;
    }
    for (int step = first; step <= last; ++step) {
      store.keep_unreduced(optimizer.wants_unreduced());
      for (Unit& u : set.units()) store.open_grads(c, u);
      for (const Param& p : set.params()) {
        if (p.tied) continue;
        bool accumulate = false;
        const TensorView g = store.add_to_grad(p, accumulate);
        if (g.absent()) continue;
        const std::vector<int64_t> begin = local_begin(p, ranks.at().tensor, layout.tensor);
        const Shape local = local_shape(p, layout.tensor);
        for (int64_t i = 0; i < g.count(); ++i) {
          int64_t rest = i, at = 0, scale = 1;
          bool real = true;
          for (int d = local.rank() - 1; d >= 0; --d) {
            const int64_t index = begin[static_cast<size_t>(d)] + rest % local[d];
            real = real && index < p.shape[d];
            at += index * scale;
            rest /= local[d], scale *= p.shape[d];
          }
          const int64_t whole = real ? (at * 7 + static_cast<int64_t>(p.index) * 13 + step * 5) % 23 - 11 : 0;
          const int64_t share = ranks.at().data == 0 ? whole - (layout.data - 1) * 3 : 3;
          // Each of the ranks that hold the same key/value head has a part of its gradient.
          const int n = replicas_of(p, layout.tensor);
          const auto value = static_cast<float>(real && (n == 1 || ranks.at().tensor % n == 0) ? share : 0);
          visit_float(g.dtype, [&](auto zero) { g.as<decltype(zero)>()[i] = decltype(zero)(value); });
        }
      }
      for (Unit& u : set.units()) store.close_grads(c, u);
      store.finish_grads(c);
      optimizer.update(c, 0.25, optimizer.grad_norm(c, ranks.all()), {});
      store.end_step();
      EXPECT_EQ(arena.live(), 0);
    }
    if (!to.empty()) {
      CheckpointWriter writer(ranks.rank(), ranks.size(), 7);
      TrainState state = state_of(store, optimizer);
      state.scalars["step"] = last;
      writer.save(to, last, state, 0);
      writer.wait();
      EXPECT_EQ(writer.take_warning().value_or(""), "");
      ranks.all().barrier();
    }
    std::lock_guard lock(mutex);
    auto note = [&](const std::string& name, const TensorView& view, const Shape& global, const std::vector<int64_t>& begin) {
      std::vector<double>& whole = out[name];
      whole.resize(static_cast<size_t>(global.count()), NAN);
      each_shared_run(
          {begin, view.shape}, {std::vector<int64_t>(static_cast<size_t>(global.rank())), global}, [&](const Run& r) {
            for (int64_t i = 0; i < r.count; ++i) {
              const double x = view.dtype == DType::f64   ? view.as<double>()[r.from + i]
                               : view.dtype == DType::f32 ? view.as<float>()[r.from + i]
                               : view.dtype == DType::f16 ? static_cast<float>(view.as<f16>()[r.from + i])
                                                          : static_cast<float>(view.as<bf16>()[r.from + i]);
              double& position = whole[static_cast<size_t>(r.to + i)];
              EXPECT_TRUE(std::isnan(position) || position == x) << name << ": ranks that keep the same differ at " << r.to + i;
              position = x;
            }
          });
    };
    for (const StateTensor& t : state_of(store, optimizer, StateFor::reading).tensors)
      if (t.own || !optimizer.diverged() || ranks.first()) note(t.name, t.view, t.global, t.begin);
    for (const StateTensor& t : state_of(store, optimizer, StateFor::writing).tensors)
      saved[t.name].push_back({t.begin, t.view.shape}), shapes[t.name] = t.global;
    for (size_t b = 0; b < store.buckets().size(); ++b) {
      const TensorView master = store.owned_master(b), copy = store.owned_copy(b);
      for (int64_t i = 0; !copy.absent() && !master.absent() && i < master.count(); ++i)
        ASSERT_EQ(static_cast<float>(copy.as<bf16>()[i]), static_cast<float>(bf16(master.as<float>()[i])))
            << "copies follow their masters";
    }
  });
  for (const auto& [name, boxes] : saved)
    EXPECT_EQ(cover_fault(shapes[name], boxes), "") << name << ": saved once, " << layout.text();
  EXPECT_EQ(saved.size(), out.size());
  return out;
}

void expect_same(const Numbers& want, const Numbers& got, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (const auto& [name, numbers] : want) EXPECT_TRUE(got.contains(name) && got.at(name) == numbers) << what << ": " << name;
}

const std::vector<Layout> kLayouts = {{2, 1, 0}, {2, 1, 1}, {2, 1, 2}, {2, 1, 3}, {3, 1, 1}, {5, 1, 3}, {1, 2, 0},
                                      {1, 4, 0}, {2, 2, 0}, {2, 2, 1}, {2, 2, 2}, {2, 2, 3}, {3, 2, 3}};

TEST(ItemStates, EveryLayoutGivesTheBitsOfOneRank) {
  for (Whole sees : {Whole::row, Whole::matrix, Whole::tensor}) {
    const Numbers one = trained(item_rule(sees), Types::of(DType::f64), {}, 1, 3, "", "");
    EXPECT_EQ(one.contains("whole/lm_head.weight"), sees == Whole::tensor);
    EXPECT_EQ(one.at("rows/lm_head.weight").size(), 61u);
    EXPECT_EQ(one.at("rows/model.norm.weight").size(), 1u) << "a vector is one row";
    EXPECT_EQ(one.at("blocks/lm_head.weight").size(), 61u * 7);
    EXPECT_EQ(one.count("moment/model.layers.1.mlp.down_proj.weight") + one.count("moment/model.layers.0.mlp.up_proj.weight"),
              0u)
        << "frozen";
    for (const Layout& layout : kLayouts)
      expect_same(one, trained(item_rule(sees), Types::of(DType::f64), layout, 1, 3, "", ""),
                  fmt::format("{}, {}", static_cast<int>(sees), layout.text()));
  }
}

// Options of each type, which its rule refers to.
const OptimizerOptions& options_of_type(const std::string& type) {
  static std::map<std::string, OptimizerOptions> all;
  OptimizerOptions& o = all[type];
  o = parse_config("", "test", {{"optimizer.type", type}, {"optimizer.weight_decay", "0.1"}}).optimizer;
  o.relative_step = false;
  if (type == "adafactor") o.beta1 = 0.5;
  return o;
}

class EveryRule : public testing::TestWithParam<const char*> {};

TEST_P(EveryRule, GivesTheBitsOfOneRankInEveryLayout) {
  const OptimizerOptions& options = options_of_type(GetParam());
  const MakeRule make = [&] { return make_update_rule(options); };
  const Numbers one = trained(make, Types::of(DType::f64), {}, 1, 3, "", "");
  const Numbers start = trained(make, Types::of(DType::f64), {}, 1, 0, "", "");
  for (const auto& [name, numbers] : one)
    for (double x : numbers) ASSERT_TRUE(std::isfinite(x)) << name;
  EXPECT_NE(one.at("weights/lm_head.weight"), start.at("weights/lm_head.weight")) << "it learns";
  for (const Layout& layout : kLayouts)
    expect_same(one, trained(make, Types::of(DType::f64), layout, 1, 3, "", ""), layout.text());
  // And goes on from a checkpoint of another.
  TemporaryFolder dir;
  trained(make, Types::of(DType::f64), {2, 2, 3}, 1, 2, "", dir / "saved");
  expect_same(one, trained(make, Types::of(DType::f64), {3, 1, 1}, 3, 3, dir / "saved" + "/" + checkpoint_name(2), ""),
              "resumed");
}

INSTANTIATE_TEST_SUITE_P(Types, EveryRule,
                         testing::Values("adamw", "adam", "sgd", "adagrad", "adafactor", "lamb", "lion", "muon", "came",
                                         "cadam"),
                         [](const auto& info) { return std::string(info.param); });

// A run with the same number of ranks resumes the states of each rank. A run with another number drops them, with a
// warning. The checkpoint is before, at or after the step in which ranks diverge.
TEST(ItemStates, RanksGoOnWithTheirOwn) {
  for (const char* type : {"onebit_adam", "zeroone_adam", "onebit_lamb"}) {
    static std::map<std::string, OptimizerOptions> all;
    OptimizerOptions& o = all[type] = parse_config("", "test", {{"optimizer.type", type}}).optimizer;
    o.freeze_step = o.var_freeze_step = 2, o.local_step_scaler = 1;
    const MakeRule make = [&] { return make_update_rule(o); };
    const bool parts = o.type == OptimizerType::zeroone_adam;
    // The variance changes for the last time in step var_freeze_step + 1 for DeepSpeed's ZeroOneAdam, in step
    // freeze_step for the others.
    const int alone = parts ? 4 : 3;
    for (int step = 2; step < 9; ++step) EXPECT_EQ(make()->wants_unreduced(step), step >= alone) << type << " " << step;
    EXPECT_EQ(make()->unreduced_from(), alone) << type;
    const Numbers left_alone = trained(make, Types::of(DType::f64), {2, 1, 0}, 1, 9, "", "");
    EXPECT_TRUE(left_alone.contains("rank_00001/errors/model.norm.weight") || o.type == OptimizerType::onebit_lamb);
    for (const int step : {2, 3, 4, 5, 6}) {
      const std::string what = fmt::format("{}, step {}", type, step);
      TemporaryFolder dir;
      const Numbers then = trained(make, Types::of(DType::f64), {2, 1, 0}, 1, step, "", dir / "saved");
      for (const char* state : {"weights", "m", "momentum_accumulator"})
        EXPECT_EQ(then.contains(fmt::format("rank_00001/{}/lm_head.weight", state)), parts && step >= alone) << what << state;
      bool errors = false;
      for (const auto& [name, numbers] : then)
        if (name.find("/errors/") != std::string::npos)
          errors = errors || std::any_of(numbers.begin(), numbers.end(), [](double x) { return x != 0; });
      if (!parts) EXPECT_EQ(errors, step >= alone) << what << ": what is summed exactly leaves no errors";
      const std::string saved = dir / "saved" + "/" + checkpoint_name(step);
      bool whole = false;
      expect_same(left_alone, trained(make, Types::of(DType::f64), {2, 1, 0}, step + 1, 9, saved, "", &whole), what);
      EXPECT_TRUE(whole) << what;
      for (const int others : {1, 3}) {
        const Numbers got = trained(make, Types::of(DType::f64), {others, 1, 0}, step + 1, step, saved, "", &whole);
        EXPECT_FALSE(whole) << what << ", " << others << " ranks";
        for (const auto& [name, numbers] : got)
          if (name.find("/errors/") != std::string::npos)
            EXPECT_EQ(std::count(numbers.begin(), numbers.end(), 0.0), static_cast<int64_t>(numbers.size())) << name;
      }
    }
  }
}

TEST(ItemStates, SixteenBitsToo) {
  const Numbers one = trained(item_rule(Whole::tensor), Types::of(DType::bf16), {}, 1, 2, "", "");
  for (const Layout& layout : std::vector<Layout>{{2, 1, 1}, {2, 1, 3}, {2, 2, 2}})
    expect_same(one, trained(item_rule(Whole::tensor), Types::of(DType::bf16), layout, 1, 2, "", ""), layout.text());
}

// precision.gradients=compute: gradients that are widened during the update give the bits of gradients kept in f32
// (they are integers, which bf16 holds). All rules and all ways to divide the model are tested.
TEST_P(EveryRule, GivesTheSameBitsFromGradientsOf16Bits) {
  const OptimizerOptions& options = options_of_type(GetParam());
  const MakeRule make = [&] { return make_update_rule(options); };
  const Numbers wide = trained(make, Types::of(DType::bf16), {}, 1, 3, "", "");
  for (const Layout& layout : std::vector<Layout>{{}, {2, 1, 1}, {2, 1, 3}, {2, 2, 2}})
    expect_same(wide, trained(make, Types::of(DType::bf16, GradientType::compute), layout, 1, 3, "", ""), layout.text());
}

TEST(ItemStates, ACheckpointGoesOnInAnyOtherLayout) {
  TemporaryFolder dir;
  for (Whole sees : {Whole::row, Whole::tensor}) {
    const Numbers one = trained(item_rule(sees), Types::of(DType::f64), {}, 1, 4, "", "");
    for (const Layout& before : std::vector<Layout>{{}, {2, 2, 1}, {3, 1, 3}, {1, 4, 0}}) {
      const std::string folder = dir / fmt::format("{} {}", static_cast<int>(sees), before.text());
      trained(item_rule(sees), Types::of(DType::f64), before, 1, 2, "", folder);
      for (const Layout& after : std::vector<Layout>{{}, {2, 1, 0}, {2, 2, 3}, {1, 2, 0}})
        expect_same(one, trained(item_rule(sees), Types::of(DType::f64), after, 3, 4, folder + "/" + checkpoint_name(2), ""),
                    before.text() + " to " + after.text());
    }
  }
}

TEST(ItemStates, BytesFollowFromTheDeclaration) {
  const ItemRule rule(Whole::tensor);
  const Param matrix{.name = "w", .shape = {6, 13}}, vector{.name = "b", .shape = {13}};
  EXPECT_EQ(state_bytes(rule, matrix, DType::f32), 4 * (6 * 13 + 6 + 6 * 3 + 1));
  EXPECT_EQ(state_bytes(rule, vector, DType::f32), 4 * (13 + 1 + 3 + 1));
  EXPECT_EQ(state_bytes(rule, matrix, DType::f64), 8 * (6 * 13 + 6 + 1) + 4 * 6 * 3) << "blocks are declared in f32";
  std::unique_ptr<Model> model = make_model(shape(), "test");
  for (const auto& [data, zero] : {std::pair{1, 0}, {2, 0}, {2, 1}, {3, 3}}) {
    int64_t kept = 0, all = 0;
    for (int rank = 0; rank < data; ++rank) {
      Ranks ranks = Ranks::fake({.data = data}, rank);
      FlatStore store(model->params(), Types::of(DType::f32), DeviceKind::meta,
                      {.zero = zero, .whole_below = 10, .ranks = &ranks});
      Optimizer optimizer({}, store, DeviceKind::meta, 0, 1, std::make_unique<ItemRule>(Whole::tensor));
      int64_t planned = 0;
      for (const Bucket& b : store.buckets()) planned += state_bytes(rule, b, 1);
      EXPECT_EQ(optimizer.bytes(), planned) << "what is planned is what is held";
      kept += planned;
    }
    for (const Param& p : model->params().params()) all += state_bytes(rule, p, DType::f32);
    // Buckets below the threshold are kept by all.
    EXPECT_EQ(kept, zero == 0 ? all * data : all) << data << " " << zero;
  }
}

class Wrong : public UpdateRule {
 public:
  std::vector<StateDeclaration> states() const override { return {{.name = "rows", .per = Per::row}}; }
  void update(Ctx&, const UpdateViews&, int64_t, double, double) const override {}
};

TEST(ItemStates, AStateOfWhatIsNotSeenWholeIsRefused) {
  std::unique_ptr<Model> model = make_model(shape(), "test");
  FlatStore store(model->params(), Types::of(DType::f32), DeviceKind::meta);
  EXPECT_THROW(Optimizer({}, store, DeviceKind::meta, 0, 1, std::make_unique<Wrong>()), Error);
}

}  // namespace test_optimizer_states
}  // namespace ravine
