// Rules of ref that finite differences and goldens do not test: rounding, 16-bit arithmetic, optional tensors,
// aliasing, errors.
#include "tests/unit/harness.h"

namespace ravine {
namespace test_ref_rules {

const Kernels kRef = ref_kernels();

// The nearest 16-bit number to x, ties to even, by search among all of them.
template <class T>
double nearest(double x) {
  double best = INFINITY, value = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    T t;
    t.bits = static_cast<uint16_t>(bits);
    double v = static_cast<float>(t), distance = std::fabs(v - x);
    if (std::isinf(v) || !(distance < best || (distance == best && bits % 2 == 0))) continue;
    best = distance, value = v;
  }
  return value;
}

// A double next to a tie of 16 bits becomes this tie as a float, so rounding twice would be wrong.
TEST(RefRules, RoundsOnce) {
  std::vector<double> x;
  for (double base : {1.0, 1.5, 1 + 0x1p-7, 1 + 0x1p-10, 3e-6, 7.1e-8, 1234.0})
    for (double tie : {0x1p-8, 0x1p-11, 3 * 0x1p-8, 0x1p-25})
      for (double offset : {-0x1p-40, 0.0, 0x1p-40}) x.push_back(base * (1 + tie) * (1 + offset)), x.push_back(-x.back());
  Case c;
  auto n = static_cast<int64_t>(x.size());
  TensorView b = c.output(DType::bf16, {n}), h = c.output(DType::f16, {n}), in = c.doubles(x);
  kRef.of<Cast>().run({in, b}, nullptr);
  kRef.of<Cast>().run({in, h}, nullptr);
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(get(b, 0, i), nearest<bf16>(x[i])) << x[i];
    EXPECT_EQ(get(h, 0, i), nearest<f16>(x[i])) << x[i];
  }
}

// Rows without keys and rows outside segments: out 0, lse -inf, gradient 0.
TEST(RefRules, AttentionEmptyRows) {
  Case c;
  const Segment segments[] = {{1, 3, 0, 1}};  // causal: the first two queries are before the only key
  AttentionForward f;
  f.q = c.input(1, DType::f64, {5, 4}), f.k = c.input(2, DType::f64, {2, 4}), f.v = c.input(3, DType::f64, {2, 4});
  f.out = c.output(DType::f64, {5, 4}), f.lse = c.output(DType::f64, {1, 5}), f.at = {segments, 1, 1, 4, 1, true, 0};
  kRef.of<AttentionForward>().run(f, nullptr);
  for (int64_t i : {0, 1, 2, 4}) {
    EXPECT_EQ(get(f.lse, 0, i), -INFINITY) << i;
    for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(get(f.out, i, j), 0) << i;
  }
  for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(get(f.out, 3, j), get(f.v, 0, j));  // a single key
  AttentionBackward b;
  b.dout = c.input(4, DType::f64, {5, 4}), b.q = f.q, b.k = f.k, b.v = f.v, b.out = f.out, b.lse = f.lse, b.at = f.at;
  b.dq = c.output(DType::f64, {5, 4}), b.dk = c.output(DType::f64, {2, 4}), b.dv = c.output(DType::f64, {2, 4});
  kRef.of<AttentionBackward>().run(b, nullptr);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 4; ++j) EXPECT_NEAR(get(b.dq, i, j), 0, 0x1p-50) << i;  // one key: its probability is fixed
  for (int64_t j = 0; j < 4; ++j) {
    EXPECT_EQ(get(b.dv, 0, j), get(b.dout, 3, j));
    EXPECT_EQ(get(b.dv, 1, j), 0);
  }
}

// Probabilities are rounded to the type of q before the product with v: three equal probabilities in bf16 do not sum to
// 1.
TEST(RefRules, AttentionRoundsProbabilities) {
  Case c;
  const Segment segments[] = {{0, 1, 0, 3}};
  AttentionForward f;
  f.q = c.output(DType::bf16, {1, 2}).set({0, 0}), f.k = c.input(1, DType::bf16, {3, 2});
  f.v = c.output(DType::bf16, {3, 2}).set({1, 1, 1, 1, 1, 1}), f.out = c.output(DType::f64, {1, 2});
  f.at = {segments, 1, 1, 2, 1, true, 0};
  kRef.of<AttentionForward>().run(f, nullptr);
  EXPECT_EQ(get(f.out, 0, 0), 3 * nearest<bf16>(1.0 / 3));
}

