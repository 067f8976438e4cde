#include "model/same_model.h"

#include <tuple>

#include "model/decoder.h"

namespace ravine {
namespace {

// Return the members that are compared. The bindings name every member, so a new member does not compile before it is
// added here.
auto meaning(const NormSpec& s) {
  const auto& [kind, eps, offset] = s;
  return std::tuple(kind, eps, offset);
}

auto meaning(const HeadSpec& s) {
  const auto& [tied, unit_rows, cap] = s;
  return std::tuple(tied, unit_rows, cap);
}

auto meaning(const MlpSpec& s) {
  const auto& [width, act, bias, std, out_std] = s;
  return std::tuple(width, act, bias);
}

auto meaning(const AttentionSpec& s) {  // the window is compared per layer
  const auto& [hidden, heads, kv_heads, head_size, window, qkv_bias, out_bias, alibi, norms, eps, scale, cap, value_size,
               latent, std, out_std] = s;
  const auto& [q_rank, kv_rank, rotated, bias] = latent.value_or(LatentSpec());
  return std::tuple(hidden, heads, kv_heads, head_size, qkv_bias, out_bias, alibi, norms,
                    norms == AttentionSpec::Norms::none && !latent ? 0 : eps, scale, cap, value_size, q_rank, kv_rank, rotated,
                    bias);
}

auto meaning(const RopeSettings& s) {
  const auto& [type, theta, factor, low, high, fast, slow, attention, scores, near, far, truncate, original, max, share, dims,
               interleaved] = s;  // the factor of scores is a part of the scale of attention
  return std::tuple(type, theta, factor, low, high, fast, slow, attention, near, far, truncate, original, max, dims,
                    interleaved);
}

// Capacity and losses are options of the run.
auto meaning(const MoeSpec& s) {
  const auto& [routing, width, std, out_std, shared, gate, name, losses] = s;
  const auto& [experts, top_k, scores, after, groups, kept, group_score, correction, normalise, eps, scaling, capacity, drop,
               pad] = routing;
  return std::tuple(experts, top_k, scores, after, groups, kept, group_score, correction, normalise, eps, scaling, width,
                    shared.width > 0, shared.width > 0 ? meaning(shared) : meaning(MlpSpec()), gate);
}

bool same_around_mlps(const DecoderSpec& a, const DecoderSpec& b, int64_t layers) {
  auto meaning_of = [](const DecoderSpec& s) {
    const auto& [topology, norm, attention, windows, by_layer, mlp, mlps, moe, sparse, rope, head, embedding_scale,
                 embedding_norm, positions, padding_learns, trained_length, implied, names, adapters] =
        s;  // adapters are options of the run
    return std::tuple(topology, meaning(norm), meaning(attention), by_layer, rope.has_value(),
                      meaning(rope.value_or(RopeSettings())), meaning(head), embedding_scale, embedding_norm, positions,
                      padding_learns);
  };
  if (meaning_of(a) != meaning_of(b)) return false;
  for (int64_t i = 0; i < layers; ++i)
    if (a.window(i) != b.window(i)) return false;
  return true;
}

bool same_spec(const DecoderSpec& a, const DecoderSpec& b, int64_t layers) {
  if (!same_around_mlps(a, b, layers)) return false;
  for (int64_t i = 0; i < layers; ++i)
    if (a.is_sparse(i) != b.is_sparse(i) ||
        (a.is_sparse(i) ? meaning(*a.moe) != meaning(*b.moe) : meaning(a.mlp_of(i)) != meaning(b.mlp_of(i))))
      return false;
  return true;
}

bool same_facts(const ModelFacts& f, const ModelFacts& g) {
  return std::tie(f.layers, f.hidden, f.vocabulary, f.max_positions) ==
         std::tie(g.layers, g.hidden, g.vocabulary, g.max_positions);
}

}  // namespace

bool same_model(const Model& a, const Model& b) {
  const ModelFacts &f = a.facts(), &g = b.facts();
  if (f.family != g.family || !same_facts(f, g)) return false;
  const DecoderSpec *s = a.decoder(), *t = b.decoder();
  if (!s || !t) return a.config() == b.config();
  return same_spec(*s, *t, f.layers) && (s->padding_learns || f.pad == g.pad);
}

bool same_except_mlps(const Model& dense, const Model& sparse) {
  const ModelFacts &f = dense.facts(), &g = sparse.facts();
  const DecoderSpec *s = dense.decoder(), *t = sparse.decoder();
  if (!s || !t || !same_facts(f, g) || !same_around_mlps(*s, *t, f.layers)) return false;
  for (int64_t i = 0; i < f.layers; ++i)
    if (s->is_sparse(i) || !t->is_sparse(i) || meaning(s->mlp_of(i)) != meaning(t->mlp)) return false;
  return s->padding_learns || f.pad == g.pad;
}

}  // namespace ravine
