// Fields of config.json and names of files that DeepSeek-V2 and DeepSeek-V3 share.
#pragma once
#include "model/decoder.h"

namespace ravine {

// Transformers' defaults for absent fields in a config.json of DeepSeek-V2 or V3.
struct DeepseekDefaults {
  int64_t positions = 2048, first_dense = 0;
  // The defaults of experts; top_k 0: the field is required.
  int64_t experts = 64, top_k = 0, groups = 1, kept_groups = 1, width = 1407, shared = 2;
  double scaling = 1;
};

// Reads the fields that DeepSeek-V2 and V3 share, except experts: sizes, latent attention with its rotation, the dense
// MLP, and names of files. A head of keys has qk_nope_head_dim unrotated channels and qk_rope_head_dim rotated
// channels. Norms of latents have eps 1e-6 for any rms_norm_eps.
void read_deepseek(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent);
// Reads the experts of DeepSeek-V2 and V3, of the layers from first_k_dense_replace on, with shared experts. The family
// sets scores and groups. Without such layers s.moe stays empty. Auxiliary losses are an option of the run, as in
// Transformers.
void read_deepseek_experts(ConfigReader& r, const ModelFacts& f, DecoderSpec& s, const DeepseekDefaults& absent);

}  // namespace ravine
