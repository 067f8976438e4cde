// What DeepSeek-V2 and DeepSeek-V3 share: fields of config.json and names of files.
#pragma once
#include "model/decoder.h"

namespace ravine {

// What Transformers takes where a file says nothing.
struct DeepseekDefaults {
  int64_t positions = 2048, first_dense = 0;
  int64_t experts = 64, top_k = 0, groups = 1, kept_groups = 1, width = 1407, shared = 2;  // top_k 0: the file must say it
  double scaling = 1;
};

// Sizes, latent attention and its rotation, the dense MLP; names of files. Heads of keys are qk_nope_head_dim channels of their
// own and qk_rope_head_dim rotated ones. Norms of latents have eps 1e-6 whatever rms_norm_eps says.
void read_deepseek(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent);
// Experts of the layers from first_k_dense_replace on, beside shared ones; how they are scored and grouped is the family's to add.
// Without such layers s.moe stays empty. Auxiliary losses are the run's to ask for, as in Transformers.
void read_deepseek_experts(ConfigReader& r, const ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent);

}  // namespace ravine
