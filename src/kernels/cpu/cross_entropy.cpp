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

// L: logits, G: dlogits. The three passes over a row run in the caches.
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
    auto larger = [](Lanes x, Lanes y) RAVINE_LANES { return hn::Max(x, y); };
    const Lanes tops = fold(
        cols, all(kLowest),
        [&](Lanes m, int64_t i, auto part) RAVINE_LANES { return hn::Max(m, logits.load(i, part, kLowest)); }, larger);
    const Lanes top = hn::MaxOfLanes(f32s, tops);
    double sum = 0;
    for (int64_t c = 0; c < cols; c += 4096) {
      sum += sum_of(std::min<int64_t>(4096, cols - c), [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
        return hn::Add(s, exp_negative(hn::Sub(logits.load(c + i, part, kLowest), top)));
      });
    }
    const Lanes at_label = hn::Sub(logits.load(label, Part{1}), top);
    a.losses.as<double>()[r] = std::log(sum) - hn::GetLane(at_label);
    if (a.dlogits.absent()) return;
    const Lanes factor = all(static_cast<float>(a.grad_scale / sum));
    const float hit = static_cast<float>(a.grad_scale * (std::exp(static_cast<double>(hn::GetLane(at_label))) / sum - 1));
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
      grads.store(hn::Mul(exp_negative(hn::Sub(logits.load(i, part), top)), factor), i, part);
    });
    grads.store(all(hit), label, Part{1});
  });
}

void entropy(const CrossEntropy& a) {
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

template <>
Kernel<CrossEntropy> cpu_kernel() {
  return {[](const CrossEntropy& a, void*) {
            check_rows("cross_entropy", a.logits.rows(), a.logits.cols(), {{"logits", &a.logits}, {"dlogits", &a.dlogits}});
            check_vector("cross_entropy", "labels", a.labels, DType::i32, a.logits.rows());
            check_vector("cross_entropy", "losses", a.losses, DType::f64, a.logits.rows());
            HWY_DYNAMIC_DISPATCH(entropy)(a);
          },
          no_workspace<CrossEntropy>};
}

}  // namespace ravine
#endif