// Without labels there is no loss and no gradient; accumulating into dweight adds.
TEST(RefRules, LossHeadLabels) {
  Case c;
  LossHead a;
  a.x = c.input(1, DType::f64, {70, 3}), a.weight = c.input(2, DType::f64, {5, 3});
  std::vector<int64_t> labels(70, -1);
  a.labels = c.integers(DType::i32, labels), a.losses = c.output(DType::f64, {70});
  a.dx = c.output(DType::f64, {70, 3}), a.dweight = c.input(3, DType::f64, {5, 3}), a.accumulate = true;
  auto before = values(a.dweight);
  kRef.of<LossHead>().run(a, nullptr);
  EXPECT_EQ(values(a.dweight), before);
  EXPECT_EQ(values(a.losses), std::vector<double>(70));
  EXPECT_EQ(values(a.dx), std::vector<double>(210));
  labels[66] = 4, a.labels = c.integers(DType::i32, labels);
  kRef.of<LossHead>().run(a, nullptr);
  auto added = values(a.dweight);
  a.accumulate = false;
  kRef.of<LossHead>().run(a, nullptr);
  auto alone = values(a.dweight);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(added[i], alone[i] + before[i]);
  labels[66] = 5, a.labels = c.integers(DType::i32, labels);
  EXPECT_THROW(kRef.of<LossHead>().run(a, nullptr), Error);
}

// The same bits for any number of threads, and in the memory of an input if the contract allows it.
TEST(RefRules, ThreadsAndAliasing) {
  Case c;
  int64_t n = 70, w = 300;
  RmsNormBackward b;
  b.dout = c.input(1, DType::f32, {n, w}), b.x = c.input(2, DType::f32, {n, w}), b.weight = c.input(3, DType::f32, {w});
  b.rstd = c.input(4, DType::f32, {n}), b.dsum = c.input(5, DType::f32, {n, w}), b.dx = c.output(DType::f32, {n, w});
  b.dweight = c.output(DType::f32, {w});
  Matmul m;
  m.a = b.dout, m.b = b.x, m.trans_b = true, m.out = c.output(DType::f32, {n, n});
  std::vector<std::vector<double>> first;
  for (int threads : {1, 2, 3}) {
    ThreadCount scope(threads);
    kRef.of<RmsNormBackward>().run(b, nullptr), kRef.of<Matmul>().run(m, nullptr);
    std::vector<std::vector<double>> now = {values(b.dx), values(b.dweight), values(m.out)};
    if (threads == 1) first = now;
    EXPECT_EQ(now, first) << threads << " threads";
  }
  b.dx = b.dsum;
  kRef.of<RmsNormBackward>().run(b, nullptr);
  EXPECT_EQ(values(b.dx), first[0]);
}

TEST(RefRules, Embedding) {
  Case c;
  EmbeddingBackward b;
  b.ids = c.integers(DType::i32, {2, 1, 2, 0}), b.dout = c.output(DType::f32, {4, 1}).set({1, 2, 4, 8});
  b.dweight = c.output(DType::f32, {4, 1}).set({10, 10, 10, 10}), b.padding_id = 1, b.accumulate = true;
  kRef.of<EmbeddingBackward>().run(b, nullptr);
  EXPECT_EQ(values(b.dweight), (std::vector<double>{18, 10, 15, 10}));
  b.accumulate = false;
  kRef.of<EmbeddingBackward>().run(b, nullptr);
  EXPECT_EQ(values(b.dweight), (std::vector<double>{8, 0, 5, 0}));
  b.ids = c.integers(DType::i32, {2, 1, 4, 0});
  EXPECT_THROW(kRef.of<EmbeddingBackward>().run(b, nullptr), Error);
}

TEST(RefRules, RefusesWrongShapes) {
  Case c;
  TensorView x = c.input(1, DType::f32, {3, 4}), y = c.output(DType::f32, {3, 5}), ids = c.integers(DType::i32, {0, 1, 2});
  EXPECT_THROW(kRef.of<Add>().run({x, x, y}, nullptr), Error);
  EXPECT_THROW(kRef.of<Add>().run({x, {}, x}, nullptr), Error);
  EXPECT_THROW(kRef.of<Cast>().run({ids, ids}, nullptr), Error);
  Matmul m;
  m.a = x, m.b = x, m.out = y;
  EXPECT_THROW(kRef.of<Matmul>().run(m, nullptr), Error);
  // Position 2 of 2.
  EXPECT_THROW(kRef.of<Rope>().run({x, ids, c.input(2, DType::f32, {2, 4}), 1, false}, nullptr), Error);
  const Segment overlapping[] = {{0, 2, 0, 2}, {1, 2, 1, 2}};
  AttentionForward f;
  f.q = f.k = f.v = x, f.out = c.output(DType::f32, {3, 4}), f.at = {overlapping, 1, 1, 4, 1, true, 0};
  EXPECT_THROW(kRef.of<AttentionForward>().run(f, nullptr), Error);
}

}  // namespace test_ref_rules
}  // namespace ravine
