// GPT-NeoX and Pythia (Black et al. 2022; Biderman et al. 2023): parallel attention and MLP; a part of each head is
// rotated.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_gpt_neox(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_vocabulary(r, f, s);
  s.attention.hidden = r.integer("hidden_size", 1, 1 << 20);
  f.layers = r.integer("num_hidden_layers", 1, 100000);
  set_heads(r, "num_attention_heads", r.integer("num_attention_heads", 1, 1 << 20), s);
  f.max_positions = r.integer("max_position_embeddings", 1, 1 << 30, 2048);
  s.mlp.width = r.integer("intermediate_size", 1, 1 << 24);
  s.mlp.act = read_gelu(r, "hidden_act", "gelu");
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("attention_bias", true);
  s.mlp.bias = s.padding_learns = true;
  s.norm = {NormSpec::layer, r.number("layer_norm_eps", 0, 1, 1e-5)};
  if (r.boolean("use_parallel_residual", true)) s.topology = Topology::parallel;
  s.head.tied = r.boolean("tie_word_embeddings", false);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions, r.number("rotary_pct", 1e-3, 1, 0.25), "rotary_emb_base");
  if (s.rope->dims < 2 || s.rope->dims % 2)
    r.refuse("rotary_pct", fmt::format("it must give an even number of dims of {}", s.attention.head_size),
             "correct the field");
  read_common(r, f);
  s.names = {"GPTNeoXForCausalLM",
             "gpt_neox.",
             "gpt_neox.layers.",
             {{"model.embed_tokens", "gpt_neox.embed_in"},
              {"model.norm", "gpt_neox.final_layer_norm"},
              {"lm_head", "embed_out"},
              {"self_attn.q_proj", "attention.query_key_value"},
              {"self_attn.k_proj", "attention.query_key_value"},
              {"self_attn.v_proj", "attention.query_key_value"},
              {"self_attn.o_proj", "attention.dense"},
              {"mlp.up_proj", "mlp.dense_h_to_4h"},
              {"mlp.down_proj", "mlp.dense_4h_to_h"}},
             CheckpointNames::per_head,
             false,
             {"attention.bias", "attention.masked_bias", "rotary_emb.inv_freq"}};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
