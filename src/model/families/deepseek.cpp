#include "model/families/deepseek.h"

#include <cmath>

namespace ravine {

void read_deepseek(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent) {
  AttentionSpec& a = s.attention;
  LatentSpec latent;
  read_vocabulary(r, f, s);
  a.hidden = r.integer("hidden_size", 1, 1 << 20);
  f.layers = r.integer("num_hidden_layers", 1, 100000);
  a.heads = a.kv_heads = r.integer("num_attention_heads", 1, 1 << 20);
  r.only("num_key_value_heads", a.heads, "every head has keys and values of its own, made of latents");
  latent.q_rank = r.is_null("q_lora_rank") ? 0 : 1536;
  latent.q_rank = r.integer("q_lora_rank", 1, 1 << 20, latent.q_rank);
  latent.kv_rank = r.integer("kv_lora_rank", 1, 1 << 20, 512);
  latent.rotated = r.integer("qk_rope_head_dim", 2, 1 << 16, 64);
  if (latent.rotated % 2) r.refuse("qk_rope_head_dim", "it must be even for rotary positions", "correct the field");
  a.head_size = r.integer("qk_nope_head_dim", 1, 1 << 16, 128) + latent.rotated;
  a.value_size = r.integer("v_head_dim", 1, 1 << 16, 128);
  r.only("qk_head_dim", a.head_size, "it is qk_nope_head_dim + qk_rope_head_dim");
  r.only("head_dim", latent.rotated, "it is qk_rope_head_dim");
  latent.bias = a.out_bias = r.boolean("attention_bias", false);
  f.max_positions = r.integer("max_position_embeddings", 1, 1 << 30, absent.positions);
  s.rope = read_rope(r, latent.rotated, f.max_positions);
  a.scale = s.rope->score_factor * s.rope->score_factor / std::sqrt(static_cast<double>(a.head_size));
  a.norm_eps = 1e-6;
  a.latent = latent;
  s.mlp.width = r.integer("intermediate_size", 1, 1 << 24);
  s.norm = {NormSpec::rms, r.number("rms_norm_eps", 0, 1, 1e-6)};
  s.head.tied = r.boolean("tie_word_embeddings", false);
  r.only("hidden_act", "silu", "the MLP of this family is gated by silu");
  r.ignore({"ep_size", "seq_aux", "output_router_logits", "router_aux_loss_coef"});
  s.names.constants = {"rotary_emb.inv_freq"};
  s.names.further_layers = r.any_integer({"num_nextn_predict_layers", "num_mtp_layers"}, 0, 1000, 0);
}

void read_deepseek_experts(ConfigReader& r, const ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent) {
  MoeSpec m;
  Routing& g = m.routing;
  g.experts = r.any_integer({"n_routed_experts", "num_local_experts", "num_experts"}, 1, 4096, absent.experts);
  g.top_k = r.integer("num_experts_per_tok", 1, 64, absent.top_k);
  g.groups = r.integer("n_group", 1, 4096, r.is_null("n_group") ? 1 : absent.groups);
  g.kept_groups = r.integer("topk_group", 1, 4096, r.is_null("topk_group") ? 1 : absent.kept_groups);
  g.scaling = r.number("routed_scaling_factor", 1e-6, 1e6, absent.scaling);
  m.width = r.integer("moe_intermediate_size", 1, 1 << 24, absent.width);
  m.init_std = s.mlp.init_std, m.out_init_std = s.mlp.out_init_std;
  m.shared = s.mlp;
  m.shared.width = m.width * r.integer("n_shared_experts", 0, 64, r.is_null("n_shared_experts") ? 0 : absent.shared);
  m.shared_name = "shared_experts";
  m.losses.balance_coef = r.number("aux_loss_alpha", 0, 1e6, 0.001);
  r.only("moe_layer_freq", 1, "every layer behind the dense ones has experts");
  const int64_t first = r.integer("first_k_dense_replace", 0, 100000, absent.first_dense);
  if (first >= f.layers) return;
  if (g.top_k == 0) r.refuse("num_experts_per_tok", "it is required", "use a complete config.json");
  if (const std::string fault = routing_fault(g); !fault.empty()) r.refuse("num_experts_per_tok", fault, "correct the field");
  s.moe = m;
  for (int64_t i = 0; i < f.layers; ++i) s.sparse.push_back(i >= first);
}

}  // namespace ravine
