// Activations of MLPs, and dropout. kernels.h defines letters, types and determinism.
#pragma once
#include <cstdint>

#include "kernels/view.h"

namespace ravine {

// SwiGLU, the gated activation of an MLP: out = silu(gate) * up (Shazeer 2020), with silu(g) = g / (1 + exp(-g)). gate,
// up, out [N,F]. Without up: silu(gate) alone.
struct SwigluForward {
  static constexpr const char* name = "swiglu";
  TensorView gate, up, out;
  template <class F>
  void each(F&& f) const {
    f("gate", gate, Access::read), f("up", up, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 5.0 * out.count(); }
};

// The gradients of SwigluForward: dgate = dout * up * s(1 + g(1-s)), dup = dout * g s, with g = gate, s =
// sigmoid(gate). dgate, dup may be the memory of gate, up. up and dup may both be absent.
struct SwigluBackward {
  static constexpr const char* name = "swiglu_backward";
  TensorView gate, up, dout, dgate, dup;
  template <class F>
  void each(F&& f) const {
    f("gate", gate, Access::read), f("up", up, Access::read), f("dout", dout, Access::read);
    f("dgate", dgate, Access::write), f("dup", dup, Access::write);
  }
  double flops() const { return 10.0 * dout.count(); }
};

// GeGLU, the gated activation with GELU: out = gelu(gate) * up (Shazeer 2020), with the tanh form of gelu (GeluForm).
// gate, up, out [N,F]. Without up: gelu(gate) alone.
struct GegluForward {
  static constexpr const char* name = "geglu";
  TensorView gate, up, out;
  template <class F>
  void each(F&& f) const {
    f("gate", gate, Access::read), f("up", up, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 11.0 * out.count(); }
};

// The gradients of GegluForward: dgate = dout * up * gelu'(gate), dup = dout * gelu(gate). dgate, dup may be the memory
// of gate, up.
struct GegluBackward {
  static constexpr const char* name = "geglu_backward";
  TensorView gate, up, dout, dgate, dup;
  template <class F>
  void each(F&& f) const {
    f("gate", gate, Access::read), f("up", up, Access::read), f("dout", dout, Access::read);
    f("dgate", dgate, Access::write), f("dup", dup, Access::write);
  }
  double flops() const { return 18.0 * dout.count(); }
};

// The form of GELU (Hendrycks, Gimpel 2016). exact: x Phi(x), with Phi the normal distribution function. tanh: 0.5 x (1
// + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum class GeluForm : uint8_t { exact, tanh };
struct GeluForward {
  static constexpr const char* name = "gelu";
  TensorView x, out;  // [N,F]
  GeluForm form = GeluForm::exact;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("form", static_cast<double>(form));
  }
  double flops() const { return 10.0 * out.count(); }
};

// The gradient of GeluForward: dx = dout * gelu'(x). dx may be the memory of x or dout.
struct GeluBackward {
  static constexpr const char* name = "gelu_backward";
  TensorView x, dout, dx;
  GeluForm form = GeluForm::exact;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("dout", dout, Access::read), f("dx", dx, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("form", static_cast<double>(form));
  }
  double flops() const { return 15.0 * dx.count(); }
};

// Dropout with a mask that is computed again when it is needed: out = x * keep / (1-p), with keep = (uniform >= p). The
// mask is never stored: the backward pass runs this kernel on the gradient. The uniform24 of word c%4 of philox(key,
// {c/4, position, low half of sequence, step}) decides channel c. positions i32 [N], sequences i64 [N]: position, and
// global index of the sequence, of each row. first: the channel of the first column, a multiple of 4 (for a tensor rank
// with a part of the channels). out may be the memory of x.
struct Dropout {
  static constexpr const char* name = "dropout";
  TensorView x, positions, sequences, out;
  double p = 0;
  uint64_t key = 0;
  uint32_t step = 0;
  int64_t first = 0;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("positions", positions, Access::read), f("sequences", sequences, Access::read),
        f("out", out, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("p", p);
  }
  double flops() const { return 2.0 * x.count(); }
};

}  // namespace ravine
