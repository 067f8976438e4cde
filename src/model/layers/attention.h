// Multi-head attention with grouped keys and values. Positions by rotation (rope), by ALiBi, or none. The letters are
// those in kernels/kernels.h; over P tensor ranks H and G are per rank (H/P, at least one of G).
//   x [N,C] -> qkv [N,(H+2G)D] -> q [N,HD], k [N,GD], v [N,GD] -> softmax(q k^T) v [N,HD] -> [N,C]
#pragma once
#include <optional>

#include "model/layers/linear.h"
#include "model/layers/rope.h"

namespace ravine {

// The sizes of the latents, in attention whose keys and values come from one latent per token (latent_attention.h).
struct LatentSpec {
  int64_t q_rank = 0;   // size of the latent of queries; 0: queries come from x
  int64_t kv_rank = 0;  // size of the latent of keys and values
  // The number of rotated channels of a head of q and k: its last channels. The rotated channels of k are shared by all
  // heads.
  int64_t rotated = 0;
  bool bias = false;  // of the products that make latents
};

struct AttentionSpec {
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_size = 0;
  int64_t window = 0;  // number of keys that a query sees at most, its own included; 0: all
  bool qkv_bias = false, out_bias = false;
  bool alibi = false;
  // RMSNorm on q and k before the rotation: on each head (Qwen3), or on a whole row of all heads (OLMo 2).
  enum class Norms : uint8_t { none, head, row } norms = Norms::none;
  double norm_eps = 1e-6;
  double scale = 0;  // factor of the scores; 0: 1/sqrt(head_size)
  double cap = 0;    // scaled scores s become cap tanh(s / cap) before the mask; 0: no cap
  // Size of a head of values; 0: head_size. Another value is allowed with latents only; make_decoder checks this.
  int64_t value_size = 0;
  std::optional<LatentSpec> latent;  // if set, norm_eps is the eps of the latents' norms
  double init_std = 0.02, out_init_std = 0.02;
};

// Returns the slopes of ALiBi (Press et al. 2022): powers of 2^(-8/n). If the number n of heads is not a power of two:
// the slopes of the power below, then every other slope of the power above.
std::vector<double> alibi_slopes(int64_t heads);

// Returns the number of key/value heads on each of `ranks` tensor ranks: its share, or 1 if there are fewer heads than
// ranks.
int64_t local_kv_heads(int64_t kv_heads, int ranks);

// The elements per token in a layer of the KV cache, on each of `ranks` tensor ranks: of its keys and of its values.
// With latents, keys: its latent with the rotated part of the key, which every rank holds whole; values: 0. The result
// of cache_widths.
struct CacheWidths {
  int64_t keys = 0, values = 0;
};
CacheWidths cache_widths(const AttentionSpec& s, int ranks);

class Attention {
 public:
  // Declares the parameters of attention under `name`. `layer`: number of the layer. `table`: the table of RoPE; null:
  // no rotation.
  Attention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& spec, const RopeTable* table);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]

 private:
  AttentionSpec spec_;
  int layer_;
  const RopeTable* table_;
  std::vector<double> slopes_;                   // for all heads
  Linear qkv_, out_;                             // [N,C] -> [N,(H+2G)D]; [N,HD] -> [N,C]
  Param *q_norm_ = nullptr, *k_norm_ = nullptr;  // [D] for each head, or [HD] and [GD] for a row
};

}  // namespace ravine
