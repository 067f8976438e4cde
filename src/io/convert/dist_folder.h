// Reads folders of torch.distributed.checkpoint: Megatron's since 2024 (--ckpt-format torch_dist), and FSDP's.
//
//   DIR/.metadata        a pickle: name, shape and chunks of every tensor; file and byte range of each chunk;
//   DIR/__R_N.distcp     chunks one after another, each as torch.save writes it;
//   DIR/common.pt        Megatron's: all that is no tensor, as the dict of a rank's file without its model
//
// The pickle is read as plain values; nothing is executed. Source: torch/distributed/checkpoint/metadata.py,
// filesystem.py (2.0 to 2.15); megatron/core/dist_checkpointing, megatron/core/transformer/transformer_block.py.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/convert/elements.h"
#include "io/convert/megatron_rank.h"
#include "io/convert/weights.h"

namespace ravine {

inline constexpr const char* kDistFix =
    "save it with --ckpt-format torch, or convert it with Megatron's own tools/checkpoint/convert.py";

bool is_dist_folder(const std::string& path);
// Returns the tensors of a torch.distributed.checkpoint folder whose names `wanted` accepts, assembled from their
// chunks. Entries that are not tensors are skipped. A chunk that is missing, truncated, or of another type or shape
// than in .metadata is a UserError.
std::map<std::string, ElementsPtr> read_dist_tensors(const std::string& path,
                                                     const std::function<bool(const std::string& name)>& wanted);
// Returns the weights of an FSDP folder (pytorch_model_fsdp_0 of accelerate), under the model's names.
std::map<std::string, ElementsPtr> read_fsdp_weights(const std::string& path);
// Reads a Megatron folder as a single rank (one tensor rank, one stage). Layers stacked in one tensor, and experts in
// them, are split. `kind` selects weights or optimizer states. Optimizer states must be stored in the shapes of the
// weights.
MegatronRank read_dist_rank(const std::string& path, StateKind kind);

}  // namespace ravine
