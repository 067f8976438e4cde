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
  r.ignore({"ep_size", "seq_aux", "aux_loss_alpha", "output_router_logits", "router_aux_loss_coef"});
  s.names.constants = {"rotary_emb.inv_freq"};
  s.names.further_layers = r.any_integer({"num_nextn_predict_layers", "num_mtp_layers"}, 0, 1000, 0);
}

void refuse_experts(ConfigReader& r, const ModelFacts& f, int64_t first_dense) {
  r.ignore({"n_routed_experts", "num_local_experts", "n_shared_experts", "num_experts_per_tok", "n_group", "topk_group",
            "norm_topk_prob", "routed_scaling_factor", "scoring_func", "topk_method", "moe_intermediate_size",
            "moe_layer_freq"});
  if (r.integer("first_k_dense_replace", 0, 100000, first_dense) < f.layers)
    r.refuse("first_k_dense_replace", "layers from this one on have experts, which are not offered yet",
             "use a model all of whose layers are dense");
}

}  // namespace ravine
