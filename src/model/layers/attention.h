// Multi-head attention with grouped keys and values; positions by rotation (rope), by ALiBi, or not here. Letters as in
// kernels/kernels.h; over P tensor ranks H and G are those of a rank (H/P, at least one of G):
//   x [N,C] -> qkv [N,(H+2G)D] -> q [N,HD], k [N,GD], v [N,GD] -> softmax(q k^T) v [N,HD] -> [N,C]
#pragma once
#include <optional>

#include "model/layers/linear.h"
#include "model/layers/rope.h"

namespace ravine {

// Heads whose keys and values come from one latent per token (latent_attention.h).
struct LatentSpec {
  int64_t q_rank = 0;   // of the latent that queries come from; 0: they come from x
  int64_t kv_rank = 0;  // of the latent of keys and values
  int64_t rotated = 0;  // channels of a head of q and k that are rotated, its last ones; those of k are one for all heads
  bool bias = false;    // of the products that give latents
};

struct AttentionSpec {
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_size = 0;
  int64_t window = 0;  // keys that a query sees at most, itself among them; 0: all
  bool qkv_bias = false, out_bias = false;
  bool alibi = false;
  // RMSNorm on q and k before the rotation: on each head by itself (Qwen3), or on a whole row of all heads (OLMo 2).
  enum class Norms : uint8_t { none, head, row } norms = Norms::none;
  double norm_eps = 1e-6;
  double scale = 0;        // of the scores; 0: 1/sqrt(head_size)
  double cap = 0;          // scaled scores s become cap tanh(s / cap) before the mask; 0: as they are
  int64_t value_size = 0;  // of a head of values, where it is not head_size; 0: it is. With latents only: make_decoder refuses
  std::optional<LatentSpec> latent;  // norm_eps is that of the latents then
  double init_std = 0.02, out_init_std = 0.02;
};

// Slopes of ALiBi (Press et al. 2022): powers of 2^(-8/n); of n heads that are no power of two, those of the power below, then
// every other one of the power above.
std::vector<double> alibi_slopes(int64_t heads);

// Key/value heads on each of `ranks` tensor ranks: its share, or the one of its query heads where there are fewer than ranks.
int64_t local_kv_heads(int64_t kv_heads, int ranks);

// Numbers that a cache keeps of a token in a layer, on each of `ranks` tensor ranks: of its keys and its values, or of its
// latent with the rotated part of the key, which every rank has whole (values: 0).
struct CacheWidths {
  int64_t keys = 0, values = 0;
};
CacheWidths cache_widths(const AttentionSpec& s, int ranks);

class Attention {
 public:
  // `table`: null without rotation.
  Attention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& spec, const RopeTable* table);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]

 private:
  AttentionSpec spec_;
  int layer_;
  const RopeTable* table_;
  std::vector<double> slopes_;                   // of all heads
  Linear qkv_, out_;                             // [N,C] -> [N,(H+2G)D]; [N,HD] -> [N,C]
  Param *q_norm_ = nullptr, *k_norm_ = nullptr;  // [D] of each head, or [HD] and [GD] of a row
};

}  // namespace ravine
