// Tests of dropout in a model: the dropped share, the inputs of the mask, the gradient, and the rows of a rank under
// sequence parallelism. Dropout is for training only.
#include "engine/ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/backend.h"
#include "parallel/stash.h"
#include "tests/unit/engine_help.h"

namespace ravine {
namespace test_engine_dropout {

constexpr int64_t kRows = 64, kColumns = 256;
constexpr double kShare = 0.3;

// Rows 0 to kRows-1: 8 sequences of 8 positions.
struct Setting {
  explicit Setting(uint64_t seed = 5, const Group* tensor = nullptr) {
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(),
    s.types = Types::of(DType::f64);
    s.seed = seed, s.dropout = kShare;
    s.groups[static_cast<size_t>(Axis::tensor)] = tensor;
    s.sequence = tensor != nullptr;
    c = std::make_unique<Ctx>(s);
    for (int64_t i = 0; i < kRows; ++i) positions.push_back(static_cast<int32_t>(i % 8)), sequences.push_back(100 + i / 8);
    batch.tokens = kRows;
    batch.positions = view_of(positions.data(), DType::i32, {kRows});
    batch.sequences = view_of(sequences.data(), DType::i64, {kRows});
  }
  // The mask of one call times 1 / (1 - p): what ones become.
  std::vector<double> mask(uint32_t step, const std::string& path = "mlp", bool training = true) {
    batch.step = step;
    c->begin(batch, training);
    std::vector<double> out;
    const int64_t rows = c->stream_rows();
    c->block("model.layers.0", unit, {}, [&](Ctx& c, Flow) {
      Ctx::Scope scope(c, path);
      Tensor x = c.empty({rows, kColumns}, DType::f64);
      c.call(Fill{x.view(), 1});
      Tensor y = dropout(c, x);
      out.assign(y.view().as<double>(), y.view().as<double>() + rows * kColumns);
      return Flow{};
    });
    return out;
  }
  HeapArena arena;
  Kernels kernels = ref_kernels();
  LoggingStore store;
  std::unique_ptr<Stash> stash = make_stash(Recompute::none);
  Unit unit{"model.layers.0", {}, 0};
  std::vector<int32_t> positions;
  std::vector<int64_t> sequences;
  Batch batch;
  std::unique_ptr<Ctx> c;
};

// The share of n draws with probability p is within 5 standard deviations of p.
double spread(double p, double n) { return 5 * std::sqrt(p * (1 - p) / n); }

double share_of(const std::vector<double>& mask, auto f) {
  int64_t n = 0;
  for (size_t i = 0; i < mask.size(); ++i) n += f(i);
  return static_cast<double>(n) / static_cast<double>(mask.size());
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  Setting s;
  std::vector<double> m = s.mask(3);
  for (double x : m) ASSERT_TRUE(x == 0 || x == 1 / (1 - kShare)) << x;
  EXPECT_NEAR(share_of(m, [&](size_t i) { return m[i] == 0; }), kShare, spread(kShare, static_cast<double>(m.size())));
}

// Two independent masks differ where one drops and the other does not: in 2 p (1 - p) of the places.
void expect_independent(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  const double p = 2 * kShare * (1 - kShare);
  EXPECT_NEAR(share_of(a, [&](size_t i) { return a[i] != b[i]; }), p, spread(p, static_cast<double>(a.size()))) << what;
}

TEST(Dropout, AnotherMaskForEveryStepPathSeedAndRow) {
  Setting s;
  std::vector<double> m = s.mask(3);
  EXPECT_EQ(m, s.mask(3)) << "the same place has the same mask, so recompute and backward agree";
  expect_independent(m, s.mask(4), "steps");
  expect_independent(m, s.mask(3, "self_attn"), "paths");
  expect_independent(m, Setting(6).mask(3), "seeds");
  for (int64_t other : {1, 8}) {  // the next position, the next sequence
    std::vector<double> shifted(m.begin() + other * kColumns, m.end());
    expect_independent(shifted, {m.begin(), m.end() - other * kColumns}, fmt::format("rows {} apart", other));
  }
  std::vector<double> shifted(m.begin() + 4, m.end());
  expect_independent(shifted, {m.begin(), m.end() - 4}, "columns");
}

// Not by the place in the micro batch: rows may lie in any order, and on any rank.
TEST(Dropout, TheMaskFollowsTheSequenceAndThePosition) {
  Setting s, turned;
  std::reverse(turned.positions.begin(), turned.positions.end());
  std::reverse(turned.sequences.begin(), turned.sequences.end());
  std::vector<double> m = s.mask(3), t = turned.mask(3);
  for (int64_t i = 0; i < kRows; ++i)
    EXPECT_TRUE(std::equal(m.begin() + i * kColumns, m.begin() + (i + 1) * kColumns, t.begin() + (kRows - 1 - i) * kColumns))
        << "row " << i;
}

TEST(Dropout, UnderSequenceParallelismEachRankHasTheMaskOfItsRows) {
  std::vector<double> whole = Setting().mask(3), ranks;
  for (int rank = 0; rank < 4; ++rank) {
    FakeGroup group(rank, 4);
    std::vector<double> part = Setting(5, &group).mask(3);
    ranks.insert(ranks.end(), part.begin(), part.end());
  }
  EXPECT_EQ(ranks, whole);
}

TEST(Dropout, IsForTrainingOnly) {
  Setting s;
  EXPECT_EQ(s.mask(3, "mlp", false), std::vector<double>(kRows * kColumns, 1));
}

TEST(Dropout, TheGradientGoesThroughTheSameMask) {
  Setting s;
  std::vector<double> m = s.mask(3), gradient;
  s.c->begin(s.batch, true);
  TensorRef xr;
  s.c->block("model.layers.0", s.unit, {}, [&](Ctx& c, Flow) {
    Ctx::Scope scope(c, "mlp");
    Tensor x = c.empty({kRows, kColumns}, DType::f64);
    xr = x.ref();
    c.call(Fill{x.view(), 1});
    Tensor y = dropout(c, x);
    c.record("loss", {}, [yr = y.ref()](Ctx& c) {
      Tensor dy = c.empty(yr.shape, yr.dtype);
      c.call(Fill{dy.view(), 2});
      c.give_grad(yr, dy);
    });
    return Flow{};
  });
  s.c->backward({xr});
  TensorView g = s.c->grads().get(xr).view();
  for (int64_t i = 0; i < g.count(); ++i) ASSERT_EQ(g.as<double>()[i], 2 * m[static_cast<size_t>(i)]) << i;
}

}  // namespace test_engine_dropout
}  // namespace ravine
