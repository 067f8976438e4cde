// The order of parameters in the optimizer of Transformers' Trainer, whose states have numbers instead of names.
// Source: trainer.py of 4.37 and 5.24, create_optimizer and get_decay_parameter_names; torch/optim/optimizer.py,
// state_dict.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "model/model.h"

namespace ravine {

// The trained tensors under their names in files: first those with weight decay, then norms and biases, each in the
// order of named_parameters(). Numbers run over both.
using TrainerOrder = std::array<std::vector<const FileTensor*>, 2>;

// The parameters in the second group. biases: Transformers 4.37, which does not recognize the norms of some families.
// none: one group, as for an optimizer made by a script.
enum class TrainerGrouping : uint8_t { norms_and_biases, biases, none };

// Returns the order of the trained tensors. `files` is the model's table, or its adapter's (adapter_files), and must
// outlive the result. A module of unknown position, or a partly trained tensor, is a UserError that names `where`.
TrainerOrder trainer_order(const Model& model, const WeightFiles& files, const std::string& where,
                           TrainerGrouping grouping = TrainerGrouping::norms_and_biases);

}  // namespace ravine
