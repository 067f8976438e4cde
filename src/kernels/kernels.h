// The one door to arithmetic (seam S1): a table of kernels over small argument structs. Backends (ref, cpu, meta) fill it.
//
// Letters: N tokens of a micro batch (ragged, all sequences after another), C channels, H heads, G key/value heads, D head
// size, V vocabulary, I width of the MLP. Activations are [N, C].
//
// Every argument struct names itself, lists its own tensors with each(f(name, view, access)) and counts its flops(); that makes
// meta, shadow, dump, statistics, fault injection and profiles generic. An absent tensor (rank 0) is optional where said so.
//
// Types: ref takes any mix of f64, f32, bf16, f16. cpu takes f32, bf16, f16 where nothing else is said; statistics (rstd, lse),
// weight gradients and optimizer state are f32 there. Arithmetic is f32 or wider (ref: f64), rounded once on storing.
//
// Determinism: same bits for any number of threads. Sums over tokens go in chunks of at most 1024 tokens, in order.
#pragma once
#include <cstdint>
#include <span>
#include <tuple>

#include "base/exact_sum.h"
#include "kernels/view.h"

namespace ravine {

// out[n] = scale * weight[ids[n]]. ids i32 [N]; weight [V,C]; out [N,C].
struct EmbeddingForward {
  static constexpr const char* name = "embedding";
  TensorView ids, weight, out;
  double scale = 1;
  template <class F>
  void each(F&& f) const {
    f("ids", ids, Access::read), f("weight", weight, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 0; }
};

// dweight[ids[n]] += scale * dout[n], tokens in order; without `accumulate`, dweight is cleared first. Rows of dweight equal to
// `padding_id` (if >= 0) get nothing (PyTorch's padding_idx). dweight is wider than or as wide as dout.
struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  TensorView ids, dout, dweight;
  int64_t padding_id = -1;
  bool accumulate = false;
  double scale = 1;
  template <class F>
  void each(F&& f) const {
    f("ids", ids, Access::read), f("dout", dout, Access::read),
        f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  double flops() const { return static_cast<double>(dout.count()); }
};

// RMSNorm (Zhang, Sennrich 2019), with the residual add in front if `branch` is there:
//   sum = x + branch (stored if `sum` is there);  rstd = 1/sqrt(mean(sum^2) + eps);  out = (sum * rstd) * (offset + weight).
// offset 1 over a weight that begins at zero is the norm of Gemma (Google 2024). x, branch, sum, out [N,C]; weight [C]; rstd
// [N]. `sum` may be the memory of x. Without branch, sum is absent.
struct RmsNormForward {
  static constexpr const char* name = "rms_norm";
  TensorView x, branch, weight, sum, out, rstd;
  double eps = 1e-6, offset = 0;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("branch", branch, Access::read), f("weight", weight, Access::read), f("sum", sum, Access::write);
    f("out", out, Access::write), f("rstd", rstd, Access::write);
  }
  double flops() const { return 4.0 * x.count(); }
};

// Given dout and the gradient `dsum` that reaches the normalised sum by other ways (optional):
//   h = dout * (offset + weight);  dx = dsum + rstd * (h - xhat * mean(h * xhat)),  xhat = x * rstd;  dweight (+)= sum_n dout *
//   xhat.
// x is the sum that was normalised. dx may be the memory of dsum. `dbranch` (optional) receives dx again, rounded to its own
// type. dweight [C] is optional (frozen); with `accumulate` it is added to.
struct RmsNormBackward {
  static constexpr const char* name = "rms_norm_backward";
  TensorView dout, x, weight, rstd, dsum, dx, dbranch, dweight;
  bool accumulate = false;
  double offset = 0;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("rstd", rstd, Access::read);
    f("dsum", dsum, Access::read), f("dx", dx, Access::write), f("dbranch", dbranch, Access::write);
    f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 10.0 * x.count(); }
};

