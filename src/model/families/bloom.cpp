// BLOOM (BigScience 2022): LayerNorm with biases everywhere, ALiBi, a norm after the embedding, tanh GELU, tied head.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_bloom(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_vocabulary(r, f, s);
  s.attention.hidden = r.any_integer({"n_embed", "hidden_size"}, 1, 1 << 20);
  f.layers = r.any_integer({"n_layer", "num_hidden_layers"}, 1, 100000);
  set_heads(r, "n_head", r.any_integer({"n_head", "num_attention_heads"}, 1, 1 << 20), s);
  s.attention.alibi = s.attention.qkv_bias = s.attention.out_bias = s.mlp.bias = true;
  s.mlp.width = 4 * s.attention.hidden;
  r.only("n_inner", nullptr, "the MLP has 4 times the hidden size");
  s.mlp.act = Act::gelu_tanh;
  s.norm = {NormSpec::layer, r.number("layer_norm_epsilon", 0, 1, 1e-5)};
  s.embedding_norm = s.padding_learns = true;
  s.head.tied = r.boolean("tie_word_embeddings", true);
  r.only("apply_residual_connection_post_layernorm", false, "the residual stream goes past the norms");
  // seq_length is the length of the training sequences: ALiBi has no table. The other fields select implementations of
  // the same formula.
  s.trained_length = r.integer("seq_length", 1, 1 << 30, 0);
  r.ignore({"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi", "skip_bias_add",
            "skip_bias_add_qkv", "slow_but_exact"});
  read_common(r, f);
  s.names = {"BloomForCausalLM",
             "transformer.",
             "transformer.h.",
             {{"model.embed_tokens", "transformer.word_embeddings"},
              {"model.embed_norm", "transformer.word_embeddings_layernorm"},
              {"model.norm", "transformer.ln_f"},
              {"self_attn.q_proj", "self_attention.query_key_value"},
              {"self_attn.k_proj", "self_attention.query_key_value"},
              {"self_attn.v_proj", "self_attention.query_key_value"},
              {"self_attn.o_proj", "self_attention.dense"},
              {"mlp.up_proj", "mlp.dense_h_to_4h"},
              {"mlp.down_proj", "mlp.dense_4h_to_h"}},
             CheckpointNames::per_head,
             false,
             {}};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
