// The matrix product of cpu against ref. An element is a sum of K products, perhaps a bias and the old value: off by at most
// gamma(K + 3) times the sum of their magnitudes, in any order, with or without fused multiply-adds.
#include "tests/ops/harness.h"

namespace ravine {
namespace {

struct Product {
  int64_t m, n, k;
};
const Product kProducts[] = {{1, 1, 1},     {1, 40, 257},  {7, 10, 40},    {33, 257, 10}, {5, 768, 40},
                             {64, 96, 768}, {3, 17, 1030}, {40, 24, 2100}, {1030, 10, 7}, {130, 130, 130}};

// `out_type`: that of the operands, or f32.
void check_product(DType t, DType out_type, Product p, bool trans_a, bool trans_b, bool accumulate, bool bias, bool tokens) {
  Case c;
  Matmul a;
  a.a = trans_a ? c.input(1, t, {p.k, p.m}, 3) : c.input(1, t, {p.m, p.k}, 5);
  a.b = trans_b ? c.input(2, t, {p.n, p.k}, 1) : c.input(2, t, {p.k, p.n}, 4);
  if (bias) a.bias = c.input(3, t, {p.n});
  a.out = accumulate ? c.input(4, out_type, {p.m, p.n}, 2) : c.output(out_type, {p.m, p.n}, 2);
  a.trans_a = trans_a, a.trans_b = trans_b, a.accumulate = accumulate, a.tokens_reduced = tokens;
  auto magnitude = run_ref(a, true)["out"];
  expect_close(
      run_both(a)["out"], [&](int64_t i) { return gamma32(p.k + 3) * magnitude[i]; },
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

INSTANTIATE_TEST_SUITE_P(Types, CpuMatmul, testing::ValuesIn(kFloats), [](const auto& t) { return text_of(t.param); });

// The sum over tokens in chunks of at most 1024: the product of 2100 tokens equals the products of its chunks, added in order.
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

}  // namespace
}  // namespace ravine
