// Aquila (BAAI 2023): Llama under another name.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_aquila(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  read_common(r, f);
  s.names.architecture = "AquilaForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
