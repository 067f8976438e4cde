// The matrix product of cpu against ref. An element is a sum of K products, perhaps with a bias and the old value. Its
// error is at most gamma(K + 3) times the sum of their magnitudes: in any order, with or without fused multiply-adds.
#include "tests/unit/harness.h"

namespace ravine {
namespace test_cpu_matmul {

struct Product {
  int64_t m, n, k;
};
// Sizes around tiles, panels and groups of K.
const Product kProducts[] = {{1, 1, 1},     {1, 40, 257},   {7, 10, 40},   {33, 257, 10},   {5, 768, 40},    {64, 96, 768},
                             {3, 17, 1030}, {40, 24, 2100}, {1030, 10, 7}, {130, 130, 130}, {200, 300, 1025}};

// `out_type`: the type of the operands, or f32. `gap`: between rows of an a that is not transposed.
void check_product(DType t, DType out_type, Product p, bool trans_a, bool trans_b, bool accumulate, bool bias, bool tokens,
                   const Kernels& kernels = cpu_kernels(), int64_t gap = 5) {
  Case c;
  Matmul a;
  a.a = trans_a ? c.input(1, t, {p.k, p.m}, 3) : c.input(1, t, {p.m, p.k}, gap);
  a.b = trans_b ? c.input(2, t, {p.n, p.k}, 1) : c.input(2, t, {p.k, p.n}, 4);
  if (bias) a.bias = c.input(3, t, {p.n});
  a.out = accumulate ? c.input(4, out_type, {p.m, p.n}, 2) : c.output(out_type, {p.m, p.n}, 2);
  a.trans_a = trans_a, a.trans_b = trans_b, a.accumulate = accumulate, a.tokens_reduced = tokens;
  auto magnitude = run_ref(a, true)["out"];
  expect_close(
      run_both(a, kernels)["out"], [&](int64_t i) { return gamma32(p.k + 3) * magnitude[i]; },
      fmt::format("{}{} x {}{}, m {} n {} k {}, accumulate {} bias {} tokens {}", name(t), trans_a ? "^T" : "", name(t),
                  trans_b ? "^T" : "", p.m, p.n, p.k, accumulate, bias, tokens));
  c.expect_intact();
}

class CpuMatmul : public testing::TestWithParam<DType> {};

TEST_P(CpuMatmul, Forward) {  // out = x W^T + bias
  SKIP_WITHOUT(Matmul);
  for (Product p : kProducts)
    for (DType out : {GetParam(), DType::f32})
      for (bool bias : {false, true})
        for (bool accumulate : {false, true}) check_product(GetParam(), out, p, false, true, accumulate, bias, false);
}

TEST_P(CpuMatmul, InputGradient) {  // dx = dout W
  SKIP_WITHOUT(Matmul);
  for (Product p : kProducts)
    for (bool accumulate : {false, true}) check_product(GetParam(), GetParam(), p, false, false, accumulate, false, false);
}

TEST_P(CpuMatmul, WeightGradient) {  // dW (+)= dout^T x, f32, over tokens
  SKIP_WITHOUT(Matmul);
  for (Product p : kProducts)
    for (bool accumulate : {false, true}) check_product(GetParam(), DType::f32, p, true, false, accumulate, false, true);
}

TEST_P(CpuMatmul, BothTransposed) {
  SKIP_WITHOUT(Matmul);
  for (Product p : kProducts) check_product(GetParam(), DType::f32, p, true, true, false, false, false);
}

TEST_P(CpuMatmul, WideTiles) {  // of 256 columns, from 64 tiles on; the last one of a row is narrower
  SKIP_WITHOUT(Matmul);
  check_product(GetParam(), GetParam(), {1350, 1100, 9}, false, true, false, true, false);
  check_product(GetParam(), GetParam(), {1350, 1100, 9}, false, false, true, false, false);
  check_product(GetParam(), DType::f32, {1100, 1350, 9}, true, false, true, false, true);
}

// more packed operands than one round holds: of K with f32 results, of columns, of rows
TEST_P(CpuMatmul, MoreThanARound) {
  SKIP_WITHOUT(Matmul);
  check_product(GetParam(), GetParam(), {10, 600, 8200}, false, true, false, true, false);
  check_product(GetParam(), DType::f32, {500, 10, 8200}, true, false, true, false, true);
}

INSTANTIATE_TEST_SUITE_P(Types, CpuMatmul, testing::ValuesIn(kFloats), [](const auto& t) { return text_of(t.param); });

// bf16 by the dot product instruction, with the same bound: products of bf16 are exact in f32 and each has one
// rounding. (The instruction reads numbers below 2^-126 as zero; there are none here.)
class CpuMatmulDot : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this machine has no bf16 dot product";
    kernels = cpu_kernels(Bf16Products::dot);
  }
  Kernels kernels;
};

