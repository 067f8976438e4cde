// Weights under the names of MindSpore Transformers: legacy Llama (attention.wq, feed_forward.w1, ...), mcore
// (self_attention.linear_q, mlp.gating, ...), and the fused w_qkv (per group: query heads, k, v) and w_gate_hidden (rows of
// gate and up in turn). Stacks of experts [E, in, out] as its grouped products read them, or [E, out, in] (its converter of
// Qwen2-MoE, use_gmm); where in and out are as many, the first.
//
//   DIR/*.safetensors (param_name_map.json), or one *.safetensors or *.ckpt   complete
//   DIR/rank_R/*.safetensors | *.ckpt, or files *_rank_R-*                    one part per rank, cut over the tensor ranks
#pragma once
#include <string>

#include "config/choices.h"
#include "io/convert/hf_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Of a training state the weights are taken, or what this optimizer keeps, "adam_m." and "adam_v." of AdamW; counters are passed
// over. `config` is that
// of --model-config, or null: then DIR/config.json must be there. How ranks cut a tensor follows from its shape: neighbouring
// ranks are tensor ranks. A name or shape that does not fit is a UserError.
Weights read_mindformers(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown,
                         StateKind kind = StateKind::weights, OptimizerType optimizer = OptimizerType::adamw);

// Of weights that have been read: a UserError where a tensor of the model is missing, with its name there and here.
void refuse_missing_tensors(const Weights& weights, const std::string& path);

// The files that are read of a path, one of each rank in their order.
std::vector<std::string> mindformers_files(const std::string& path);
// What a tensor of MindFormers is as a whole; rank 0: not known, or joined of several.
Shape mindformers_shape(const std::string& name, const Geometry& g);

// The name of a tensor in MindFormers: legacy for llama and its like, mcore for qwen2 and qwen3.
std::string mindformers_name(const std::string& name, const Geometry& g);

struct MindFormersLayout {
  bool fused = false;  // q, k, v as one matrix per layer, gate and up too (qkv_concat: True)
  int64_t ranks = 1;   // tensor ranks; of several each has a folder rank_R. Embedding and head stay whole (vocab_emb_dp: True)
};
// Files of the target, with their tensors. A family that has no
// names in MindFormers, and sizes that do not divide, are UserErrors.
struct MindFormersFile {
  std::string path;  // "rank_0/checkpoint_rank_0.safetensors"; "": shards of a complete model
  std::vector<NamedElements> tensors;
};
std::vector<MindFormersFile> plan_mindformers(const Weights& weights, const Geometry& g, const MindFormersLayout& layout);
void write_mindformers(TargetFolder& folder, const std::vector<MindFormersFile>& files, const Weights& weights,
                       const std::function<void(int64_t)>& progress);

// [E, a, b] -> [E, b, a].
ElementsPtr turned_experts(const ElementsPtr& stack);

// What tensor rank r of n holds of a tensor, by its name in MindFormers.
ElementsPtr tensor_part(const std::string& name, const ElementsPtr& whole, int64_t r, int64_t n);

}  // namespace ravine
