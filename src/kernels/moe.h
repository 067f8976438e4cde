// Kernels of experts: routing, rows in the order of experts, and products over the rows of each expert. kernels.h
// defines letters, types and determinism; also E experts, K choices of a token, R rows of experts.
//
// Rows of experts are sorted by expert, then by token: expert e has rows [offsets[e], offsets[e+1]). Rows from
// offsets[E] up to R are zero and not read.
#pragma once
#include <cstdint>

#include "kernels/routing.h"
#include "kernels/view.h"

namespace ravine {

// The router: chooses the experts of each token by the rules of `routing`, and assigns rows of experts to tokens.
//   chosen i32 [N,K]: the experts of a token, best first.
//   slots i32 [N,K]: the token's row at each expert; -1: dropped, or the token is padding (groups < 0).
//   tokens i32 [R]: the token of a row; -1: no token.  weights [R]: the routing weight of a row; 0 without a token.
//   offsets i32 [E+1].  claims i32 [E]: number of choices of an expert, without padding, before any are dropped.
// logits [N,E]; correction [E] (if routing.correction); groups i32 [N]. R >= routed_rows(routing, N).
struct RouterChoice {
  static constexpr const char* name = "router_choice";
  TensorView logits, correction, groups, chosen, slots, tokens, weights, offsets, claims;
  Routing routing;
  template <class F>
  void each(F&& f) const {
    f("logits", logits, Access::read), f("correction", correction, Access::read), f("groups", groups, Access::read);
    f("chosen", chosen, Access::write), f("slots", slots, Access::write), f("tokens", tokens, Access::write);
    f("weights", weights, Access::write), f("offsets", offsets, Access::write), f("claims", claims, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    routing.settings(f);
  }
  double flops() const { return 5.0 * logits.count(); }
};

// The sums for the losses of a router, by group g of tokens (groups i32 [N]; below 0: padding, in no group):
//   scores f64 [G,E]: sum of scores s; sigmoid scores are first divided by their sum over experts.
//   counts f64 [G,E]: choices of each expert. With a correction: the choices without correction and without groups of
//   experts (DeepSeek-V3).  z f64 [1]: sum of logsumexp(logits)^2 over all groups.
struct RouterSums {
  static constexpr const char* name = "router_sums";
  TensorView logits, chosen, groups, scores, counts, z;
  Routing routing;
  template <class F>
  void each(F&& f) const {
    f("logits", logits, Access::read), f("chosen", chosen, Access::read), f("groups", groups, Access::read);
    f("scores", scores, Access::write), f("counts", counts, Access::write), f("z", z, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    routing.settings(f);
  }
  double flops() const { return 8.0 * logits.count(); }
};

// The gradient of a router: dlogits [N,E] from the derivatives of a loss. dweights [R]: by the weights of rows
// (RouterChoice). slopes f64 [G,E] (optional): by the scores that RouterSums sums. z_slope: by logsumexp(logits)^2.
// Padding and the choice of experts have no gradient.
struct RouterBackward {
  static constexpr const char* name = "router_backward";
  TensorView logits, chosen, slots, groups, dweights, slopes, dlogits;
  double z_slope = 0;
  Routing routing;
  template <class F>
  void each(F&& f) const {
    f("logits", logits, Access::read), f("chosen", chosen, Access::read), f("slots", slots, Access::read);
    f("groups", groups, Access::read), f("dweights", dweights, Access::read), f("slopes", slopes, Access::read);
    f("dlogits", dlogits, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    routing.settings(f);
  }
  double flops() const { return 10.0 * logits.count(); }
};

// Copies rows of tokens to rows of experts: out[r] = x[tokens[r]], or zero if tokens[r] < 0. x [N,C], tokens i32 [R],
// out [R,C] of the type of x.
struct GatherRows {
  static constexpr const char* name = "gather_rows";
  TensorView x, tokens, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("tokens", tokens, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 0; }
};

// Adds the rows of experts for each token: out[n] (+)= sum over j < K, in order, of y[slots[n,j]]; slots below 0 are
// skipped. y [R,C], slots i32 [N,K], out [N,C]. Types may differ.
struct CombineRows {
  static constexpr const char* name = "combine_rows";
  TensorView y, slots, out;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("y", y, Access::read), f("slots", slots, Access::read);
    f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return static_cast<double>(slots.count()) * out.cols(); }
};

// Multiplies each row by its own factor: out[r] = scale[r] x[r]. x, out [R,C]; scale [R]. out may be the memory of x.
// Types may differ.
struct ScaleRows {
  static constexpr const char* name = "scale_rows";
  TensorView x, scale, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("scale", scale, Access::read), f("out", out, Access::write);
  }
  double flops() const { return static_cast<double>(out.count()); }
};

// A matrix product for each expert e with its rows of a; types as in Matmul; offsets i32 [E+1].
//   out[r] (+)= a[r] op(b[e]): a [R,K], b [E,K,N] or with trans_b [E,N,K], out [R,N].
//   With trans_a the gradient of weights: out[e] (+)= (rows of a)^T (rows of b), a [R,M], b [R,N], out [E,M,N].
//   The sum runs in chunks of at most 1024 rows, in order; zero for an expert without rows.
// The weights of an expert without rows are not read.
struct GroupedMatmul {
  static constexpr const char* name = "grouped_matmul";
  TensorView a, b, offsets, out;
  bool trans_a = false, trans_b = false, accumulate = false;
  // The largest number of rows that a has in any call at this path; sets the size of the workspace. 0: the rows of this
  // call.
  int64_t most_rows = 0;
  int64_t experts() const { return offsets.count() - 1; }
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("b", b, Access::read), f("offsets", offsets, Access::read);
    f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 2.0 * static_cast<double>(a.rows()) * a.cols() * out.cols(); }
};

// The sigmoid: out = 1 / (1 + exp(-x)); any shape.
struct SigmoidForward {
  static constexpr const char* name = "sigmoid";
  TensorView x, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 4.0 * out.count(); }
};

// The gradient of SigmoidForward: dx = dout y (1 - y), y = sigmoid(x). dx may be the memory of dout.
struct SigmoidBackward {
  static constexpr const char* name = "sigmoid_backward";
  TensorView y, dout, dx;
  template <class F>
  void each(F&& f) const {
    f("y", y, Access::read), f("dout", dout, Access::read), f("dx", dx, Access::write);
  }
  double flops() const { return 3.0 * dx.count(); }
};

}  // namespace ravine