// LayerNorm (Ba, Kiros, Hinton 2016), with the residual add in front if `branch` is there:
//   sum = x + branch (stored if `sum` is there);  mean, rstd = 1/sqrt(mean((sum - mean)^2) + eps) of a row;
//   out = (sum - mean) * rstd * weight + bias.
// x, branch, sum, out [N,C]; weight, bias [C]; mean, rstd [N] (optional). `sum` may be the memory of x. Without branch, sum is
// absent.
struct LayerNormForward {
  static constexpr const char* name = "layer_norm";
  TensorView x, branch, weight, bias, sum, out, mean, rstd;
  double eps = 1e-5;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("branch", branch, Access::read), f("weight", weight, Access::read),
        f("bias", bias, Access::read);
    f("sum", sum, Access::write), f("out", out, Access::write), f("mean", mean, Access::write), f("rstd", rstd, Access::write);
  }
  double flops() const { return 8.0 * x.count(); }
};

// With xhat = (x - mean) * rstd, h = dout * weight:
//   dx = dsum + rstd * (h - mean(h) - xhat * mean(h * xhat));  dweight (+)= sum_n dout * xhat;  dbias (+)= sum_n dout.
// x is the sum that was normalised; dsum, dbranch, dx as in RmsNormBackward. dweight, dbias [C]: both, or neither (frozen).
struct LayerNormBackward {
  static constexpr const char* name = "layer_norm_backward";
  TensorView dout, x, weight, mean, rstd, dsum, dx, dbranch, dweight, dbias;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("mean", mean, Access::read);
    f("rstd", rstd, Access::read), f("dsum", dsum, Access::read), f("dx", dx, Access::write),
        f("dbranch", dbranch, Access::write);
    f("dweight", dweight, accumulate ? Access::update : Access::write),
        f("dbias", dbias, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 14.0 * x.count(); }
};

// RMSNorm of each head by itself, one weight for all (Dehghani et al. 2023, as Qwen3 has it): for head h of row n
//   rstd = 1/sqrt(mean(x^2) + eps),  out = (x * rstd) * weight.
// x, out [N, H*D]; weight [D]; rstd [N,H] (optional).
struct HeadNormForward {
  static constexpr const char* name = "head_norm";
  TensorView x, weight, out, rstd;
  double eps = 1e-6;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("weight", weight, Access::read), f("out", out, Access::write), f("rstd", rstd, Access::write);
  }
  double flops() const { return 4.0 * x.count(); }
};

// Per head as RmsNormBackward; dweight [D] (optional) sums over rows and heads.
struct HeadNormBackward {
  static constexpr const char* name = "head_norm_backward";
  TensorView dout, x, weight, rstd, dx, dweight;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("rstd", rstd, Access::read);
    f("dx", dx, Access::write), f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 10.0 * x.count(); }
};

// RMSNorm of rows of which each rank holds some columns (OLMo 2's norm of q and of k over tensor ranks), in parts around a sum
// over ranks: out[n] = sum_c x[n,c] y[n,c] weight[c]. x, y [N,C]; weight [C] (optional); out [N]: f32 (f64 on ref).
struct RowDot {
  static constexpr const char* name = "row_dot";
  TensorView x, y, weight, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("y", y, Access::read), f("weight", weight, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 3.0 * x.count(); }
};

// rstd = 1/sqrt(squares / width + eps), out = (x * rstd) * weight: squares [N] of whole rows of `width`. x, out [N,C]; weight
// [C]; rstd [N] (optional).
struct PartNormForward {
  static constexpr const char* name = "part_norm";
  TensorView x, weight, squares, out, rstd;
  int64_t width = 0;
  double eps = 1e-6;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("weight", weight, Access::read), f("squares", squares, Access::read),
        f("out", out, Access::write);
    f("rstd", rstd, Access::write);
  }
  double flops() const { return 2.0 * x.count(); }
};

