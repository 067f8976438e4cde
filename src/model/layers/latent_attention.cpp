#include "model/layers/latent_attention.h"

#include <cmath>

#include "engine/ops/attention.h"
#include "engine/ops/head_norm.h"
#include "engine/ops/latent_keys.h"
#include "engine/ops/rope.h"
#include "engine/ops/tensor_parallel.h"

namespace ravine {
namespace {

std::vector<LinearSpec> to_latents(const std::string& name, const LatentSpec& s) {
  std::vector<LinearSpec> specs;
  if (s.q_rank > 0) specs.push_back({name + ".q_a_proj", s.q_rank});
  specs.push_back({name + ".kv_a_proj_with_mqa", s.kv_rank + s.rotated});
  return specs;
}

Param* latent_norm(ParamSet& set, Unit& unit, const std::string& name, int64_t size) {
  return set.add(unit, {name + ".weight", {size}, {}, {Init::ones}, false, Use::vector});
}

}  // namespace

LatentAttention::LatentAttention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& s,
                                 const RopeTable& table)
    : spec_(s), latent_(*s.latent), layer_(layer), table_(&table) {
  down_ = Linear(set, unit, to_latents(name, latent_), s.hidden, latent_.bias, Split::none, s.init_std, Join::latents);
  const bool low = latent_.q_rank > 0;
  if (low) q_norm_ = latent_norm(set, unit, name + ".q_a_layernorm", latent_.q_rank);
  q_ = Linear(set, unit, {{name + (low ? ".q_b_proj" : ".q_proj"), s.heads * s.head_size}}, low ? latent_.q_rank : s.hidden,
              false, Split::columns, s.init_std);
  kv_norm_ = latent_norm(set, unit, name + ".kv_a_layernorm", latent_.kv_rank);
  kv_ = Linear(set, unit, {{name + ".kv_b_proj", s.heads * (own() + s.value_size)}}, latent_.kv_rank, false, Split::columns,
               s.init_std);
  out_ = Linear(set, unit, {{name + ".o_proj", s.hidden}}, s.heads * s.value_size, s.out_bias, Split::rows, s.out_init_std);
}

Tensor LatentAttention::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "self_attn");
  const int64_t heads = div_exact(spec_.heads, c.group(Axis::tensor).size());
  AttentionShape at;
  at.heads = at.kv_heads = heads, at.head_size = spec_.head_size, at.value_size = spec_.value_size, at.window = spec_.window;
  at.scale = spec_.scale != 0 ? spec_.scale : 1 / std::sqrt(static_cast<double>(spec_.head_size));

  // Norms are computed after tokens are gathered, so one message carries both latents and the rotated part.
  Tensor down = tp_enter(c, down_(c, x));
  Tensor q = q_norm_ ? q_(c, head_norm(c, down.columns(0, latent_.q_rank), *q_norm_, spec_.norm_eps)) : q_(c, tp_enter(c, x));
  rope(c, q, table_->tables(), heads, own());
  Tensor latent = head_norm(c, down.columns(latent_.q_rank, latent_.kv_rank), *kv_norm_, spec_.norm_eps);
  Tensor key = down.columns(latent_.q_rank + latent_.kv_rank, latent_.rotated);
  down = Tensor();
  rope(c, key, table_->tables(), 1);
  if (c.batch().cache) return tp_exit(c, out_(c, over_cache(c, q, latent, key, at)));
  auto [keys, values] = latent_keys(c, kv_(c, latent), key, heads, spec_.value_size);
  latent = key = Tensor();
  return tp_exit(c, out_(c, attention(c, q, keys, values, at)));
}

Tensor LatentAttention::over_cache(Ctx& c, const Tensor& q, const Tensor& latent, const Tensor& key, AttentionShape at) const {
  at.segments = c.batch().segments;
  Tensor row = c.empty({q.rows(), latent_.kv_rank + latent_.rotated}, c.types().compute);
  c.call(Cast{latent.view(), row.view().columns(0, latent_.kv_rank)});
  c.call(Cast{key.view(), row.view().columns(latent_.kv_rank, latent_.rotated)});
  const TensorView rows = c.batch().cache->append(layer_, row.view(), {}).first;
  const bool plain = c.store().blocks(*kv_.params().weights[0]).absent();  // parts of the weight are read as matrices
  return plain && absorbs(at) ? absorbed(c, q, rows, at) : expanded(c, q, rows, at);
}

// Compares the products of a head: per pair of query and key, and per new token or per key. An adapter on kv_b_proj is
// not part of the weight, so absorbing is then not possible.
bool LatentAttention::absorbs(const AttentionShape& at) const {
  if (kv_.params().adapters) return false;
  double queries = 0, keys = 0;
  for (const Segment& s : at.segments) queries += static_cast<double>(s.q_count), keys += static_cast<double>(s.k_count);
  const double pairs = attention_pairs(at), up = static_cast<double>(latent_.kv_rank * (own() + spec_.value_size));
  const auto wide = static_cast<double>(2 * latent_.kv_rank + latent_.rotated),
             narrow = static_cast<double>(spec_.head_size + spec_.value_size);
  return pairs * wide + queries * up < pairs * narrow + keys * up;
}

Tensor LatentAttention::expanded(Ctx& c, const Tensor& q, const TensorView& rows, AttentionShape at) const {
  std::vector<Segment> segments;
  int64_t total = 0;
  for (const Segment& s : at.segments) segments.push_back({s.q_begin, s.q_count, total, s.k_count}), total += s.k_count;
  Tensor seen = c.empty({total, rows.cols()}, rows.dtype);
  for (size_t i = 0; i < segments.size(); ++i)
    c.call(Cast{rows.row_range(at.segments[i].k_begin, segments[i].k_count),
                seen.view().row_range(segments[i].k_begin, segments[i].k_count)});
  auto [keys, values] = latent_keys(c, kv_(c, seen.columns(0, latent_.kv_rank)), seen.columns(latent_.kv_rank, latent_.rotated),
                                    at.heads, spec_.value_size);
  at.segments = segments;
  return attention_cached(c, q, keys.view(), values.view(), at);
}

Tensor LatentAttention::absorbed(Ctx& c, const Tensor& q, const TensorView& rows, AttentionShape at) const {
  const int64_t rank = latent_.kv_rank, width = rows.cols(), size = spec_.head_size, values = spec_.value_size;
  const TensorView up = c.store().value(*kv_.params().weights[0]);
  Tensor wide = c.empty({q.rows(), at.heads * width}, q.dtype());
  for (int64_t h = 0; h < at.heads; ++h) {
    c.call(Matmul{.a = q.view().columns(h * size, own()),
                  .b = up.row_range(h * (own() + values), own()),
                  .out = wide.view().columns(h * width, rank)});
    c.call(Cast{q.view().columns(h * size + own(), latent_.rotated), wide.view().columns(h * width + rank, latent_.rotated)});
  }
  at.kv_heads = 1, at.head_size = width, at.value_size = rank;
  const Tensor mixed = attention_cached(c, wide, rows, rows.columns(0, rank), at);
  Tensor out = c.empty({q.rows(), at.heads * values}, q.dtype());
  for (int64_t h = 0; h < at.heads; ++h)
    c.call(Matmul{.a = mixed.view().columns(h * rank, rank),
                  .b = up.row_range(h * (own() + values) + own(), values),
                  .out = out.view().columns(h * values, values),
                  .trans_b = true});
  return out;
}

}  // namespace ravine
