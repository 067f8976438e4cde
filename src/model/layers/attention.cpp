#include "model/layers/attention.h"

#include <cmath>

#include "engine/ops/attention.h"
#include "engine/ops/rope.h"
#include "engine/ops/tensor_parallel.h"

namespace ravine {

Attention::Attention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& s, const RopeTable& table)
    : spec_(s),
      layer_(layer),
      table_(table),
      qkv_(set, unit,
           {{name + ".q_proj", s.heads * s.head_size}, {name + ".k_proj", s.kv_heads * s.head_size}, {name + ".v_proj", s.kv_heads * s.head_size}},
           s.hidden, s.qkv_bias, Split::columns, s.init_std),
      out_(set, unit, {{name + ".o_proj", s.hidden}}, s.heads * s.head_size, s.out_bias, Split::rows, s.out_init_std) {}

Tensor Attention::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "self_attn");
  int ranks = c.group(Axis::tensor).size();
  int64_t heads = div_exact(spec_.heads, ranks), kv_heads = div_exact(spec_.kv_heads, ranks);
  int64_t width = heads * spec_.head_size, kv_width = kv_heads * spec_.head_size;
  AttentionShape at{{}, heads, kv_heads, spec_.head_size, 1 / std::sqrt(static_cast<double>(spec_.head_size)), true, spec_.window};

  Tensor qkv = qkv_(c, tp_enter(c, x));  // [N, (H + 2G) D]
  Tensor q = qkv.columns(0, width), k = qkv.columns(width, kv_width), v = qkv.columns(width + kv_width, kv_width);
  rope(c, q, table_.view(), heads);
  rope(c, k, table_.view(), kv_heads);
  Tensor mixed;
  if (c.batch().cache) {
    auto [keys, values] = c.batch().cache->append(layer_, k.view(), v.view());
    mixed = attention_cached(c, q, keys, values, at);
  } else {
    mixed = attention(c, q, k, v, at);
  }
  return tp_exit(c, out_(c, mixed));
}

}  // namespace ravine