// With xhat = x * rstd and dots [N] = sum of dout * weight * x over whole rows: dx = rstd * (dout * weight - xhat * (dots *
// rstd / width)); dweight (+)= sum_n dout * xhat. dweight [C] is optional (frozen).
struct PartNormBackward {
  static constexpr const char* name = "part_norm_backward";
  TensorView dout, x, weight, rstd, dots, dx, dweight;
  int64_t width = 0;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("weight", weight, Access::read), f("rstd", rstd, Access::read);
    f("dots", dots, Access::read), f("dx", dx, Access::write),
        f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 7.0 * x.count(); }
};

// Rows at length 1, as torch.nn.functional.normalize: out[v] = x[v] / max(|x[v]|, 1e-12). x, out [V,C]; in place allowed.
struct UnitRowsForward {
  static constexpr const char* name = "unit_rows";
  TensorView x, out;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 3.0 * x.count(); }
};

// With r = 1 / max(|x|, 1e-12), y = x r: dx (+)= r (dout - y (y . dout)), or r dout where |x| is below.
struct UnitRowsBackward {
  static constexpr const char* name = "unit_rows_backward";
  TensorView dout, x, dx;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("x", x, Access::read), f("dx", dx, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 6.0 * x.count(); }
};
inline constexpr double kLeastNorm = 1e-12;

// out (+)= op(a) op(b) + bias. op(a) [M,K], op(b) [K,N], out [M,N], bias [N] (optional; any floating type).
// a and b have one type; out has it too, or f32. f32 accumulation for 16-bit operands. `accumulate` adds to out.
// The reduction runs in chunks of at most 1024 of K, in order, when `tokens_reduced` (weight gradients: K counts tokens).
struct Matmul {
  static constexpr const char* name = "matmul";
  TensorView a, b, bias, out;
  bool trans_a = false, trans_b = false, accumulate = false, tokens_reduced = false;
  int64_t m() const { return out.rows(); }
  int64_t n() const { return out.cols(); }
  int64_t k() const { return trans_a ? a.rows() : a.cols(); }
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("b", b, Access::read), f("bias", bias, Access::read);
    f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 2.0 * m() * n() * k(); }
};

// out[c] (+)= sum_n x[n,c]: the gradient of a bias. out [C], at least f32.
struct SumRows {
  static constexpr const char* name = "sum_rows";
  TensorView x, out;
  bool accumulate = false;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, accumulate ? Access::update : Access::write);
  }
  double flops() const { return static_cast<double>(x.count()); }
};

// Rotary position embedding (Su et al. 2021), half-rotation layout, in place on x [N, heads*D] (a column slice is fine):
//   for j < R/2: (x[j], x[j+R/2]) <- (x[j] cos - x[j+R/2] sin, x[j+R/2] cos + x[j] sin), table row = positions[n].
// table [P,R] f32 (f64 on ref): R/2 cosines, then R/2 sines; R <= D, dims from R on stay. inverse: rotates back (the gradient).
struct Rope {
  static constexpr const char* name = "rope";
  TensorView x, positions /* i32 [N] */, table;
  int64_t heads = 0;
  bool inverse = false;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::update), f("positions", positions, Access::read), f("table", table, Access::read);
  }
  double flops() const { return 3.0 * x.count(); }
};

