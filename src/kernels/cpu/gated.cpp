// SwiGLU and GEGLU: one loop with two functions of the gate.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

struct Silu {
  static HWY_INLINE Lanes value(Lanes g) { return silu(g); }
  static HWY_INLINE Lanes rise(Lanes g) {
    const Lanes s = sigmoid(g);
    return hn::Mul(s, hn::MulAdd(g, hn::Sub(all(1.0f), s), all(1.0f)));
  }
};

struct GeluTanh {
  static HWY_INLINE Lanes value(Lanes g) { return gelu<GeluForm::tanh>(g); }
  static HWY_INLINE Lanes rise(Lanes g) { return slope<GeluForm::tanh>(g); }
};

template <class Act, class T, class Args>
void forward_rows(const Args& a) {
  for_pieces(a.out, {&a.gate, &a.up, &a.out}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> gate(a.gate, row, col), up(a.up, row, col), out(a.out, row, col);
    if (a.up.absent())
      return each_vector(n, [&](int64_t i, auto part) RAVINE_LANES { out.store(Act::value(gate.load(i, part)), i, part); });
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = gate.load(i, part);
      out.store(hn::Mul(Act::value(g), up.load(i, part)), i, part);
    });
  });
}

template <class Act, class T, class Args>
void backward_rows(const Args& a) {
  for_pieces(a.dout, {&a.gate, &a.up, &a.dout, &a.dgate, &a.dup}, [&](int64_t row, int64_t col, int64_t n) HWY_ATTR {
    const Row<T> gate(a.gate, row, col), up(a.up, row, col), dout(a.dout, row, col), dgate(a.dgate, row, col),
        dup(a.dup, row, col);
    if (a.up.absent())
      return each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
        dgate.store(hn::Mul(dout.load(i, part), Act::rise(gate.load(i, part))), i, part);
      });
    each_vector(n, [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes g = gate.load(i, part), d = dout.load(i, part);
      const Lanes dg = hn::Mul(hn::Mul(d, up.load(i, part)), Act::rise(g));
      dup.store(hn::Mul(d, Act::value(g)), i, part);
      dgate.store(dg, i, part);
    });
  });
}

template <class Act, class Args>
void forward_of(const Args& a) {
  if (all_are(DType::f32, {&a.gate, &a.up, &a.out})) return forward_rows<Act, float>(a);
  if (all_are(DType::bf16, {&a.gate, &a.up, &a.out})) return forward_rows<Act, bf16>(a);
  forward_rows<Act, Any>(a);
}

template <class Act, class Args>
void backward_of(const Args& a) {
  if (all_are(DType::f32, {&a.gate, &a.up, &a.dout, &a.dgate, &a.dup})) return backward_rows<Act, float>(a);
  if (all_are(DType::bf16, {&a.gate, &a.up, &a.dout, &a.dgate, &a.dup})) return backward_rows<Act, bf16>(a);
  backward_rows<Act, Any>(a);
}

void swiglu(const SwigluForward& a) { forward_of<Silu>(a); }
void swiglu_backward(const SwigluBackward& a) { backward_of<Silu>(a); }
void geglu(const GegluForward& a) { forward_of<GeluTanh>(a); }
void geglu_backward(const GegluBackward& a) { backward_of<GeluTanh>(a); }

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_backward);
HWY_EXPORT(geglu);
HWY_EXPORT(geglu_backward);

namespace {

template <class Args>
void check_forward(const Args& a) {
  check_rows(a.name, a.out.rows(), a.out.cols(), {{"gate", &a.gate}, {"up", &a.up}, {"out", &a.out}});
}

template <class Args>
void check_backward(const Args& a) {
  require(a.up.absent() == a.dup.absent(), "{}: up and dup are there both, or neither", a.name);
  check_rows(a.name, a.dout.rows(), a.dout.cols(),
             {{"gate", &a.gate}, {"up", &a.up}, {"dout", &a.dout}, {"dgate", &a.dgate}, {"dup", &a.dup}});
}

}  // namespace

template <>
Kernel<SwigluForward> cpu_kernel() {
  return {[](const SwigluForward& a, void*) { check_forward(a), HWY_DYNAMIC_DISPATCH(swiglu)(a); },
          no_workspace<SwigluForward>};
}
template <>
Kernel<SwigluBackward> cpu_kernel() {
  return {[](const SwigluBackward& a, void*) { check_backward(a), HWY_DYNAMIC_DISPATCH(swiglu_backward)(a); },
          no_workspace<SwigluBackward>};
}
template <>
Kernel<GegluForward> cpu_kernel() {
  return {[](const GegluForward& a, void*) { check_forward(a), HWY_DYNAMIC_DISPATCH(geglu)(a); }, no_workspace<GegluForward>};
}
template <>
Kernel<GegluBackward> cpu_kernel() {
  return {[](const GegluBackward& a, void*) { check_backward(a), HWY_DYNAMIC_DISPATCH(geglu_backward)(a); },
          no_workspace<GegluBackward>};
}

}  // namespace ravine
#endif
