// Opens the files of a Megatron checkpoint as tensors of ranks, checks that they belong together, and reads their
// arguments.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/torch_file.h"
#include "io/convert/megatron_rank.h"
#include "io/convert/weights.h"

namespace ravine {

// An open Megatron checkpoint: the files of all its ranks; the result of open_megatron.
struct MegatronFolder {
  std::string path;  // folder of the rank folders
  int64_t tensor = 0, pipeline = 0, expert = 1;
  std::vector<MegatronRank> ranks;  // [(expert rank * pipeline + p) * tensor + t]
  const MegatronRank& at(int64_t t, int64_t p, int64_t e = 0) const {
    return ranks[static_cast<size_t>((e * pipeline + p) * tensor + t)];
  }
};

// Opens a Megatron checkpoint. `kind` selects the elements: the weights, or the optimizer's states of them. A
// checkpoint without optimizer state is a UserError for moments; for masters the weights themselves are returned. A
// missing rank, ranks of different steps or layouts, and an old order of q, k, v are UserErrors.
MegatronFolder open_megatron(const std::string& path, StateKind kind);

// Returns a field of the arguments stored in a Megatron checkpoint; nothing if there is no field of that name and type.
std::optional<int64_t> argument(const TorchFile& f, const char* key);
std::optional<double> real_argument(const TorchFile& f, const char* key);
std::optional<std::string> text_argument(const TorchFile& f, const char* key);

// Returns the tensors of a virtual stage that have optimizer states, in file order: the weights without tables of
// positions and counters of experts.
std::vector<MegatronRank::Tensor*> parameters_of(std::vector<MegatronRank::Tensor>& chunk);

// Replaces the weights of a rank by the optimizer's states that `kind` selects, from distrib_optim.pt if there is one
// (megatron_distrib.h). Otherwise parameters have numbers instead of names, group by group in the order of the model.
// Matrices and vectors are in separate groups if weight decay separates them. Shapes must match. Source:
// megatron/optimizer/__init__.py (get_param_groups), optimizer.py (Float16OptimizerWithFloat16Params.state_dict), 2021
// to 2024.
void take_from_optimizer(MegatronRank& rank, StateKind kind);
// Returns the dict of the torch optimizer in model_optim_rng.pt, which has 'param_groups'; nothing if there is none.
std::optional<Pickle::Ref> torch_optimizer(const Pickle& p);
// Returns the number of updates that the optimizer state in model_optim_rng.pt counts; 0 if unknown.
int64_t optimizer_steps(const TorchFile& f);

}  // namespace ravine
