// Mistral (Jiang et al. 2023): Llama with grouped keys and values, and attention to the last sliding_window keys only.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_mistral(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s);
  // If the field is absent, the window is Transformers' default; null switches it off.
  int64_t absent = r.is_null("sliding_window") ? 0 : 4096;
  s.attention.window = r.integer("sliding_window", 1, 1 << 30, absent);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  read_common(r, f);
  s.names.architecture = "MistralForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
