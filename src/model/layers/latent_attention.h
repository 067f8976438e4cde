// Multi-head latent attention (DeepSeek-V2, 2024). Per token, with D unrotated channels of a head's key, R rotated
// channels and E channels of its value.
//   c = norm(W_c x), r = rotated(W_r x): shared by all heads (kv_a_proj_with_mqa makes both, kv_a_layernorm);
//   key of head h = (K_h c, r), value = V_h c: K_h and V_h are the rows of kv_b_proj for h, one after the other;
//   query of head h = D channels and R rotated channels of q_b_proj norm(q_a_proj x), or of q_proj x.
// A cache stores (c, r) of a token and nothing per head. There are two ways to compute attention over the cache.
// Expanded: compute keys and values of all tokens again. Absorbed: multiply the query by K_h; attend over (c, r) as one
// key of all heads, with c as its value; multiply the result by V_h. The way with fewer products is chosen: absorbed
// for few new tokens (below about 170 in DeepSeek-V3), expanded for prompts.
//
// Tensor ranks cut the heads, but not the latents, since every head needs them whole; the products of latents
// run on the local rows of the residual stream.
//
// Shapes, with Q and L the sizes of the two latents and D + R the head size.
//   x [N,C] -> latents [N,Q], [N,L] and r [N,R];
//   q [N,H(D+R)]; keys [N,H(D+R)], values [N,HE] -> softmax(q k^T) v [N,HE] -> [N,C].
#pragma once
#include "model/layers/attention.h"

namespace ravine {

class LatentAttention {
 public:
  // Declares the parameters of latent attention under `name`: q_a_proj, q_a_layernorm, q_b_proj (or q_proj),
  // kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj and o_proj.
  LatentAttention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& spec,
                  const RopeTable& table);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]

 private:
  // Attention of N new tokens over the rows of the cache. q [N,H(D+R)], rows [M,L+R] of the cache -> [N,HE]. over_cache
  // first appends the new tokens' latent [N,L] and key [N,R] to the cache. expanded and absorbed: the two ways to
  // compute it.
  Tensor over_cache(Ctx& c, const Tensor& q, const Tensor& latent, const Tensor& key, AttentionShape at) const;
  Tensor expanded(Ctx& c, const Tensor& q, const TensorView& rows, AttentionShape at) const;
  Tensor absorbed(Ctx& c, const Tensor& q, const TensorView& rows, AttentionShape at) const;
  bool absorbs(const AttentionShape& at) const;
  int64_t own() const { return spec_.head_size - latent_.rotated; }  // unrotated channels of a head's key

  AttentionSpec spec_;
  LatentSpec latent_;
  int layer_;
  const RopeTable* table_;
  Linear down_, q_, kv_, out_;  // down_: to both latents, side by side
  Param *q_norm_ = nullptr, *kv_norm_ = nullptr;
};

}  // namespace ravine
