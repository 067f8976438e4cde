// The order of parameters in the optimizer of Transformers' Trainer, whose states have numbers instead of names.
// Source: trainer.py of 4.37 and 5.24, create_optimizer and get_decay_parameter_names; torch/optim/optimizer.py,
// state_dict.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "model/model.h"

namespace ravine {

// The trained tensors in the order of the optimizer's numbers, which count over both lists. The first list has the
// tensors with weight decay, the second norms and biases. Each is in the order of named_parameters().
using TrainerOrder = std::array<std::vector<const FileTensor*>, 2>;

// The parameters in the optimizer's second group, without weight decay. norms_and_biases: norms and biases. biases:
// biases alone, as in Transformers 4.37, which does not recognize the norms of some families. none: there is one group,
// as for an optimizer made by a script.
enum class TrainerGrouping : uint8_t { norms_and_biases, biases, none };

// Returns the order of the trained tensors. `files` is the model's table, or its adapter's (adapter_files), and must
// outlive the result. A module of unknown position, or a partly trained tensor, is a UserError that names `where`.
TrainerOrder trainer_order(const Model& model, const WeightFiles& files, const std::string& where,
                           TrainerGrouping grouping = TrainerGrouping::norms_and_biases);

}  // namespace ravine
