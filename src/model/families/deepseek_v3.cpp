// DeepSeek-V3 and R1 (DeepSeek-AI 2024): as V2, with experts chosen by sigmoid and a correction within the best groups. Heads
// that predict further tokens (layers behind the last one in files) are not read.
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
  r.only("scoring_func", "sigmoid", "experts of this family are scored by sigmoid");
  r.only("topk_method", "noaux_tc", "experts of this family are chosen with a correction");
  const bool normalise = r.boolean("norm_topk_prob", true);
  if (s.moe) {
    Routing& g = s.moe->routing;
    if (g.experts / g.groups < 2)
      r.refuse("n_group", "a group needs two experts: its score is the sum of its two best", "correct the field");
    g.scores = Routing::Scores::sigmoid, g.group_score = Routing::GroupScore::two_best;
    g.correction = true, g.normalise = normalise, g.normalise_eps = 1e-20;
  }
  read_common(r, f);
  s.names.architecture = "DeepseekV3ForCausalLM";
  if (s.attention.latent->q_rank > 0) s.names.mindformers = CheckpointNames::MindFormers::core;
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
