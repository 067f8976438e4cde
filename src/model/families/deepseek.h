// What DeepSeek-V2 and DeepSeek-V3 share: fields of config.json and names of files.
#pragma once
#include "model/decoder.h"

namespace ravine {

// What Transformers takes where a file says nothing.
struct DeepseekDefaults {
  int64_t positions = 2048;
};

// Sizes, latent attention and its rotation, the dense MLP; names of files. Heads of keys are qk_nope_head_dim channels of their
// own and qk_rope_head_dim rotated ones. Norms of latents have eps 1e-6 whatever rms_norm_eps says.
void read_deepseek(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent);
// Fields of experts. A model all of whose layers are dense (first_k_dense_replace = num_hidden_layers) needs none.
void refuse_experts(ConfigReader& r, const ModelFacts& f, int64_t first_dense);

}  // namespace ravine
