#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Returns the sum of exp(logits - top) over a row; top is the largest logit.
template <class L>
double sum_of_row(const Row<L>& logits, int64_t cols, Lanes& top) {
  auto larger = [](Lanes x, Lanes y) RAVINE_LANES { return hn::Max(x, y); };
  const Lanes tops = fold(
      cols, all(kLowest), [&](Lanes m, int64_t i, auto part) RAVINE_LANES { return hn::Max(m, logits.load(i, part, kLowest)); },
      larger);
  top = hn::MaxOfLanes(f32s, tops);
  double sum = 0;
  for (int64_t c = 0; c < cols; c += 4096) {
    sum += sum_of(std::min<int64_t>(4096, cols - c), [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
      return hn::Add(s, exp_negative(hn::Sub(logits.load(c + i, part, kLowest), top)));
    });
  }
  return sum;
}

double scale_of(const CrossEntropy& a, int64_t row) {
  return a.row_weights.absent() ? a.grad_scale : a.grad_scale * a.row_weights.as<double>()[row];
}

// Returns log(sum of exp) over all parts of row r.
double join(const TensorView& sums, int64_t r) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t p = 0; p < sums.rows(); ++p) top = std::max(top, sums.row<double>(p)[r]);
  for (int64_t p = 0; p < sums.rows(); ++p) sum += std::exp(sums.row<double>(p)[r] - top);
  return top + std::log(sum);
}

// Rows of a part of the vocabulary, with a known logsumexp. exp(x - lse) = exp(x - near) exp(near - lse), with near =
// lse in f32, rounded up. So the argument of exp has one rounding, as in whole rows, and is not above zero.
template <class L, class G>
void part_rows(const CrossEntropy& a) {
  const int64_t cols = a.logits.cols();
  for_rows(a.logits.rows(), cols, [&](int64_t r) HWY_ATTR {
    const int64_t label = a.labels.as<int32_t>()[r], at = label - a.first;
    require(label < a.whole, "cross_entropy: labels[{}] is {}, the vocabulary has {}", r, label, a.whole);
    const Row<L> logits(a.logits, r);
    const Row<G> grads(a.dlogits, r);
    a.losses.as<double>()[r] = 0;
    if (label < 0) {
      if (!a.dlogits.absent()) each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES { grads.store(zero(), i, part); });
      return;
    }
    const bool here = at >= 0 && at < cols;
    const double lse = join(a.sums, r);
    const double log_p = here ? static_cast<double>(hn::GetLane(logits.load(at, Part{1}))) - lse : 0;
    if (here) a.losses.as<double>()[r] = -log_p;
    if (a.dlogits.absent()) return;
    float near = static_cast<float>(lse);
    if (static_cast<double>(near) < lse) near = std::nextafter(near, std::numeric_limits<float>::infinity());
    const double scale = scale_of(a, r);
    const Lanes top = all(near), factor = all(static_cast<float>(scale * std::exp(static_cast<double>(near) - lse)));
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
      grads.store(hn::Mul(exp_negative(hn::Sub(logits.load(i, part), top)), factor), i, part);
    });
    if (here) grads.store(all(static_cast<float>(scale * (std::exp(log_p) - 1))), at, Part{1});
  });
}

// L: type of logits, G: type of dlogits. A row stays in cache for the three passes.
template <class L, class G>
void entropy_rows(const CrossEntropy& a) {
  const int64_t cols = a.logits.cols();
  for_rows(a.logits.rows(), cols, [&](int64_t r) HWY_ATTR {
    const int64_t label = a.labels.as<int32_t>()[r];
    require(label < cols, "cross_entropy: labels[{}] is {}, the vocabulary has {}", r, label, cols);
    const Row<L> logits(a.logits, r);
    const Row<G> grads(a.dlogits, r);
    if (label < 0) {
      a.losses.as<double>()[r] = 0;
      if (!a.dlogits.absent()) each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES { grads.store(zero(), i, part); });
      return;
    }
    Lanes top;
    const double sum = sum_of_row(logits, cols, top);
    const Lanes at_label = hn::Sub(logits.load(label, Part{1}), top);
    a.losses.as<double>()[r] = std::log(sum) - hn::GetLane(at_label);
    if (a.dlogits.absent()) return;
    const double scale = scale_of(a, r);
    const Lanes factor = all(static_cast<float>(scale / sum));
    const float hit = static_cast<float>(scale * (std::exp(static_cast<double>(hn::GetLane(at_label))) / sum - 1));
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
      grads.store(hn::Mul(exp_negative(hn::Sub(logits.load(i, part), top)), factor), i, part);
    });
    grads.store(all(hit), label, Part{1});
  });
}

template <class L>
void lse_rows(const LogSumExp& a) {
  const int64_t cols = a.logits.cols();
  for_rows(a.logits.rows(), cols, [&](int64_t r) HWY_ATTR {
    Lanes top;
    const double sum = sum_of_row(Row<L>(a.logits, r), cols, top);
    a.out.as<double>()[r] = static_cast<double>(hn::GetLane(top)) + std::log(sum);
  });
}

void log_sum_exp(const LogSumExp& a) {
  if (all_are(DType::f32, {&a.logits})) return lse_rows<float>(a);
  lse_rows<Any>(a);
}

void entropy(const CrossEntropy& a) {
  if (!a.sums.absent()) {
    if (all_are(DType::f32, {&a.logits, &a.dlogits})) return part_rows<float, float>(a);
    return part_rows<Any, Any>(a);
  }
  if (all_are(DType::f32, {&a.logits, &a.dlogits})) return entropy_rows<float, float>(a);
  if (all_are(DType::f32, {&a.logits}) && all_are(DType::bf16, {&a.dlogits})) return entropy_rows<float, bf16>(a);
  entropy_rows<Any, Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(entropy);
HWY_EXPORT(log_sum_exp);

template <>
Kernel<CrossEntropy> cpu_kernel() {
  return {[](const CrossEntropy& a, void*) {
            check_rows("cross_entropy", a.logits.rows(), a.logits.cols(), {{"logits", &a.logits}, {"dlogits", &a.dlogits}});
            check_vector("cross_entropy", "labels", a.labels, DType::i32, a.logits.rows());
            check_vector("cross_entropy", "losses", a.losses, DType::f64, a.logits.rows());
            require(a.sums.absent() || (a.sums.dtype == DType::f64 && a.sums.cols() == a.logits.rows() && a.whole > 0),
                    "cross_entropy: sums must be f64 [parts, {}], beside the size of the whole vocabulary", a.logits.rows());
            if (!a.row_weights.absent())
              check_vector("cross_entropy", "row_weights", a.row_weights, DType::f64, a.logits.rows());
            HWY_DYNAMIC_DISPATCH(entropy)(a);
          },
          no_workspace<CrossEntropy>};
}

template <>
Kernel<LogSumExp> cpu_kernel() {
  return {[](const LogSumExp& a, void*) {
            check_rows("log_sum_exp", a.logits.rows(), a.logits.cols(), {{"logits", &a.logits}});
            check_vector("log_sum_exp", "out", a.out, DType::f64, a.logits.rows());
            HWY_DYNAMIC_DISPATCH(log_sum_exp)(a);
          },
          no_workspace<LogSumExp>};
}

}  // namespace ravine
#endif
