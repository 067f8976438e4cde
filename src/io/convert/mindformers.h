// Weights under the names of MindSpore Transformers: legacy Llama (attention.wq, feed_forward.w1, ...), mcore
// (self_attention.linear_q, mlp.gating, ...), and the fused w_qkv (per group: query heads, k, v) and w_gate_hidden (rows of
// gate and up in turn).
//
//   DIR/*.safetensors (param_name_map.json), or one *.safetensors or *.ckpt   complete
//   DIR/rank_R/*.safetensors | *.ckpt, or files *_rank_R-*                    one part per rank, cut over the tensor ranks
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// Optimizer state and counters are passed over. `config` is that of --model-config, or null: then DIR/config.json must be
// there. How ranks cut a tensor follows from its shape: neighbouring ranks are tensor ranks. A name or shape that does not fit
// is a UserError.
Weights read_mindformers(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown);

// The name of a tensor in MindFormers: legacy for llama and its like, mcore for qwen2 and qwen3.
std::string mindformers_name(const std::string& name, const Geometry& g);

// Says whether a name is one of MindFormers and of nobody else.
bool is_mindformers_name(const std::string& name);

}  // namespace ravine
