// Folders of torch.distributed.checkpoint: Megatron's since 2024 (--ckpt-format torch_dist), those of FSDP.
//
//   DIR/.metadata        a pickle: name and shape of every tensor, its chunks, and in which bytes of which file each lies
//   DIR/__R_N.distcp     chunks behind each other, each as torch.save writes it
//   DIR/common.pt        Megatron's: what is no tensor, as the dict of a rank's file without its model
//
// The pickle is read as plain values; nothing is executed. Source: torch/distributed/checkpoint/metadata.py, filesystem.py (2.0 to
// 2.15); megatron/core/dist_checkpointing, megatron/core/transformer/transformer_block.py.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/convert/elements.h"
#include "io/convert/megatron_rank.h"
#include "io/convert/weights.h"

namespace ravine {

inline constexpr const char* kDistWayOut =
    "save it with --ckpt-format torch, or convert it with Megatron's own tools/checkpoint/convert.py";

bool is_dist_folder(const std::string& path);
// Tensors whose names `wanted` takes, put together from their chunks; what is no tensor is passed over. A chunk that is missing, of
// another type or shape than the description says, or cut short is a UserError.
std::map<std::string, ElementsPtr> read_dist_tensors(const std::string& path,
                                                     const std::function<bool(const std::string& name)>& wanted);
// Weights of a folder of FSDP (pytorch_model_fsdp_0 of accelerate), as the model names them.
std::map<std::string, ElementsPtr> read_fsdp_weights(const std::string& path);
// Megatron's as the one rank of a folder with a tensor rank and a stage: layers that are stacked in one tensor, and experts in
// them, are taken apart. `kind`: weights, or what the optimizer holds, as far as it lies there in the shapes of the weights.
MegatronRank read_dist_rank(const std::string& path, StateKind kind);

}  // namespace ravine
