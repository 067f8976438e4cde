// DeepSeek-V3 and R1 (DeepSeek-AI 2024): as V2, with experts chosen by sigmoid and a correction within the best groups.
// MindFormers' class of this name also chooses as V2 (scoring_func softmax, other methods); Transformers' class does
// not. Heads that predict further tokens (layers after the last one in files) are not read.
#include "model/families/deepseek.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_deepseek_v3(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  const DeepseekDefaults absent{.positions = 4096,
                                .first_dense = 3,
                                .experts = 256,
                                .top_k = 8,
                                .groups = 8,
                                .kept_groups = 4,
                                .width = 2048,
                                .shared = 1,
                                .scaling = 2.5};
  read_deepseek(r, f, s, absent);
  s.rope->interleaved = r.boolean("rope_interleave", true);
  read_deepseek_experts(r, f, s, absent);
  const std::string scores = r.text("scoring_func", "sigmoid"), method = r.text("topk_method", "noaux_tc");
  if (scores != "sigmoid" && scores != "softmax")
    r.refuse("scoring_func", "it must be sigmoid or softmax", "use a model with one of these");
  if (method != "noaux_tc" && method != "group_limited_greedy" && method != "greedy")
    r.refuse("topk_method", "it must be noaux_tc, group_limited_greedy or greedy", "use a model with one of these");
  const bool normalise = r.boolean("norm_topk_prob", true);
  if (s.moe) {
    Routing& g = s.moe->routing;
    if (method == "greedy") g.groups = g.kept_groups = 1;
    if (method == "noaux_tc" && g.experts / g.groups < 2)
      r.refuse("n_group", "a group needs two experts: its score is the sum of its two best", "correct the field");
    g.scores = scores == "sigmoid" ? Routing::Scores::sigmoid : Routing::Scores::softmax;
    g.group_score = method == "noaux_tc" ? Routing::GroupScore::two_best : Routing::GroupScore::best;
    g.correction = true, g.normalise = normalise, g.normalise_eps = 1e-20;
  }
  read_common(r, f);
  s.names.architecture = "DeepseekV3ForCausalLM";
  if (s.attention.latent->q_rank > 0) s.names.mindformers = CheckpointNames::MindFormers::core;
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
