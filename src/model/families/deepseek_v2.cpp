// DeepSeek-V2 (DeepSeek-AI 2024): Llama with latent attention. After the first dense layers it has experts, chosen by
// softmax, from all groups or from the best groups, and shared experts.
#include "model/families/deepseek.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_deepseek_v2(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  const DeepseekDefaults absent;
  read_deepseek(r, f, s, absent);
  s.rope->interleaved = true;
  s.mlp.bias = r.boolean("mlp_bias", false);
  read_deepseek_experts(r, f, s, absent);
  const std::string method = r.text("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    r.refuse("topk_method", "it must be greedy or group_limited_greedy", "use a model with one of these");
  r.only("scoring_func", "softmax", "experts of this family are scored by softmax");
  r.only("norm_topk_prob", false, "Transformers does not normalise the weights of this family, DeepSeek's own code does");
  if (s.moe && method == "greedy") s.moe->routing.groups = s.moe->routing.kept_groups = 1;
  read_common(r, f);
  s.names.architecture = "DeepseekV2ForCausalLM";
  if (s.attention.latent->q_rank > 0) s.names.mindformers = CheckpointNames::MindFormers::core;
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