// One sequence of a ragged batch: queries are rows [q_begin, q_begin+q_count) of q, keys rows [k_begin, k_begin+k_count) of k
// and v. Query i of it has position k_count - q_count + i among its keys.
struct Segment {
  int64_t q_begin = 0, q_count = 0, k_begin = 0, k_count = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Dropout of attention probabilities (Vaswani et al. 2017), after the softmax: what was p_ij becomes keep ? p_ij / (1-p) : 0,
// for q head first_head + h of the whole model (h: of this rank). The mask is never stored: it is what Dropout drops of the
// matrix of probabilities [queries, keys] of a segment and head with key head_key(h), positions `places`, channels the keys of
// the segment from 0 on.
struct AttentionDropout {
  double p = 0;      // 0: none
  uint64_t key = 0;  // of the place in the model
  uint32_t step = 0;
  int64_t first_head = 0;
  TensorView places, sequences;  // of the rows of q: i32 [N], place in its sequence; i64 [N], global index of its sequence
  uint64_t head_key(int64_t h) const;
};

// How attention sees a batch. Segments do not overlap in q.
struct AttentionShape {
  std::span<const Segment> segments;
  int64_t heads = 0, kv_heads = 0,
          head_size = 0;  // heads is a multiple of kv_heads; q head h reads kv head h / (heads/kv_heads)
  double scale = 1;       // of the scores, before the softmax
  bool causal = true;     // key position <= query position
  int64_t window = 0;     // 0, or: query position - key position < window
  // ALiBi (Press et al. 2022), one per head, or empty: slope * (key position - query position) is added to the scaled scores.
  // That form differs from slope * key position by what the softmax does not see, and loses no digits in long rows. Memory of
  // the caller.
  std::span<const double> slopes;
  // 0, or a soft cap (Gemma 2): scaled scores s become cap * tanh(s / cap), before the mask and the softmax. Not beside ALiBi.
  double cap = 0;
  AttentionDropout dropout;
};

// out = dropout(softmax(capped(scale * q k^T))) v per segment and head, in O(N) memory, work only where the mask lets something
// through. q, out [N, H*D]; k, v [M, G*D]; lse [H, N]: log of the sum of exponentials (natural log, of scaled and capped
// scores, nothing dropped), kept for backward (optional when not training). Rows outside every segment, and rows whose mask
// lets no key through, get out = 0, lse = -inf. ref and bf16: probabilities are rounded to the type of q before the product
// with v.
struct AttentionForward {
  static constexpr const char* name = "attention";
  TensorView q, k, v, out, lse;
  AttentionShape at;
  template <class F>
  void each(F&& f) const {
    f("q", q, Access::read), f("k", k, Access::read), f("v", v, Access::read), f("out", out, Access::write),
        f("lse", lse, Access::write);
  }
  double flops() const;
};

// Gradients of the above: dq, dk, dv of the shapes and types of q, k, v. Every row is written (zeros outside segments).
struct AttentionBackward {
  static constexpr const char* name = "attention_backward";
  TensorView dout, q, k, v, out, lse, dq, dk, dv;
  AttentionShape at;
  template <class F>
  void each(F&& f) const {
    f("dout", dout, Access::read), f("q", q, Access::read), f("k", k, Access::read), f("v", v, Access::read);
    f("out", out, Access::read), f("lse", lse, Access::read), f("dq", dq, Access::write), f("dk", dk, Access::write),
        f("dv", dv, Access::write);
  }
  double flops() const;
};

// The inner op of unfused attention, for one segment and head: probs = softmax(scale * scores + slope * (key - query position))
// under the mask. scores, probs [q_count, k_count]; masked entries and empty rows become 0. In place allowed.
struct SoftmaxForward {
  static constexpr const char* name = "softmax";
  TensorView scores, probs;
  double scale = 1;
  bool causal = true;
  int64_t window = 0;
  double slope = 0;  // of ALiBi
  template <class F>
  void each(F&& f) const {
    f("scores", scores, Access::read), f("probs", probs, Access::write);
  }
  double flops() const { return 5.0 * scores.count(); }
};

// dscores = scale * probs * (dprobs - sum_k probs * dprobs). In place on dprobs allowed.
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  TensorView probs, dprobs, dscores;
  double scale = 1;
  template <class F>
  void each(F&& f) const {
    f("probs", probs, Access::read), f("dprobs", dprobs, Access::read), f("dscores", dscores, Access::write);
  }
  double flops() const { return 5.0 * probs.count(); }
};

