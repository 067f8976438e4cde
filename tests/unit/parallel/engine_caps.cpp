// Ops with a soft cap, a scale or an offset: the loss head and the logits fused, unfused and cut over tensor ranks; the
// embedding; the norm; GEGLU beside its parts.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "engine/ops/embedding.h"
#include "engine/ops/geglu.h"
#include "engine/ops/gelu.h"
#include "engine/ops/logits.h"
#include "engine/ops/loss_head.h"
#include "engine/ops/rms_norm.h"
#include "kernels/backend.h"
#include "parallel/stash.h"
#include "tests/unit/engine_help.h"
#include "tests/unit/rank_threads.h"

namespace ravine {
namespace test_engine_caps {

using Numbers = std::vector<double>;

double number(uint64_t key, int64_t i) { return 2 * uniform24(philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0]) - 1; }

// A store of one parameter [rows, cols] in f64, cut over ranks by rows as vocabularies are: ceil(rows / ranks) each,
// padding at the end.
class OneParam : public LoggingStore {
 public:
  OneParam(int64_t rows, int64_t cols, int rank, int ranks)
      : padded(ceil_div(rows, ranks)), begin(padded * rank), count(std::clamp<int64_t>(rows - begin, 0, padded)), cols(cols) {
    param.name = "weight", param.shape = {rows, cols};
    values.resize(static_cast<size_t>(padded * cols)), grads.assign(values.size(), NAN);
    for (int64_t i = 0; i < count * cols; ++i) values[static_cast<size_t>(i)] = number(1, begin * cols + i);
  }
  TensorView value(const Param&) const override { return view(values); }
  TensorView master(const Param&) const override { return view(values); }
  Shape shape(const Param&) const override { return {padded, cols}; }
  TensorView add_to_grad(const Param&, bool& accumulate) override {
    accumulate = false;
    return view(grads);
  }
  Param param;
  int64_t padded, begin, count, cols;
  Numbers values, grads;

 private:
  TensorView view(const Numbers& v) const {
    return view_of(const_cast<double*>(v.data()), DType::f64,
                   padded == param.shape[0] && cols == 1 ? Shape{padded} : Shape{padded, cols});
  }
};

struct Result {
  Numbers loss, dx, dw, logits;
};

constexpr int64_t kTokens = 12, kChannels = 6, kVocabulary = 19;

// Loss, gradients and logits of one rank, or of several put together.
Result head(double cap, bool fused, int size, bool sequence, bool unit_rows, const Kernels& kernels = ref_kernels()) {
  Result all;
  all.loss.assign(1, 0), all.dw.assign(kVocabulary * kChannels, NAN), all.dx.assign(kTokens * kChannels, NAN);
  std::mutex mutex;
  Mesh mesh;
  mesh.tensor = size;
  on_ranks(mesh, [&](const Ranks& ranks) {
    HeapArena arena;
    OneParam store(kVocabulary, kChannels, ranks.at().tensor, size);
    std::unique_ptr<Stash> stash = make_stash(Recompute::none);
    Recipe recipe;
    if (!fused) recipe.unfuse("loss_head");
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.recipe = &recipe,
    s.types = Types::of(DType::f64);
    s.groups[static_cast<size_t>(Axis::tensor)] = &ranks.along(Axis::tensor), s.sequence = sequence;
    Ctx c(s);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < kTokens; ++i) labels.push_back(i % 5 == 3 ? -100 : static_cast<int32_t>((7 * i) % kVocabulary));
    Batch batch;
    batch.tokens = kTokens, batch.labels = view_of(labels.data(), DType::i32, {kTokens}), batch.grad_scale = 0.25;
    auto input = [&] {
      Tensor x = c.empty({c.stream_rows(), kChannels}, DType::f64);
      for (int64_t i = 0; i < x.view().count(); ++i) x.view().as<double>()[i] = 3 * number(2, c.stream_begin() * kChannels + i);
      return x;
    };
    Unit unit{"head", {}, 0};
    const LinearParams product{.weights = {&store.param}};
    c.begin_step(1);
    c.begin(batch, true);
    TensorRef xr;
    c.block("head", unit, {}, [&](Ctx& c, Flow) {
      Tensor x = input();
      xr = x.ref();
      loss_head(c, x, product, unit_rows, cap);
      return Flow{};
    });
    c.backward({xr});
    TensorView dx = c.grads().get(xr).view();
    std::lock_guard lock(mutex);
    all.loss[0] += c.step_sums().total(StepSum::loss).value();
    std::copy_n(dx.as<double>(), dx.count(), all.dx.begin() + c.stream_begin() * kChannels);
    std::copy_n(store.grads.begin(), store.count * kChannels, all.dw.begin() + store.begin * kChannels);
  });
  on_ranks(mesh, [&](const Ranks& ranks) {
    HeapArena arena;
    OneParam store(kVocabulary, kChannels, ranks.at().tensor, size);
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.types = Types::of(DType::f64);
    s.groups[static_cast<size_t>(Axis::tensor)] = &ranks.along(Axis::tensor);
    Ctx c(s);
    Batch batch;
    batch.tokens = kTokens;
    c.begin(batch, false);
    Tensor x = c.empty({kTokens, kChannels}, DType::f64);
    for (int64_t i = 0; i < x.view().count(); ++i) x.view().as<double>()[i] = 3 * number(2, i);
    Tensor y = logits(c, x, {.weights = {&store.param}}, unit_rows, cap);
    std::lock_guard lock(mutex);
    all.logits.assign(y.view().as<double>(), y.view().as<double>() + y.view().count());
  });
  return all;
}

