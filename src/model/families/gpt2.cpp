// GPT-2 (Radford et al. 2019): learned positions, LayerNorm and biases everywhere, tanh GELU,
// matrices stored as [in, out].
#include <cmath>

#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_gpt2(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_vocabulary(r, f, s);
  s.attention.hidden = r.any_integer({"n_embd", "hidden_size"}, 1, 1 << 20);
  f.layers = r.any_integer({"n_layer", "num_hidden_layers"}, 1, 100000);
  set_heads(r, "n_head", r.any_integer({"n_head", "num_attention_heads"}, 1, 1 << 20), s);
  f.max_positions = r.any_integer({"n_positions", "max_position_embeddings"}, 1, 1 << 30, 1024);
  s.position_table = s.padding_learns = true;
  s.attention.qkv_bias = s.attention.out_bias = s.mlp.bias = true;
  s.mlp.width = r.integer("n_inner", 1, 1 << 24, 4 * s.attention.hidden);
  s.mlp.act = read_gelu(r, "activation_function", "gelu_new");
  // The products that write to the residual stream begin smaller, since 2 L of them are added.
  s.attention.out_init_std = s.mlp.out_init_std = s.attention.init_std / std::sqrt(2.0 * static_cast<double>(f.layers));
  s.norm = {NormSpec::layer, r.number("layer_norm_epsilon", 0, 1, 1e-5)};
  s.head.tied = r.boolean("tie_word_embeddings", true);
  if (!r.boolean("scale_attn_weights", true)) s.attention.scale = 1;
  s.scale_by_layer = r.boolean("scale_attn_by_inverse_layer_idx", false);
  // Fields of other heads and programs.
  r.ignore({"n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
            "summary_type", "summary_use_proj"});
  read_common(r, f);
  s.names = {"GPT2LMHeadModel",
             "transformer.",
             "transformer.h.",
             {{"model.embed_tokens", "transformer.wte"},
              {"model.embed_positions", "transformer.wpe"},
              {"model.norm", "transformer.ln_f"},
              {"input_layernorm", "ln_1"},
              {"post_attention_layernorm", "ln_2"},
              {"self_attn.q_proj", "attn.c_attn"},
              {"self_attn.k_proj", "attn.c_attn"},
              {"self_attn.v_proj", "attn.c_attn"},
              {"self_attn.o_proj", "attn.c_proj"},
              {"mlp.up_proj", "mlp.c_fc"},
              {"mlp.down_proj", "mlp.c_proj"}},
             CheckpointNames::stacked,
             true,
             {".attn.bias", ".attn.masked_bias"}};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
