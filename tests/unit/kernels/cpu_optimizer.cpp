// Optimizer kernels and the sum of squares of cpu against ref: parameters and state f32, gradients f32, bf16 or f16.
#include "tests/unit/harness.h"

namespace ravine {
namespace test_cpu_optimizer {

const int64_t kCounts[] = {1, 7, 257, 1030, 20011};

std::vector<UpdateSpan> some_spans(int64_t n) {
  if (n < 10) return {{0, n, 1, 0.1}};
  return {{0, n / 3, 1, 0.1},
          {n / 3, n / 3 + 1, 0.5, 0},
          {2 * (n / 3) + 4, n - 2 * (n / 3) - 4, 2, 0.01}};  // 3 elements in the middle are in no span
}

// Inside the spans `copy` is the stored parameter in 16 bits; outside nothing changes.
void expect_copy(const TensorView& param, const TensorView& copy, const std::vector<UpdateSpan>& spans,
                 const std::vector<double>& before, const std::vector<double>& copy_before, const std::vector<double>& after,
                 const std::vector<double>& copy_after) {
  Buffer rounded(copy.dtype, {param.count()});
  rounded.set(after);
  auto want = values(rounded);
  for (int64_t i = 0; i < param.count(); ++i) {
    bool inside = false;
    for (const UpdateSpan& s : spans) inside = inside || (i >= s.begin && i < s.begin + s.count);
    ASSERT_EQ(copy_after[i], inside ? want[i] : copy_before[i]) << "copy at " << i;
    ASSERT_TRUE(inside || after[i] == before[i]) << "outside the spans at " << i;
  }
}

// Each scalar of the step is rounded to f32 once. g' = g scale (+ wd p): 2 roundings of each term. m, v: 3 roundings of
// each of their terms, and the error of g'. The update: the errors of m, of v (halved by the root), and of its
// quotients. p: the roundings of its terms.
TEST(CpuOptimizer, AdamW) {
  SKIP_WITHOUT(AdamW);
  for (int64_t n : kCounts)
    for (DType grad_type : kFloats)
      for (bool l2 : {false, true})
        for (DType copy_type : {DType::f32 /* none */, DType::bf16, DType::f16}) {
          Case c;
          AdamW a;
          a.param = c.input(1, DType::f32, {n}), a.grad = c.input(2, grad_type, {n}, 0, 0.1),
          a.m = c.input(3, DType::f32, {n}, 0, 0.05);
          a.v = c.input(4, DType::f32, {n}).random(4, 0.0005, 0.0006);
          if (copy_type != DType::f32) a.copy = c.input(5, copy_type, {n});
          a.scalars = c.doubles({3e-3, 1 - std::pow(0.9, 3), 1 - std::pow(0.999, 3), 0.7});
          auto spans = some_spans(n);
          a.spans = spans, a.beta1 = 0.9, a.beta2 = 0.999, a.l2 = l2;
          std::vector<double> p_error(n), m_error(n), v_error(n), before = values(a.param), copy_before;
          if (!a.copy.absent()) copy_before = values(a.copy);
          for (const UpdateSpan& s : spans)
            for (int64_t i = s.begin; i < s.begin + s.count; ++i) {
              double p = get(a.param, 0, i), g = get(a.grad, 0, i) * 0.7, m = get(a.m, 0, i), v = get(a.v, 0, i),
                     lr = 3e-3 * s.lr_mult;
              double g_error = gamma32(3) * (std::fabs(g) + (l2 ? std::fabs(s.weight_decay * p) : 0));
              if (l2) g += s.weight_decay * p;
              m_error[i] = gamma32(4) * (0.9 * std::fabs(m) + 0.1 * std::fabs(g)) + 0.1 * g_error;
              v_error[i] = gamma32(5) * (0.999 * v + 0.001 * g * g) + 0.002 * std::fabs(g) * g_error;
              m = 0.9 * m + 0.1 * g, v = 0.999 * v + 0.001 * g * g;
              double root = std::sqrt(v / (1 - std::pow(0.999, 3))) + a.eps, factor = lr / (1 - std::pow(0.9, 3)) / root;
              double step = std::fabs(factor * m);
              p_error[i] = gamma32(3) * (std::fabs(p) + std::fabs(lr * s.weight_decay * p)) + factor * m_error[i] +
                           step * (0.5 * v_error[i] / v + gamma32(3 * kFunction + 4));
            }
          auto o = run_both(a);
          std::string what = fmt::format("{} elements, gradient {}, l2 {}", n, name(grad_type), l2);
          expect_close(
              o["param"], [&](int64_t i) { return p_error[i]; }, "param " + what);
          expect_close(
              o["m"], [&](int64_t i) { return m_error[i]; }, "m " + what);
          expect_close(
              o["v"], [&](int64_t i) { return v_error[i]; }, "v " + what);
          if (!a.copy.absent()) expect_copy(a.param, a.copy, spans, before, copy_before, o["param"].got, o["copy"].got);
          c.expect_intact();
        }
}

TEST(CpuOptimizer, Sgd) {
  SKIP_WITHOUT(Sgd);
  for (int64_t n : kCounts)
    for (DType grad_type : kFloats)
      for (int variant = 0; variant < 5;
           ++variant) {  // 0: plain; 1: momentum; 2: first step; 3: nesterov; 4: dampening and a copy
        Case c;
        Sgd a;
        a.param = c.input(1, DType::f32, {n}), a.grad = c.input(2, grad_type, {n}, 0, 0.1);
        if (variant) a.buffer = c.input(3, DType::f32, {n}, 0, 0.1), a.momentum = 0.9;
        if (variant == 4) a.copy = c.input(5, DType::bf16, {n}), a.dampening = 0.3;
        a.first = variant == 2, a.nesterov = variant == 3;
        a.scalars = c.doubles({0.05, 1, 1, 0.7});
        auto spans = some_spans(n);
        a.spans = spans;
        std::vector<double> p_error(n), b_error(n), before = values(a.param), copy_before;
        if (!a.copy.absent()) copy_before = values(a.copy);
        for (const UpdateSpan& s : spans)
          for (int64_t i = s.begin; i < s.begin + s.count; ++i) {
            double p = std::fabs(get(a.param, 0, i)), lr = 0.05 * s.lr_mult;
            double g = std::fabs(get(a.grad, 0, i)) * 0.7 + s.weight_decay * p;  // magnitudes
            double b = variant && !a.first ? a.momentum * std::fabs(get(a.buffer, 0, i)) + (1 - a.dampening) * g : g;
            b_error[i] = gamma32(7) * b;
            p_error[i] = gamma32(2) * p + gamma32(12) * lr * (a.nesterov ? g + a.momentum * b : b);
          }
        auto o = run_both(a);
        std::string what = fmt::format("{} elements, gradient {}, variant {}", n, name(grad_type), variant);
        expect_close(
            o["param"], [&](int64_t i) { return p_error[i]; }, "param " + what);
        if (variant)
          expect_close(
              o["buffer"], [&](int64_t i) { return b_error[i]; }, "buffer " + what);
        if (!a.copy.absent()) expect_copy(a.param, a.copy, spans, before, copy_before, o["param"].got, o["copy"].got);
        c.expect_intact();
      }
}

// Partial sums of at most 1024 squares in double, then exact: at most 1024 roundings of 2^-53. The result is added to
// the old value.
TEST(CpuOptimizer, SumSquares) {
  SKIP_WITHOUT(SumSquares);
  for (int64_t n : kCounts)
    for (DType t : kFloats) {
      Case c;
      ExactSum want;
      want.add(0.5);
      SumSquares a{c.input(1, t, {n}), &want};
      ref_kernels().of<SumSquares>().run(a, nullptr);
      double first = 0;
      for (int threads : {1, 2, 3}) {
        ThreadCount scope(threads);
        ExactSum got;
        got.add(0.5);
        a.result = &got;
        run_kernel(cpu_kernels(), a);
        if (threads == 1) first = got.value();
        EXPECT_EQ(got.value(), first) << threads << " threads";
        EXPECT_NEAR(got.value(), want.value(), 2 * 1024 * 0x1p-53 * want.value()) << n << " elements of " << name(t);
      }
    }
}

}  // namespace test_cpu_optimizer
}  // namespace ravine
