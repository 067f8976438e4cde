// The config.json of a model in a Megatron checkpoint, made from its stored arguments and its tensors.
#pragma once
#include <map>
#include <string>

#include "base/json.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/megatron_names.h"

namespace ravine {

// Returns the config.json of the model in a Megatron checkpoint, made from its stored arguments and tensors. RMSNorm
// families: Qwen3 (norms of q and k), Qwen2 (bias on q, k, v only), Baichuan (ALiBi), else Llama. LayerNorm families:
// Bloom (ALiBi), GPT-2 (learned positions), else GPT-NeoX without parallel residual.
Json megatron_config(const MegatronFolder& f, const std::map<std::string, Shards>& tensors, int64_t layers);

// Throws if an argument changes the meaning of the weights and cannot be expressed in the guessed config.
void refuse_other_arithmetic(const TorchFile& file, bool guess);

}  // namespace ravine
