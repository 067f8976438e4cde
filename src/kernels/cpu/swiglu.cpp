#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/swiglu.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class T>
void forward_rows(const SwigluForward& a) {
  for_pieces(a.out, {&a.gate, &a.up, &a.out}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> gate(a.gate, row, col), up(a.up, row, col), out(a.out, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = gate.load(i, part);
      out.store(hn::Mul(silu(g), up.load(i, part)), i, part);
    });
  });
}

template <class T>
void backward_rows(const SwigluBackward& a) {
  for_pieces(a.dout, {&a.gate, &a.up, &a.dout, &a.dgate, &a.dup}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> gate(a.gate, row, col), up(a.up, row, col), dout(a.dout, row, col), dgate(a.dgate, row, col),
        dup(a.dup, row, col);
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = gate.load(i, part), d = dout.load(i, part), s = sigmoid(g);
      const Lanes slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(all(1.0f), s), all(1.0f)));
      const Lanes dg = hn::Mul(hn::Mul(d, up.load(i, part)), slope);
      dup.store(hn::Mul(d, silu(g)), i, part);
      dgate.store(dg, i, part);
    });
  });
}

void forward(const SwigluForward& a) {
  if (all_are(DType::f32, {&a.gate, &a.up, &a.out})) return forward_rows<float>(a);
  if (all_are(DType::bf16, {&a.gate, &a.up, &a.out})) return forward_rows<bf16>(a);
  forward_rows<Any>(a);
}

void backward(const SwigluBackward& a) {
  if (all_are(DType::f32, {&a.gate, &a.up, &a.dout, &a.dgate, &a.dup})) return backward_rows<float>(a);
  if (all_are(DType::bf16, {&a.gate, &a.up, &a.dout, &a.dgate, &a.dup})) return backward_rows<bf16>(a);
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
Kernel<SwigluForward> cpu_kernel() {
  return {[](const SwigluForward& a, void*) {
            check_rows("swiglu", a.out.rows(), a.out.cols(), {{"gate", &a.gate}, {"up", &a.up}, {"out", &a.out}});
            HWY_DYNAMIC_DISPATCH(forward)(a);
          },
          no_workspace<SwigluForward>};
}

template <>
Kernel<SwigluBackward> cpu_kernel() {
  return {[](const SwigluBackward& a, void*) {
            check_rows("swiglu_backward", a.dout.rows(), a.dout.cols(),
                       {{"gate", &a.gate}, {"up", &a.up}, {"dout", &a.dout}, {"dgate", &a.dgate}, {"dup", &a.dup}});
            HWY_DYNAMIC_DISPATCH(backward)(a);
          },
          no_workspace<SwigluBackward>};
}

}  // namespace ravine
#endif