// y = cap * tanh(scale * x / cap): a soft cap (Gemma 2). Types may differ; y may be the memory of x.
struct SoftCapForward {
  static constexpr const char* name = "soft_cap";
  TensorView x, y;  // [N,C]
  double cap = 1, scale = 1;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("y", y, Access::write);
  }
  double flops() const { return 12.0 * y.count(); }
};

// dx = scale * (1 - (y / cap)^2) * dy. dx may be the memory of y or dy.
struct SoftCapBackward {
  static constexpr const char* name = "soft_cap_backward";
  TensorView y, dy, dx;
  double cap = 1, scale = 1;
  template <class F>
  void each(F&& f) const {
    f("y", y, Access::read), f("dy", dy, Access::read), f("dx", dx, Access::write);
  }
  double flops() const { return 5.0 * dx.count(); }
};

// out = silu(gate) * up (Shazeer 2020), silu(g) = g / (1 + exp(-g)). gate, up, out [N,I].
struct SwigluForward {
  static constexpr const char* name = "swiglu";
  TensorView gate, up, out;
  template <class F>
  void each(F&& f) const {
    f("gate", gate, Access::read), f("up", up, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 5.0 * out.count(); }
};

// dgate = dout * up * s(1 + g(1-s)), dup = dout * g s, s = sigmoid(gate). dgate, dup may be the memory of gate, up.
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

// out = gelu(gate) * up (Shazeer 2020), gelu in its tanh form (below); the rest as SwiGLU.
struct GegluForward {
  static constexpr const char* name = "geglu";
  TensorView gate, up, out;
  template <class F>
  void each(F&& f) const {
    f("gate", gate, Access::read), f("up", up, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 11.0 * out.count(); }
};

// dgate = dout * up * the slope of gelu at gate, dup = dout * gelu(gate). dgate, dup may be the memory of gate, up.
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

// GELU (Hendrycks, Gimpel 2016): x Phi(x), Phi the normal distribution; or its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x +
// 0.044715 x^3))).
enum class GeluForm : uint8_t { exact, tanh };
struct GeluForward {
  static constexpr const char* name = "gelu";
  TensorView x, out;  // [N,I]
  GeluForm form = GeluForm::exact;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 10.0 * out.count(); }
};

// dx = dout * the slope at x. dx may be the memory of x or dout.
struct GeluBackward {
  static constexpr const char* name = "gelu_backward";
  TensorView x, dout, dx;
  GeluForm form = GeluForm::exact;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("dout", dout, Access::read), f("dx", dx, Access::write);
  }
  double flops() const { return 15.0 * dx.count(); }
};

// out = x * keep / (1-p) with keep = (uniform >= p); the mask is never stored, backward calls this again on the gradient.
// Word c%4 of philox(key, {c/4, position, low half of sequence, step}) decides channel c, uniform24. positions i32 [N],
// sequences i64 [N]: global position and global sequence index of each row. In place allowed.
struct Dropout {
  static constexpr const char* name = "dropout";
  TensorView x, positions, sequences, out;
  double p = 0;
  uint64_t key = 0;
  uint32_t step = 0;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("positions", positions, Access::read), f("sequences", sequences, Access::read),
        f("out", out, Access::write);
  }
  double flops() const { return 2.0 * x.count(); }
};

// Output product, softmax and cross-entropy in one, in chunks of tokens: logits never exist in full.
//   losses[n] = logsumexp(x[n] W^T) - (x[n] W^T)[labels[n]], 0 where labels[n] < 0;
//   dlogits = grad_scale * (softmax - onehot), 0 where labels[n] < 0;  dx = dlogits W;  dweight (+)= dlogits^T x.
// x [N,C]; weight [V,C]; labels i32 [N]; losses f64 [N]; dx [N,C] and dweight [V,C] optional (evaluation, frozen head).
// With `cap`, x[n] W^T stands above for cap * tanh(x[n] W^T / cap), and dlogits go through that.
// 16-bit: logits are kept in f32, dlogits are rounded to the type of x before the two products.
struct LossHead {
  static constexpr const char* name = "loss_head";
  TensorView x, weight, labels, losses, dx, dweight;
  double grad_scale = 1;
  bool accumulate = false;
  double cap = 0;  // 0: none
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("weight", weight, Access::read), f("labels", labels, Access::read),
        f("losses", losses, Access::write);
    f("dx", dx, Access::write), f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  double flops() const { return 2.0 * x.count() * weight.rows() * (1 + !dx.absent() + !dweight.absent()); }
};

