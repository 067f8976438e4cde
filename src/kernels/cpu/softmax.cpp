#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

template <class S, class P>
void forward_rows(const SoftmaxForward& a) {
  const int64_t queries = a.scores.rows(), keys = a.scores.cols();
  for_rows(queries, keys, [&](int64_t r) HWY_ATTR {
    const int64_t position = keys - queries + r;
    const int64_t end = a.causal ? std::clamp<int64_t>(position + 1, 0, keys) : keys;
    const int64_t begin = a.window > 0 ? std::clamp<int64_t>(position - a.window + 1, 0, end) : 0;
    const Row<P> before(a.probs, r), after(a.probs, r, end);
    auto clear = [](const Row<P>& row, int64_t n)
                     RAVINE_LANES { each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { row.store(zero(), i, part); }); };
    if (begin < end) {
      const int64_t n = end - begin;
      const Row<S> scores(a.scores, r, begin);
      const Row<P> probs(a.probs, r, begin);
      const Lanes scale = all(static_cast<float>(a.scale));
      // The tail is filled with zeros before scaling, so it is masked afterwards: exp(-inf) = 0.
      const Lanes slope = all(static_cast<float>(a.slope));
      const hn::RebindToSigned<F32> whole;
      auto scaled = [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes s = hn::Mul(scale, scores.load(i, part));
        if (a.slope == 0) return s;
        return hn::MulAdd(slope, hn::ConvertTo(f32s, hn::Iota(whole, static_cast<int32_t>(begin + i - position))), s);
      };
      auto at = [&](int64_t i, auto part) RAVINE_LANES {
        if constexpr (std::is_same_v<decltype(part), Full>)
          return scaled(i, part);
        else
          return hn::IfThenElse(hn::FirstN(f32s, part.n), scaled(i, part), all(kLowest));
      };
      auto larger = [](Lanes x, Lanes y) RAVINE_LANES { return hn::Max(x, y); };
      const Lanes tops = fold(
          n, all(kLowest), [&](Lanes m, int64_t i, auto part) RAVINE_LANES { return hn::Max(m, at(i, part)); }, larger);
      const Lanes top = hn::MaxOfLanes(f32s, tops);
      const float sum = sum_of(
          n, [&](Lanes s, int64_t i, auto part) RAVINE_LANES { return hn::Add(s, exp_negative(hn::Sub(at(i, part), top))); });
      const Lanes inverse = all(1.0f / sum);
      each_vector(n, [&](int64_t i, auto part)
                         RAVINE_LANES { probs.store(hn::Mul(exp_negative(hn::Sub(at(i, part), top)), inverse), i, part); });
    }
    clear(before, begin);
    clear(after, keys - end);
  });
}

template <class P>
void backward_rows(const SoftmaxBackward& a) {
  const int64_t cols = a.probs.cols();
  for_rows(a.probs.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<P> probs(a.probs, r), dprobs(a.dprobs, r), dscores(a.dscores, r);
    const Lanes dot = all(sum_of(cols, [&](Lanes s, int64_t i, auto part)
                                           RAVINE_LANES { return hn::MulAdd(probs.load(i, part), dprobs.load(i, part), s); }));
    const Lanes scale = all(static_cast<float>(a.scale));
    each_vector(cols, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes p = hn::Mul(scale, probs.load(i, part));
      dscores.store(hn::Mul(p, hn::Sub(dprobs.load(i, part), dot)), i, part);
    });
  });
}

void forward(const SoftmaxForward& a) {
  if (all_are(DType::f32, {&a.scores, &a.probs})) return forward_rows<float, float>(a);
  forward_rows<Any, Any>(a);
}

void backward(const SoftmaxBackward& a) {
  if (all_are(DType::f32, {&a.probs, &a.dprobs, &a.dscores})) return backward_rows<float>(a);
  backward_rows<Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

template <>
Kernel<SoftmaxForward> cpu_kernel() {
  return {[](const SoftmaxForward& a, void*) {
            check_rows("softmax", a.scores.rows(), a.scores.cols(), {{"scores", &a.scores}, {"probs", &a.probs}});
            HWY_DYNAMIC_DISPATCH(forward)(a);
          },
          no_workspace<SoftmaxForward>};
}

template <>
Kernel<SoftmaxBackward> cpu_kernel() {
  return {[](const SoftmaxBackward& a, void*) {
            check_rows("softmax_backward", a.probs.rows(), a.probs.cols(),
                       {{"probs", &a.probs}, {"dprobs", &a.dprobs}, {"dscores", &a.dscores}});
            HWY_DYNAMIC_DISPATCH(backward)(a);
          },
          no_workspace<SoftmaxBackward>};
}

}  // namespace ravine
#endif
