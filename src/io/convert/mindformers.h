// Reads and writes weights under the names of MindSpore Transformers. Names: legacy Llama (attention.wq,
// feed_forward.w1, ...), mcore (self_attention.linear_q, mlp.gating, ...), and the fused w_qkv (per group: query heads,
// k, v) and w_gate_hidden (rows of gate and up alternate). Stacks of experts are [E, in, out] as for its grouped
// products, or [E, out, in] (its converter of Qwen2-MoE, use_gmm); the first form is assumed if in = out.
//
//   DIR/*.safetensors (param_name_map.json), or one *.safetensors or *.ckpt  complete;
//   DIR/rank_R/*.safetensors | *.ckpt, or files *_rank_R-*                   one part per rank, split over tensor ranks
#pragma once
#include <string>

#include "config/choices.h"
#include "io/convert/hf_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Reads MindFormers weights, or the states of `optimizer` that `kind` selects ("adam_m." and "adam_v." for AdamW);
// counters are skipped. `config` is the config of --model-config, or null: then DIR/config.json must exist. The split
// of a tensor over ranks follows from its shape: consecutive ranks are tensor ranks. A name or shape that does not fit
// is a UserError.
Weights read_mindformers(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown,
                         StateKind kind = StateKind::weights, OptimizerType optimizer = OptimizerType::adamw);

// Throws a UserError if `weights`, read from `path`, lack a tensor of their model; the message has its name in
// MindFormers and in Ravine.
void refuse_missing_tensors(const Weights& weights, const std::string& path);

// Returns the MindFormers weight files at a path, one per rank, in order of ranks.
std::vector<std::string> mindformers_files(const std::string& path);
// Returns the whole shape of a tensor, by its MindFormers name; rank 0 if unknown or joined from several tensors.
Shape mindformers_shape(const std::string& name, const Geometry& g);

// Returns the MindFormers name of a tensor: legacy for llama and similar families, mcore for qwen2 and qwen3.
std::string mindformers_name(const std::string& name, const Geometry& g);

// The layout of MindFormers files to write.
struct MindFormersLayout {
  bool fused = false;  // joins q, k, v of each layer, and gate and up (qkv_concat: True)
  // Number of tensor ranks. If above 1, each has a folder rank_R. Embedding and head stay whole (vocab_emb_dp: True).
  int64_t ranks = 1;
};
// A file to write, with its tensors; a result of plan_mindformers.
struct MindFormersFile {
  std::string path;  // "rank_0/checkpoint_rank_0.safetensors"; "": shards of a complete model
  std::vector<NamedElements> tensors;
};
// Returns the files to write with their tensors. A family without names in MindFormers, or sizes that are not
// divisible, are UserErrors.
std::vector<MindFormersFile> plan_mindformers(const Weights& weights, const Geometry& g, const MindFormersLayout& layout);
void write_mindformers(TargetFolder& folder, const std::vector<MindFormersFile>& files, const Weights& weights,
                       const std::function<void(int64_t)>& progress);

// Returns a stack of experts with each matrix transposed: [E, a, b] becomes [E, b, a].
ElementsPtr turned_experts(const ElementsPtr& stack);

// Returns the part of tensor `whole` that tensor rank r of n holds; `name` is its MindFormers name.
ElementsPtr tensor_part(const std::string& name, const ElementsPtr& whole, int64_t r, int64_t n);

// True if `name` is a tensor name that only MindFormers uses.
bool is_mindformers_name(const std::string& name);

}  // namespace ravine
