// DeepSeek-V2 (DeepSeek-AI 2024): Llama with latent attention and, behind the first dense layers, experts chosen by softmax,
// freely or within the best groups, beside shared ones.
#include "model/families/deepseek.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_deepseek_v2(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_deepseek(r, f, s, {.positions = 2048});
  s.rope->interleaved = true;
  s.mlp.bias = r.boolean("mlp_bias", false);
  refuse_experts(r, f, 0);
  read_common(r, f);
  s.names.architecture = "DeepseekV2ForCausalLM";
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