void expect_near(const Numbers& got, const Numbers& want, double bound, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << what << " " << i;
}

TEST(LossHead, CappedFusedUnfusedAndCutOverTheVocabulary) {
  for (double cap : {0.0, 0.7, 5.0})
    for (bool unit_rows : {false, true}) {
      const Result want = head(cap, true, 1, false, unit_rows);
      if (cap != 0)
        for (double y : want.logits) EXPECT_LT(std::abs(y), cap);
      for (auto [fused, size, sequence] :
           {std::tuple{false, 1, false}, {true, 2, false}, {true, 2, true}, {true, 4, true}, {true, 12, false}}) {
        const std::string what =
            fmt::format("cap {}, fused {}, ranks {}, sequence {}, unit rows {}", cap, fused, size, sequence, unit_rows);
        const Result got = head(cap, fused, size, sequence, unit_rows);
        expect_near(got.loss, want.loss, 1e-12, "loss, " + what), expect_near(got.dx, want.dx, 1e-13, "dx, " + what);
        expect_near(got.dw, want.dw, 1e-13, "dw, " + what), expect_near(got.logits, want.logits, 1e-13, "logits, " + what);
      }
    }
}

// The loss of the capped head is computed from the capped logits.
TEST(LossHead, ItsLossIsThatOfTheLogits) {
  const Result r = head(0.7, true, 1, false, false);
  double loss = 0;
  for (int64_t i = 0; i < kTokens; ++i) {
    if (i % 5 == 3) continue;
    double sum = 0;
    for (int64_t v = 0; v < kVocabulary; ++v) sum += std::exp(r.logits[static_cast<size_t>(i * kVocabulary + v)]);
    loss += std::log(sum) - r.logits[static_cast<size_t>(i * kVocabulary + (7 * i) % kVocabulary)];
  }
  EXPECT_NEAR(r.loss[0], loss, 1e-12);
}

