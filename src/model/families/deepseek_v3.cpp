// DeepSeek-V3 and R1 (DeepSeek-AI 2024): as V2, with experts chosen by sigmoid and a correction within the best groups. Heads
// that predict further tokens (layers behind the last one in files) are not read.
#include "model/families/deepseek.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_deepseek_v3(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_deepseek(r, f, s, {.positions = 4096});
  s.rope->interleaved = r.boolean("rope_interleave", true);
  refuse_experts(r, f, 3);
  read_common(r, f);
  s.names.architecture = "DeepseekV3ForCausalLM";
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
