#include "model/layers/attention.h"

#include <bit>
#include <cmath>

#include "engine/ops/attention.h"
#include "engine/ops/head_norm.h"
#include "engine/ops/rope.h"
#include "engine/ops/row_norm.h"
#include "engine/ops/tensor_parallel.h"

namespace ravine {

std::vector<double> alibi_slopes(int64_t heads) {
  auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t k = 1; k <= power; ++k) slopes.push_back(std::exp2(-8.0 * static_cast<double>(k) / static_cast<double>(power)));
  for (int64_t k = 1; static_cast<int64_t>(slopes.size()) < heads; k += 2)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(k) / static_cast<double>(2 * power)));
  return slopes;
}

int64_t local_kv_heads(int64_t kv_heads, int ranks) { return ranks > kv_heads ? 1 : div_exact(kv_heads, ranks); }

CacheWidths cache_widths(const AttentionSpec& s, int ranks) {
  if (s.latent) return {s.latent->kv_rank + s.latent->rotated, 0};
  const int64_t width = local_kv_heads(s.kv_heads, ranks) * s.head_size;
  return {width, width};
}

Attention::Attention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& s,
                     const RopeTable* table)
    : spec_(s),
      layer_(layer),
      table_(table),
      slopes_(s.alibi ? alibi_slopes(s.heads) : std::vector<double>()),
      qkv_(set, unit,
           {{name + ".q_proj", s.heads * s.head_size},
            {name + ".k_proj", s.kv_heads * s.head_size, static_cast<int>(s.kv_heads)},
            {name + ".v_proj", s.kv_heads * s.head_size, static_cast<int>(s.kv_heads)}},
           s.hidden, s.qkv_bias, Split::columns, s.init_std, Join::qkv),
      out_(set, unit, {{name + ".o_proj", s.hidden}}, s.heads * s.head_size, s.out_bias, Split::rows, s.out_init_std) {
  if (s.norms == AttentionSpec::Norms::none) return;
  const bool rows = s.norms == AttentionSpec::Norms::row;
  auto add = [&](const char* which, int64_t heads, int most) {
    std::vector<Cut> cuts;
    if (rows) cuts = {{0, Axis::tensor, most}};
    return set.add(unit, {name + which, {rows ? heads * s.head_size : s.head_size}, cuts, {Init::ones}, false, Use::vector});
  };
  q_norm_ = add(".q_norm.weight", s.heads, 0);
  k_norm_ = add(".k_norm.weight", s.kv_heads, static_cast<int>(s.kv_heads));
}

Tensor Attention::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "self_attn");
  const Group& ranks = c.group(Axis::tensor);
  int64_t heads = div_exact(spec_.heads, ranks.size()), kv_heads = local_kv_heads(spec_.kv_heads, ranks.size());
  int64_t width = heads * spec_.head_size, kv_width = kv_heads * spec_.head_size;
  double scale = spec_.scale != 0 ? spec_.scale : 1 / std::sqrt(static_cast<double>(spec_.head_size));
  AttentionShape at;
  at.heads = heads, at.kv_heads = kv_heads, at.head_size = spec_.head_size, at.scale = scale, at.window = spec_.window,
  at.cap = spec_.cap;
  if (spec_.alibi)
    at.slopes = std::span(slopes_).subspan(static_cast<size_t>(ranks.rank() * heads), static_cast<size_t>(heads));

  Tensor qkv = qkv_(c, tp_enter(c, x));  // [N, (H + 2G) D]
  Tensor q = qkv.columns(0, width), k = qkv.columns(width, kv_width), v = qkv.columns(width + kv_width, kv_width);
  qkv = Tensor();
  if (q_norm_) {
    const auto norm = spec_.norms == AttentionSpec::Norms::row ? row_norm : head_norm;
    q = norm(c, q, *q_norm_, spec_.norm_eps), k = norm(c, k, *k_norm_, spec_.norm_eps);
  }
  if (table_) rope(c, q, table_->tables(), heads), rope(c, k, table_->tables(), kv_heads);
  Tensor mixed;
  if (c.batch().cache) {
    at.segments = c.batch().segments;
    auto [keys, values] = c.batch().cache->append(layer_, k.view(), v.view());
    mixed = attention_cached(c, q, keys, values, at);
  } else {
    mixed = attention(c, q, k, v, at);
  }
  return tp_exit(c, out_(c, mixed));
}

}  // namespace ravine
