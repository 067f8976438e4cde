// Multi-head latent attention (DeepSeek-V2, 2024). Per token, with D channels of a head's own key, R rotated ones and E of its
// value:
//   c = norm(W_c x), r = rotated(W_r x): what all heads share (kv_a_proj_with_mqa gives both, kv_a_layernorm);
//   key of head h = (K_h c, r), value = V_h c: K_h and V_h are the rows of kv_b_proj for h, one after the other;
//   query of head h = D channels and R rotated ones of q_b_proj norm(q_a_proj x), or of q_proj x.
// A cache keeps (c, r) of a token and nothing per head. Over it there are two ways to the same sums: make keys and values of
// all tokens again; or take K_h into the query, attend over (c, r) as if it were the one key of all heads with c its value, and
// multiply the result by V_h. The one with fewer products is taken: the second while few tokens come at a time (below about
// 170 of them in DeepSeek-V3), the first for prompts.
//
// Over tensor ranks heads are cut; the latents, of which every head needs all, are not: their products run on the rows of the
// residual stream that are here.
//
// Shapes, with Q and L the ranks of the two latents, D + R the head size: x [N,C] -> latents [N,Q], [N,L] and r [N,R];
// q [N,H(D+R)]; keys [N,H(D+R)], values [N,HE] -> softmax(q k^T) v [N,HE] -> [N,C].
#pragma once
#include "model/layers/attention.h"

namespace ravine {

class LatentAttention {
 public:
  // Declares q_a_proj, q_a_layernorm, q_b_proj (or q_proj), kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj and o_proj.
  LatentAttention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& spec,
                  const RopeTable& table);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]

 private:
  // q [N,H(D+R)] of N new tokens, rows [M,L+R] of the cache -> [N,HE]. over_cache puts latent [N,L] and key [N,R] there first.
  Tensor over_cache(Ctx& c, const Tensor& q, const Tensor& latent, const Tensor& key, AttentionShape at) const;
  Tensor expanded(Ctx& c, const Tensor& q, const TensorView& rows, AttentionShape at) const;
  Tensor absorbed(Ctx& c, const Tensor& q, const TensorView& rows, AttentionShape at) const;
  bool absorbs(const AttentionShape& at) const;
  int64_t own() const { return spec_.head_size - latent_.rotated; }  // channels of a head's own key

  AttentionSpec spec_;
  LatentSpec latent_;
  int layer_;
  const RopeTable* table_;
  Linear down_, q_, kv_, out_;  // down_: to both latents, side by side
  Param *q_norm_ = nullptr, *kv_norm_ = nullptr;
};

}  // namespace ravine
