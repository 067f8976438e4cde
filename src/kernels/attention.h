// Rotary positions and attention over ragged segments: the fused kernel, and the softmax of the unfused definition.
// kernels.h defines letters, types and determinism.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/view.h"

namespace ravine {

// Rotary position embedding (Su et al. 2021), in place on dims [begin, begin + R) of each head of x [N, heads*D]. x may
// be a column slice. Other dims keep their values. table [P,R] f32 (f64 on ref): R/2 cosines, then R/2 sines, of row
// positions[n]:
//   for j < R/2: (a, b) <- (a cos_j - b sin_j, b cos_j + a sin_j).
// a, b are rotated dims j and j + R/2, or 2j and 2j + 1 if interleaved. inverse: rotates back, for the gradient.
struct Rope {
  static constexpr const char* name = "rope";
  TensorView x, positions /* i32 [N] */, table;
  int64_t heads = 0;
  bool inverse = false;
  int64_t begin = 0;
  bool interleaved = false;
  template <class F>
  void each(F&& f) const {
    f("x", x, Access::update), f("positions", positions, Access::read), f("table", table, Access::read);
  }
  template <class F>
  void settings(F&& f) const {
    f("inverse", static_cast<double>(inverse)), f("interleaved", static_cast<double>(interleaved));
  }
  double flops() const { return 3.0 * x.count(); }
};

// The rows of one sequence in a ragged batch. Its queries are rows [q_begin, q_begin+q_count) of q, its keys rows
// [k_begin, k_begin+k_count) of k and v. Query i has position k_count - q_count + i among its keys.
struct Segment {
  int64_t q_begin = 0, q_count = 0, k_begin = 0, k_count = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Dropout of attention probabilities (Vaswani et al. 2017), after the softmax: p_ij becomes keep ? p_ij / (1-p) : 0.
// Masks are per head first_head + h of the whole model; h counts the heads of this rank. The mask is never stored: it
// is the mask of Dropout on the matrix of probabilities [queries, keys] of a segment and head. Its key is head_key(h),
// its positions are `token_index`, its channels are the keys of the segment from 0 on.
struct AttentionDropout {
  double p = 0;      // 0: no dropout
  uint64_t key = 0;  // for the layer, from its path
  uint32_t step = 0;
  int64_t first_head = 0;
  // For each row of q. places, i32 [N]: its index in its sequence. sequences, i64 [N]: the global index of its
  // sequence.
  TensorView token_index, sequences;
  uint64_t head_key(int64_t h) const;
};

// The settings of an attention kernel: segments of the batch, heads, mask, scale, ALiBi, cap and dropout. Segments do
// not overlap in q.
struct AttentionShape {
  std::span<const Segment> segments;
  // Numbers of query heads and of key/value heads, and channels of a head. heads is a multiple of kv_heads; q head h
  // reads kv head h / (heads/kv_heads).
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  double scale = 1;    // factor of the scores, before the softmax
  bool causal = true;  // key position <= query position
  int64_t window = 0;  // 0, or: query position - key position < window
  // The slopes of ALiBi (Press et al. 2022), one per head; empty: no ALiBi. ALiBi adds slope * (key position - query
  // position) to the scaled scores. The softmax of this form equals the softmax of slope * key position, and long rows
  // lose no digits. The memory is the caller's.
  std::span<const double> slopes;
  // The soft cap of the scores (Gemma 2); 0: no cap. Scaled scores s become cap * tanh(s / cap), before the mask and
  // the softmax. Not allowed with ALiBi.
  double cap = 0;
  AttentionDropout dropout;
  int64_t value_size = 0;  // E, size of a head of v and out; 0: head_size
  int64_t values() const { return value_size > 0 ? value_size : head_size; }
  template <class F>
  void settings(F&& f) const {
    f("scale", scale), f("causal", static_cast<double>(causal)), f("window", static_cast<double>(window)), f("cap", cap);
    f("dropout", dropout.p);
  }
};

// Attention over ragged segments: out = dropout(softmax(capped(scale * q k^T))) v per segment and head, in O(N) memory.
// Only unmasked blocks are computed. q [N, H*D]; out [N, H*E]; k [M, G*D]; v [M, G*E] (k and v may be column slices).
//
// lse [H, N] f32 or f64: the natural log of the sum of exponentials of the scaled and capped scores, before dropout.
// The backward pass needs lse; else it is optional. An f32 lse has an error of 2^-24 |lse|, equal for all probabilities
// of a row, which is more than the error of f32 products. So runs in f32 use f64.
//
// Rows outside all segments, and rows without an unmasked key, get out = 0, lse = -inf. ref and bf16: probabilities are
// rounded to the type of q before the product with v.
struct AttentionForward {
  static constexpr const char* name = "attention";
  TensorView q, k, v, out, lse;
  AttentionShape at;
  template <class F>
  void each(F&& f) const {
    f("q", q, Access::read), f("k", k, Access::read), f("v", v, Access::read), f("out", out, Access::write),
        f("lse", lse, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    at.settings(f);
  }
  double flops() const;
};

// The gradients of AttentionForward by its inputs: dq, dk, dv with the shapes and types of q, k, v. Every row is
// written (zeros outside segments).
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
  template <class F>
  void settings(F&& f) const {
    at.settings(f);
  }
  double flops() const;
};

// The softmax of unfused attention, for one segment and head: probs = softmax(scale * scores + slope * (key - query
// position)) under the mask. scores, probs [q_count, k_count]. Masked entries and empty rows become 0. In place
// allowed.
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
  template <class F>
  void settings(F&& f) const {
    f("scale", scale), f("causal", static_cast<double>(causal)), f("window", static_cast<double>(window)), f("slope", slope);
  }
  double flops() const { return 5.0 * scores.count(); }
};

// The gradient of SoftmaxForward: dscores = scale * probs * (dprobs - sum_k probs * dprobs). In place on dprobs
// allowed.
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  TensorView probs, dprobs, dscores;
  double scale = 1;
  template <class F>
  void each(F&& f) const {
    f("probs", probs, Access::read), f("dprobs", dprobs, Access::read), f("dscores", dscores, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("scale", scale);
  }
  double flops() const { return 5.0 * probs.count(); }
};

// Arranges the keys and values of all heads for latent attention (DeepSeek-V2, 2024). kv [N, H*(D+E)]:
// per head D channels of the key, then E of the value. rope [N, R]: the rotated channels, shared by the keys of all
// heads.
//   keys[h] = (kv[h][0, D), rope),  values[h] = kv[h][D, D+E).
// keys [N, H*(D+R)], values [N, H*E]; all of one type.
struct LatentKeysForward {
  static constexpr const char* name = "latent_keys";
  TensorView kv, rope, keys, values;
  int64_t heads = 0;
  template <class F>
  void each(F&& f) const {
    f("kv", kv, Access::read), f("rope", rope, Access::read), f("keys", keys, Access::write),
        f("values", values, Access::write);
  }
  double flops() const { return 0; }
};

// Gradient of LatentKeysForward: dkv from dkeys and dvalues; drope is the sum over heads, in order, rounded once.
struct LatentKeysBackward {
  static constexpr const char* name = "latent_keys_backward";
  TensorView dkeys, dvalues, dkv, drope;
  int64_t heads = 0;
  template <class F>
  void each(F&& f) const {
    f("dkeys", dkeys, Access::read), f("dvalues", dvalues, Access::read), f("dkv", dkv, Access::write),
        f("drope", drope, Access::write);
  }
  double flops() const { return static_cast<double>(heads * drope.count()); }
};

// Returns the number of pairs (query, key) that the mask lets through, summed over segments, for one head. The FLOPs of
// attention are 2 (D + E) H times this number.
double attention_pairs(const AttentionShape& at);

}  // namespace ravine