// One op of a parameter and an input, its output and the gradients of both for dy = number(3, .).
struct Alone {
  Alone(int64_t rows, int64_t cols, const Kernels& table = ref_kernels()) : kernels(table), store(rows, cols, 0, 1) {
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(),
    s.types = Types::of(DType::f64);
    c = std::make_unique<Ctx>(s);
  }
  template <class F>
  Numbers run(F&& op, Shape in, Numbers* dx = nullptr) {
    Numbers out;
    TensorRef xr;
    c->begin(batch, true);
    c->block("block", unit, {}, [&](Ctx& c, Flow) {
      Tensor x = c.empty(in, DType::f64);
      for (int64_t i = 0; i < x.view().count(); ++i) x.view().as<double>()[i] = 2 * number(2, i);
      xr = x.ref();
      Tensor y = op(c, std::move(x));
      out.assign(y.view().as<double>(), y.view().as<double>() + y.view().count());
      c.record("loss", {}, [yr = y.ref()](Ctx& c) {
        Tensor dy = c.empty(yr.shape, yr.dtype);
        for (int64_t i = 0; i < dy.view().count(); ++i) dy.view().as<double>()[i] = number(3, i);
        c.give_grad(yr, dy);
      });
      return Flow{};
    });
    c->backward({xr});
    if (dx) {
      TensorView g = c->grads().get(xr).view();
      dx->assign(g.as<double>(), g.as<double>() + g.count());
    }
    return out;
  }
  Kernels kernels;
  HeapArena arena;
  OneParam store;
  std::unique_ptr<Stash> stash = make_stash(Recompute::cheap);
  Unit unit{"block", {}, 0};
  Batch batch;
  std::unique_ptr<Ctx> c;
};

TEST(Embedding, Scaled) {
  std::vector<int32_t> ids = {3, 1, 3, 0};
  auto run = [&](double scale, Numbers& dw) {
    Alone a(5, 7);
    a.batch.tokens = 4, a.batch.ids = view_of(ids.data(), DType::i32, {4});
    Numbers out = a.run([&](Ctx& c, Tensor) { return embedding(c, a.store.param, 1, scale); }, {1, 1});
    dw = a.store.grads;
    return out;
  };
  Numbers one, two, plain = run(1, one), doubled = run(2, two);
  for (double& x : plain) x *= 2;
  for (double& x : one) x *= 2;
  EXPECT_EQ(plain, doubled);
  EXPECT_EQ(one, two);
}

// A weight of w at offset 1 is one of 1 + w at none: rebuilt outputs too.
TEST(RmsNorm, TheOffsetIsAddedToTheWeight) {
  auto run = [](double offset, Numbers& dx, Numbers& dw) {
    Alone a(9, 1);
    if (offset == 0)
      for (double& w : a.store.values) w += 1;
    a.batch.tokens = 4;
    Numbers out = a.run(
        [&](Ctx& c, Tensor x) {
          return gelu(c, rms_norm(c, {std::move(x), {}}, a.store.param, 1e-5, offset).out, GeluForm::tanh);
        },
        {4, 9}, &dx);
    dw = a.store.grads;
    return out;
  };
  Numbers dx, dw, want_dx, want_dw, want = run(0, want_dx, want_dw), got = run(1, dx, dw);
  EXPECT_EQ(want, got);
  EXPECT_EQ(want_dx, dx);
  EXPECT_EQ(want_dw, dw);
}

TEST(Geglu, IsGeluTimesUp) {
  Alone a(1, 1);
  a.batch.tokens = 4;
  Numbers dx;
  const Numbers got = a.run([](Ctx& c, Tensor x) { return geglu(c, x); }, {4, 14}, &dx);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 7; ++j) {
      const double g = 2 * number(2, i * 14 + j), up = 2 * number(2, i * 14 + 7 + j),
                   t = std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g));
      EXPECT_NEAR(got[static_cast<size_t>(i * 7 + j)], 0.5 * g * (1 + t) * up, 1e-15 * 8);
      EXPECT_NEAR(dx[static_cast<size_t>(i * 14 + 7 + j)], number(3, i * 7 + j) * 0.5 * g * (1 + t), 1e-15 * 8);
    }
}

}  // namespace test_engine_caps
}  // namespace ravine
