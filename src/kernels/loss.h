// Kernels from the last hidden state to the loss: output product, cap of logits, softmax, cross-entropy. kernels.h
// defines letters, types and determinism.
#pragma once
#include "kernels/view.h"

namespace ravine {

// A soft cap (Gemma 2): y = cap * tanh(scale * x / cap). Types may differ; y may be the memory of x.
struct SoftCapForward {
  static constexpr const char* name = "soft_cap";
  TensorView x, y;  // [N,C]
  double cap = 1, scale = 1;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("y", y, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("cap", cap), f("scale", scale);
  }
  double flops() const { return 12.0 * y.count(); }
};

// The gradient of SoftCapForward: dx = scale * (1 - (y / cap)^2) * dy. dx may be the memory of y or dy.
struct SoftCapBackward {
  static constexpr const char* name = "soft_cap_backward";
  TensorView y, dy, dx;
  double cap = 1, scale = 1;
  template <class F>
  void each(F&& f) const {
    f("y", y, Access::read), f("dy", dy, Access::read), f("dx", dx, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("cap", cap), f("scale", scale);
  }
  double flops() const { return 5.0 * dx.count(); }
};

// The loss head: output product, softmax and cross-entropy in one kernel, in chunks of tokens, so that logits are never
// stored in full.
//   losses[n] = logsumexp(x[n] W^T) - (x[n] W^T)[labels[n]], 0 if labels[n] < 0;
//   dlogits = grad_scale * (softmax - onehot), 0 if labels[n] < 0;  dx = dlogits W;  dweight (+)= dlogits^T x.
// x [N,C]; weight [V,C]; labels i32 [N]; losses f64 [N]. dx [N,C] and dweight [V,C] are optional (evaluation, frozen
// head). With `cap`, the logits are cap * tanh(x[n] W^T / cap), and dlogits pass through its derivative. With
// `row_weights` f64 [N], the factor of a row is grad_scale * row_weights[n]. 16-bit types: logits are f32, and dlogits
// are rounded to the type of x before the two products.
struct LossHead {
  static constexpr const char* name = "loss_head";
  TensorView x, weight, labels, losses, dx, dweight;
  double grad_scale = 1;
  bool accumulate = false;
  double cap = 0;               // 0: no cap
  TensorView row_weights = {};  // optional
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("weight", weight, Access::read), f("labels", labels, Access::read),
        f("losses", losses, Access::write);
    f("dx", dx, Access::write), f("dweight", dweight, accumulate ? Access::update : Access::write);
    f("row_weights", row_weights, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("grad_scale", grad_scale), f("cap", cap);
  }
  double flops() const { return 2.0 * x.count() * weight.rows() * (1 + !dx.absent() + !dweight.absent()); }
};

// The logsumexp of each row: out[n] = log(sum_v exp(logits[n, v])). logits [N,V]; out f64 [N]. Tensor ranks with a part
// of the vocabulary each exchange it (Narayanan et al. 2021, section 5); CrossEntropy reads it as `sums`.
struct LogSumExp {
  static constexpr const char* name = "log_sum_exp";
  TensorView logits, out;
  template <class F>
  void each(F&& f) const {
    f("logits", logits, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 3.0 * logits.count(); }
};

// The second half of an unfused loss head: losses from logits [N,V], and dlogits (in place allowed).
//   losses[n] = lse[n] - logits[n, labels[n]];  dlogits = grad_scale * (exp(logits - lse) - onehot);
//   both 0 if labels[n] < 0.
// lse is the logsumexp of the row. A part of a vocabulary: if `whole` is not 0, logits has columns [first, first + V)
// of rows of `whole`. labels are indices of the whole row, and losses[n] is 0 if another part has the label. lse is
// then computed from `sums` f64 [R,N], the LogSumExp of each of the R parts. row_weights: as in LossHead.
struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  TensorView logits, labels, losses, dlogits /* optional */;
  double grad_scale = 1;
  TensorView sums = {};  // of all parts; absent: logits has the whole vocabulary
  int64_t first = 0, whole = 0;
  TensorView row_weights = {};  // optional
  template <class F>
  void each(F&& f) const {
    f("logits", logits, Access::read), f("labels", labels, Access::read), f("losses", losses, Access::write),
        f("dlogits", dlogits, Access::write), f("sums", sums, Access::read), f("row_weights", row_weights, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("grad_scale", grad_scale);
  }
  double flops() const { return 5.0 * logits.count(); }
};

}  // namespace ravine
