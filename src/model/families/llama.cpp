// Llama 1, 2, 3.x (Touvron et al. 2023; Meta 2024): pre-norm blocks, rotary positions,
// grouped-query attention, gated MLP.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_llama(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s);
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("attention_bias", false);
  s.mlp.bias = r.boolean("mlp_bias", false);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  read_common(r, f);
  s.names.architecture = "LlamaForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
