// Qwen2 and 2.5 (Yang et al. 2024): Llama with biases on q, k, v, and an optional window in the layers from
// max_window_layers on.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_qwen2(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s);
  s.attention.qkv_bias = true;
  read_layer_windows(r, f, s);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  r.only("use_mrope", false, "positions of images are not offered");
  read_common(r, f);
  s.names.architecture = "Qwen2ForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::core;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