// The two halves of an unfused loss head: losses from logits [N,V], and dlogits (in place allowed).
struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  TensorView logits, labels, losses, dlogits /* optional */;
  double grad_scale = 1;
  template <class F>
  void each(F&& f) const {
    f("logits", logits, Access::read), f("labels", labels, Access::read), f("losses", losses, Access::write),
        f("dlogits", dlogits, Access::write);
  }
  double flops() const { return 5.0 * logits.count(); }
};

// out = a + b; out may be the memory of a. Types may differ.
struct Add {
  static constexpr const char* name = "add";
  TensorView a, b, out;
  template <class F>
  void each(F&& f) const {
    f("a", a, Access::read), f("b", b, Access::read), f("out", out, Access::write);
  }
  double flops() const { return static_cast<double>(out.count()); }
};

// out = x in another type (round to nearest even). With `round_to`, values are rounded to that type on the way (simulated
// precision).
struct Cast {
  static constexpr const char* name = "cast";
  TensorView x, out;
  DType round_to = DType::f64;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read), f("out", out, Access::write);
  }
  double flops() const { return 0; }
};

struct Fill {
  static constexpr const char* name = "fill";
  TensorView out;
  double value = 0;
  template <class F>
  void each(F&& f) const {
    f("out", out, Access::write);
  }
  double flops() const { return 0; }
};

// result += sum of x^2, exact up to the rounding of partial sums over runs of 1024 elements in double.
struct SumSquares {
  static constexpr const char* name = "sum_squares";
  TensorView x;  // any shape, contiguous
  ExactSum* result = nullptr;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::read);
  }
  double flops() const { return 2.0 * x.count(); }
};

// A run of a flat buffer that shares its settings.
struct UpdateSpan {
  int64_t begin = 0, count = 0;
  double lr_mult = 1, weight_decay = 0;
};

// Scalars of a step live in one f64 tensor so that a captured graph can replay: [lr, 1-b1^t, 1-b2^t, gradient scale
// (clipping)].
enum StepScalar { kLr, kBias1, kBias2, kGradScale, kStepScalars };

