// Qwen3, dense (Qwen team 2025): Llama with RMSNorm on each head of q and k before the rotation.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_qwen3(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s);
  if (!r.has("head_dim")) s.attention.head_size = 128;
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("attention_bias", false);
  s.attention.norms = AttentionSpec::Norms::head;
  read_layer_windows(r, f, s);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  read_common(r, f);
  s.names.architecture = "Qwen3ForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::core;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
