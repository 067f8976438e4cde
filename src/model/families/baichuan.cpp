// Baichuan 7B, 13B and Baichuan2 7B, 13B (Baichuan 2023): Llama with q, k, v in one matrix. The 13B models have ALiBi
// instead of rotary positions. In version 2 the rows of the head have length 1 (NormHead).
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_baichuan(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  // All four models have one model_type. A file with max_position_embeddings has rotary positions; with ALiBi it has
  // only model_max_length. Version 2 has z_loss_weight, or its own vocabulary size. If the vocabulary changes,
  // z_loss_weight must be set.
  s.attention.alibi = !r.has("max_position_embeddings");
  s.head.unit_rows = r.has("z_loss_weight") || r.integer("vocab_size", 1, 1 << 30) == 125696;
  if (s.head.unit_rows) s.implied = {{"z_loss_weight", 0}};
  read_llama_shape(r, f, s);
  if (s.attention.alibi) {
    if (!r.has("model_max_length"))
      r.refuse("max_position_embeddings", "it or model_max_length is required", "use a complete config.json");
    s.trained_length = r.integer("model_max_length", 1, 1 << 30);
    f.max_positions = 0;
  } else {
    s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  }
  r.ignore({"model_max_length"});
  r.only("num_key_value_heads", s.attention.heads, "every head has its own keys and values");
  r.only("z_loss_weight", 0, "the loss on the largest logit is not offered");
  read_common(r, f);
  s.names.architecture = "BaichuanForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.modules = {{"self_attn.q_proj", "self_attn.W_pack"},
                     {"self_attn.k_proj", "self_attn.W_pack"},
                     {"self_attn.v_proj", "self_attn.W_pack"}};
  s.names.constants = {"rotary_emb.inv_freq", "self_attn.future_mask", "model.future_mask"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