// AdamW (Loshchilov, Hutter 2019) as torch.optim: g' = g * gradient scale;
//   p -= lr wd p (decoupled), or g' += wd p (`l2`: Adam);  m = b1 m + (1-b1) g';  v = b2 v + (1-b2) g'^2;
//   p -= lr (m / bias1) / (sqrt(v / bias2) + eps).   lr = lr scalar * lr_mult. cpu takes 1 - lr wd in f32, as torch does, and
//   rounds p once.
// All flat and contiguous, of one length; `copy` (optional) receives p in 16 bits.
struct AdamW {
  static constexpr const char* name = "adamw";
  TensorView param, grad, m, v, copy, scalars;
  std::span<const UpdateSpan> spans;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  bool l2 = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("m", m, Access::update), f("v", v, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  double flops() const { return 12.0 * param.count(); }
};

// torch.optim.SGD: g' = g * gradient scale + wd p;  buffer = momentum * buffer + (1-dampening) g' (the first step: buffer =
// g');
//   p -= lr * (nesterov ? g' + momentum * buffer : buffer). Without momentum, buffer is absent and p -= lr g'.
struct Sgd {
  static constexpr const char* name = "sgd";
  TensorView param, grad, buffer, copy, scalars;
  std::span<const UpdateSpan> spans;
  double momentum = 0, dampening = 0;
  bool nesterov = false, first = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("buffer", buffer, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  double flops() const { return 5.0 * param.count(); }
};

// An entry: run does the work; workspace says how many bytes of scratch it needs for arguments of this size with so many
// threads (monotone in the number of tokens; independent of where segments begin). Null run: the backend lacks it and the op
// runs its unfused definition.
template <class Args>
struct Kernel {
  void (*run)(const Args& args, void* workspace) = nullptr;
  int64_t (*workspace)(const Args& args, int threads) = nullptr;
};

// Every kernel there is. Each backend has `Kernel<Args>` of each (ref_kernel, cpu_kernel): one that is missing does not link.
template <class... Args>
struct KernelList {
  using Table = std::tuple<Kernel<Args>...>;
};
using AllKernels =
    KernelList<EmbeddingForward, EmbeddingBackward, RmsNormForward, RmsNormBackward, LayerNormForward, LayerNormBackward,
               HeadNormForward, HeadNormBackward, RowDot, PartNormForward, PartNormBackward, UnitRowsForward, UnitRowsBackward,
               Matmul, SumRows, Rope, AttentionForward, AttentionBackward, SoftmaxForward, SoftmaxBackward, SoftCapForward,
               SoftCapBackward, SwigluForward, SwigluBackward, GegluForward, GegluBackward, GeluForward, GeluBackward, Dropout,
               LossHead, CrossEntropy, Add, Cast, Fill, SumSquares, AdamW, Sgd>;

struct Kernels {
  const char* backend = "";
  const char* instructions = "";  // recorded in checkpoints, since bits depend on them
  AllKernels::Table table;

  // The entry that takes these arguments: kernels.of<Matmul>().
  template <class Args>
  const Kernel<Args>& of() const {
    return std::get<Kernel<Args>>(table);
  }
  template <class Args>
  Kernel<Args>& of() {
    return std::get<Kernel<Args>>(table);
  }
  // f(entry) for each entry.
  template <class F>
  void each(F&& f) {
    std::apply([&](auto&... entry) { (f(entry), ...); }, table);
  }
  template <class F>
  void each(F&& f) const {
    std::apply([&](const auto&... entry) { (f(entry), ...); }, table);
  }
};

// How cpu multiplies bf16: widened to f32, or by the dot product instruction (which cpu_has_bf16_dot() must allow). Either way
// operands are bf16 and sums are f32; kernels/cpu/bf16_dot.h says where bits differ. Skinny products and those inside attention
// and the loss head widen.
enum class Bf16Products : uint8_t { widen, dot };
bool cpu_has_bf16_dot();

Kernels ref_kernels();                                             // plain loops, f64 accumulation: the judge
Kernels cpu_kernels(Bf16Products products = Bf16Products::widen);  // picks the instruction set of this machine
Kernels meta_kernels(const Kernels& like);                         // same entries and workspaces, does nothing

// Pairs (query, key) that the mask lets through, summed over segments: the work of attention is 4 D H times this.
double attention_pairs(const AttentionShape& at);

// Peaks of this machine for all threads, per second, measured now (about 1 s in all). For figures that people read: no choice
// that changes bits hangs on them (kernels/cpu_id.h).
struct MachinePeaks {
  double f32_flops = 0, bf16_flops = 0;      // the larger of a loop of the instruction and the best product
  double f32_product = 0, bf16_product = 0;  // FLOP/s that the best product reaches, operands as they lie in training
  double bf16_dot = 0;                       // FLOP/s of a loop of bf16 dot products; 0: the machine has none
  double read_bytes = 0, copy_bytes = 0;
};
MachinePeaks measure_peaks(bool memory = true);  // false: no rates of memory, and none of the 512 MB that they take
double measure_read_bandwidth();                 // bytes per second, all threads, measured now (about 0.4 s)
// "avx512", "avx2" or "scalar".
const char* cpu_instruction_set();

}  // namespace ravine