TEST_F(CpuMatmulDot, Forward) {
  for (Product p : kProducts)
    for (DType out : {DType::bf16, DType::f32})
      for (int64_t gap : {5, 4})  // an even distance of rows: pairs are read without packing
        for (bool more : {false, true}) check_product(DType::bf16, out, p, false, true, more, more, false, kernels, gap);
}

TEST_F(CpuMatmulDot, InputGradient) {
  for (Product p : kProducts)
    for (bool more : {false, true})
      check_product(DType::bf16, DType::bf16, p, false, false, more, false, false, kernels, more ? 4 : 5);
}

TEST_F(CpuMatmulDot, WeightGradient) {
  for (Product p : kProducts)
    for (bool more : {false, true}) check_product(DType::bf16, DType::f32, p, true, false, more, false, true, kernels);
}

TEST_F(CpuMatmulDot, BothTransposed) {
  for (Product p : kProducts) check_product(DType::bf16, DType::f32, p, true, true, false, false, false, kernels);
}

TEST_F(CpuMatmulDot, MoreThanARound) {
  check_product(DType::bf16, DType::bf16, {10, 600, 8201}, false, true, false, true, false, kernels);
  check_product(DType::bf16, DType::f32, {500, 10, 8201}, true, false, true, false, true, kernels);
}

// the pair (infinity, 1) is a NaN if it is read as f32: a copy must not change it
TEST_F(CpuMatmulDot, KeepsInfinities) {
  Case c;
  Matmul a;
  Buffer &x = c.input(1, DType::bf16, {20, 6}), &w = c.input(2, DType::bf16, {24, 6});
  for (int64_t i = 0; i < 24; ++i) put(w, i, 4, 1), put(w, i, 5, std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < 20; ++i) put(x, i, 5, 1);
  a.a = x, a.b = w, a.out = c.output(DType::f32, {20, 24}), a.trans_b = true;
  run_kernel(kernels, a);
  for (double y : values(a.out)) EXPECT_EQ(y, std::numeric_limits<double>::infinity());
}

TEST_F(CpuMatmulDot, IsAnotherArithmetic) {  // the instruction is used: it adds the second product of a pair first
  Case c;
  Matmul a;
  a.a = c.input(1, DType::bf16, {64, 768}), a.b = c.input(2, DType::bf16, {96, 768}), a.out = c.output(DType::f32, {64, 96});
  a.trans_b = true;
  run_kernel(kernels, a);
  const std::vector<double> dot = values(a.out);
  run_kernel(cpu_kernels(), a);
  EXPECT_NE(dot, values(a.out));
}

// Decoding: the result of a row does not depend on the number of other rows.
TEST(CpuMatmulFewRows, EachByItself) {
  SKIP_WITHOUT(Matmul);
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t k : {40, 700, 2100, 5000}) {
      Case c;
      Matmul a;
      a.a = c.input(1, t, {8, k}), a.b = c.input(2, t, {50, k}), a.out = c.output(DType::f32, {8, 50});
      a.trans_b = true;
      run_kernel(cpu_kernels(), a);
      Matmul few = a;
      few.out = c.output(DType::f32, {8, 50});
      for (int64_t rows = 1, from = 0; from < 8; from += rows, ++rows) {
        rows = std::min(rows, 8 - from);
        few.a = a.a.row_range(from, rows);
        Matmul part = few;
        part.out = few.out.row_range(from, rows);
        run_kernel(cpu_kernels(), part);
      }
      EXPECT_EQ(values(a.out), values(few.out)) << name(t) << " K " << k;
    }
}

// The sum over tokens runs in chunks of at most 1024: the product of 2100 tokens equals the sum of the products of its
// chunks, in order.
TEST(CpuMatmulChunks, TokensInOrder) {
  SKIP_WITHOUT(Matmul);
  Case c;
  int64_t m = 40, n = 24, k = 2100;
  Matmul a;
  a.a = c.input(1, DType::f32, {k, m}), a.b = c.input(2, DType::f32, {k, n}), a.out = c.output(DType::f32, {m, n});
  a.trans_a = true, a.tokens_reduced = true;
  run_kernel(cpu_kernels(), a);
  Matmul part = a;
  part.out = c.output(DType::f32, {m, n});
  for (int64_t from = 0; from < k; from += 1024) {
    part.a = a.a.row_range(from, std::min<int64_t>(1024, k - from)),
    part.b = a.b.row_range(from, std::min<int64_t>(1024, k - from));
    part.accumulate = from > 0;
    run_kernel(cpu_kernels(), part);
  }
  EXPECT_EQ(values(a.out), values(part.out));
}

}  // namespace test_cpu_matmul
}  // namespace ravine
