// The loss head and cross-entropy of cpu against ref, with the errors of every step carried through.
#include "tests/unit/harness.h"

namespace ravine {
namespace test_cpu_loss {

struct Size {
  int64_t tokens, channels, vocabulary;
};
const Size kSizes[] = {{1, 10, 40},   {7, 40, 257},  {33, 16, 1030}, {1030, 8, 40},
                       {5, 768, 300}, {2100, 8, 17}, {3, 8, 9001},   {70, 11, 130}};

std::vector<int64_t> some_labels(int64_t n, int64_t v) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    auto words = philox(21, {static_cast<uint32_t>(i), 0, 0, 0});
    labels.push_back(n > 1 && words[1] % 5 == 0 ? -100 : static_cast<int64_t>(words[0] % v));
  }
  return labels;
}

// The errors of the loss and of dlogits of one token, from its logits and their errors. The log of the sum has the
// error of the worst logit, and gamma(V) for the sum. The exponent of a probability has the errors of its logit, of the
// log of the sum, and a rounding.
struct TokenErrors {
  double loss = 0;
  std::vector<double> dlogits, dlogits_error;
};
TokenErrors token_errors(const std::vector<double>& logits, const std::vector<double>& off, int64_t label, double grad_scale) {
  int64_t v = static_cast<int64_t>(logits.size());
  TokenErrors t{0, std::vector<double>(v), std::vector<double>(v)};
  if (label < 0) return t;
  double top = -INFINITY, largest = 0, worst = 0, sum = 0;
  for (int64_t j = 0; j < v; ++j) {
    top = std::max(top, logits[j]), largest = std::max(largest, std::fabs(logits[j])), worst = std::max(worst, off[j]);
  }
  for (double x : logits) sum += std::exp(x - top);
  double lse = top + std::log(sum), lse_error = worst + gamma32(v + 2 * kFunction) + 4 * kU32 * (2 * largest + std::fabs(lse));
  t.loss = lse_error + off[label] + kU32 * (std::fabs(lse) + std::fabs(logits[label]));
  for (int64_t j = 0; j < v; ++j) {
    double p = std::exp(logits[j] - lse), one = j == label;
    double relative = std::expm1(off[j] + lse_error + 2 * kU32 * (std::fabs(logits[j]) + std::fabs(lse))) + gamma32(kFunction);
    t.dlogits[j] = std::fabs(grad_scale * (p - one));
    t.dlogits_error[j] = std::fabs(grad_scale) * (relative * p + kU32 * one) + gamma32(3) * t.dlogits[j];
  }
  return t;
}

// Weights of rows: negative, zero, large.
std::vector<double> some_weights(int64_t n) {
  std::vector<double> weights;
  for (int64_t i = 0; i < n; ++i)
    weights.push_back(i % 7 == 3 ? 0 : (i % 3 == 1 ? -1 : 1) * (0.01 + 1.37 * static_cast<double>(i % 11)));
  return weights;
}

class CpuLoss : public testing::TestWithParam<DType> {};

TEST_P(CpuLoss, CrossEntropy) {
  SKIP_WITHOUT(CrossEntropy);
  for (Size s : kSizes)
    for (int variant : {0, 1, 2, 3}) {  // losses only, gradient, gradient in place, gradient of weighted rows
      Case c;
      CrossEntropy a;
      a.logits = c.input(1, GetParam(), {s.tokens, s.vocabulary}, 3, 5);
      auto labels = some_labels(s.tokens, s.vocabulary);
      a.labels = c.integers(DType::i32, labels), a.losses = c.output(DType::f64, {s.tokens});
      if (variant == 1 || variant == 3) a.dlogits = c.output(GetParam(), {s.tokens, s.vocabulary}, 2);
      if (variant == 2) a.dlogits = a.logits;
      a.grad_scale = 0.25;
      const std::vector<double> weights = variant == 3 ? some_weights(s.tokens) : std::vector<double>(s.tokens, 1);
      if (variant == 3) a.row_weights = c.doubles(weights);
      std::vector<double> loss_error, dlogits_error, exact(s.vocabulary);
      for (int64_t i = 0; i < s.tokens; ++i) {
        auto t = token_errors(values(a.logits.row_range(i, 1)), exact, labels[i], a.grad_scale * weights[i]);
        loss_error.push_back(t.loss);
        dlogits_error.insert(dlogits_error.end(), t.dlogits_error.begin(), t.dlogits_error.end());
      }
      auto o = run_both(a);
      std::string what = fmt::format("{} {} tokens, {} words", name(GetParam()), s.tokens, s.vocabulary);
      expect_close(
          o["losses"], [&](int64_t i) { return loss_error[i]; }, "losses " + what);
      if (variant)
        expect_close(
            o["dlogits"], [&](int64_t i) { return dlogits_error[i]; }, "dlogits " + what);
      c.expect_intact();
    }
}

