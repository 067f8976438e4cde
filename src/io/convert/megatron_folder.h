// The files of a Megatron checkpoint as tensors of ranks: which there are, that they belong together, what their arguments say.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/torch_file.h"
#include "io/convert/megatron_rank.h"
#include "io/convert/weights.h"

namespace ravine {

struct MegatronFolder {
  std::string path;  // of the ranks
  int64_t tensor = 0, pipeline = 0, expert = 1;
  std::vector<MegatronRank> ranks;  // [(expert rank * pipeline + p) * tensor + t]
  const MegatronRank& at(int64_t t, int64_t p, int64_t e = 0) const {
    return ranks[static_cast<size_t>((e * pipeline + p) * tensor + t)];
  }
};

// A missing rank, ranks of different steps or layouts, and an old order of q, k, v are UserErrors. `kind`: elements
// are the weights, or what the optimizer holds for them; a checkpoint without optimizer state is then a UserError (masters: the
// weights themselves).
MegatronFolder open_megatron(const std::string& path, StateKind kind);

// Fields of the stored arguments; nothing if there is none of that name and type.
std::optional<int64_t> argument(const TorchFile& f, const char* key);
std::optional<double> real_argument(const TorchFile& f, const char* key);
std::optional<std::string> text_argument(const TorchFile& f, const char* key);

// What the optimizer has states of: weights less tables of positions and counters of experts; in the order of the file.
std::vector<MegatronRank::Tensor*> parameters_of(std::vector<MegatronRank::Tensor>& chunk);

// Puts what the optimizer holds in the place of the weights; where there is a distrib_optim.pt, it (megatron_distrib.h). Else
// parameters are numbered, not named: group by group in the order of
// the model, matrices and vectors apart where decay parts them; shapes must agree. Source: megatron/optimizer/__init__.py
// (get_param_groups), optimizer.py (Float16OptimizerWithFloat16Params.state_dict), 2021 to 2024.
void take_from_optimizer(MegatronRank& rank, StateKind kind);
// What model_optim_rng.pt says of the torch optimizer: its dict with 'param_groups'; nothing without one.
std::optional<Pickle::Ref> torch_optimizer(const Pickle& p);
// Updates that the moments have seen; 0 where nothing says so.
int64_t optimizer_steps(const TorchFile& f);

}  // namespace ravine
