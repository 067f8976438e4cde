// The parameters of the optimizer of Transformers' Trainer, whose states have numbers in place of names. Source: trainer.py of 4.37
// and 5.24, create_optimizer and get_decay_parameter_names; torch/optim/optimizer.py, state_dict.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "model/model.h"

namespace ravine {

// What is trained, as files spell it: first what decays, then norms and biases, each in the order of named_parameters().
// Numbers run over both.
using TrainerOrder = std::array<std::vector<const FileTensor*>, 2>;

// Which parameters stand in the second group. biases: of 4.37, to which the norms of some families are not known as such. none: there
// is one group, as of an optimizer that a script made itself.
enum class TrainerGrouping : uint8_t { norms_and_biases, biases, none };

// `files`: those of the model, or of its adapter (adapter_files), which outlive the result. A module whose place is not known, and
// a tensor that is trained in part, are a UserError naming `where`.
TrainerOrder trainer_order(const Model& model, const WeightFiles& files, const std::string& where,
                           TrainerGrouping grouping = TrainerGrouping::norms_and_biases);

}  // namespace ravine