// The logits have an error of gamma(C + 1) times their magnitude. 16-bit types: dlogits are rounded to the type of x in
// ref and in cpu. The two products carry the errors of dlogits, and gamma of their length.
void check_loss_head(DType type, const Kernels& kernels) {
  double u16 = type == DType::f32 ? 0 : unit(type), lost = type == DType::f32 ? 0 : 2 * smallest(type);
  for (Size s : kSizes)
    // 0: losses only; 1: dx; 2: dx and dweight; 3: dweight accumulated; 4 and 5: with a cap, dx and dweight, dx; 6 and
    // 7: as 2 and 4 with weighted rows.
    for (int variant = 0; variant < 8; ++variant) {
      Case c;
      LossHead a;
      a.cap = variant == 4 || variant == 7 ? 1.5 : variant == 5 ? 20 : 0;
      a.x = c.input(1, type, {s.tokens, s.channels}, 3), a.weight = c.input(2, type, {s.vocabulary, s.channels}, 0, 0.5);
      auto labels = some_labels(s.tokens, s.vocabulary);
      a.labels = c.integers(DType::i32, labels), a.losses = c.output(DType::f64, {s.tokens});
      if (variant == 1 || variant == 2 || variant >= 4) a.dx = c.output(type, {s.tokens, s.channels}, 5);
      if (variant == 2 || variant == 4 || variant >= 6) a.dweight = c.output(DType::f32, {s.vocabulary, s.channels});
      if (variant == 3) a.dweight = c.input(3, DType::f32, {s.vocabulary, s.channels});
      a.grad_scale = 0.125, a.accumulate = variant == 3;
      const std::vector<double> weights = variant >= 6 ? some_weights(s.tokens) : std::vector<double>(s.tokens, 1);
      if (variant >= 6) a.row_weights = c.doubles(weights);
      auto x = values(a.x), w = values(a.weight);
      std::vector<double> loss_error, dx_error(x.size()), dw_error(w.size());
      for (int64_t i = 0; i < s.tokens; ++i) {
        std::vector<double> logits(s.vocabulary), off(s.vocabulary);
        for (int64_t v = 0; v < s.vocabulary; ++v)
          for (int64_t j = 0; j < s.channels; ++j) {
            double product = x[i * s.channels + j] * w[v * s.channels + j];
            logits[v] += product, off[v] += gamma32(s.channels + 1) * std::fabs(product);
          }
        if (a.cap != 0)  // 1 / cap, 3 ulp of tanh, cap
          for (int64_t v = 0; v < s.vocabulary; ++v)
            logits[v] = a.cap * std::tanh(logits[v] / a.cap), off[v] += gamma32(10) * std::fabs(logits[v]);
        const double scale = a.grad_scale * weights[i];
        auto t = token_errors(logits, off, labels[i], scale);
        loss_error.push_back(t.loss);
        // the derivative 1 - (y / cap)^2 is at most 1, and its error at most twice the error of y / cap
        if (a.cap != 0)
          for (int64_t v = 0; v < s.vocabulary; ++v) {
            const double p = t.dlogits[v] + (v == labels[i] ? 2 * std::fabs(scale) : 0);
            t.dlogits_error[v] += p * (2 * off[v] / a.cap + gamma32(6));
          }
        if (labels[i] < 0) continue;
        for (int64_t v = 0; v < s.vocabulary; ++v) {
          double error = t.dlogits_error[v] + 2 * u16 * t.dlogits[v] + lost;
          for (int64_t j = 0; j < s.channels; ++j) {
            dx_error[i * s.channels + j] +=
                (error + gamma32(s.vocabulary + 2) * t.dlogits[v]) * std::fabs(w[v * s.channels + j]);
            dw_error[v * s.channels + j] += (error + gamma32(s.tokens + 2) * t.dlogits[v]) * std::fabs(x[i * s.channels + j]);
          }
        }
      }
      if (a.accumulate) {
        auto old = values(a.dweight);  // rounded after each chunk of tokens at most
        for (size_t i = 0; i < old.size(); ++i) dw_error[i] += gamma32(s.tokens + 2) * std::fabs(old[i]);
      }
      auto o = run_both(a, kernels);
      std::string what = fmt::format("{} [{}, {}], {} words", name(type), s.tokens, s.channels, s.vocabulary);
      expect_close(
          o["losses"], [&](int64_t i) { return loss_error[i]; }, "losses " + what);
      if (!a.dx.absent())
        expect_close(
            o["dx"], [&](int64_t i) { return dx_error[i]; }, "dx " + what);
      if (!a.dweight.absent())
        expect_close(
            o["dweight"], [&](int64_t i) { return dw_error[i]; }, "dweight " + what);
      c.expect_intact();
    }
}

TEST_P(CpuLoss, LossHead) {
  SKIP_WITHOUT(LossHead);
  check_loss_head(GetParam(), cpu_kernels());
}

// bf16 by the dot product instruction, with the same bounds: products of bf16 are exact in f32 and each has one
// rounding.
TEST(CpuLossDot, LossHead) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this machine has no bf16 dot product";
  check_loss_head(DType::bf16, cpu_kernels(Bf16Products::dot));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuLoss, testing::ValuesIn(kFloats), [](const auto& t) { return text_of(t.param); });

}  // namespace test_cpu_loss
}  // namespace ravine
