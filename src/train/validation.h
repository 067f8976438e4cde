// The loss over the validation data.
#pragma once
#include <optional>

#include "data/dataset.h"
#include "train/step.h"

namespace ravine {

// Mean cross-entropy over the labels of `data`, in nats, or of its first train.valid_batches micro batches; nothing where none
// counts, or `data` is null. All ranks call it and get the same.
std::optional<double> validation_loss(StepEngine& engine, const Dataset* data, const TrainOptions& options);

}  // namespace ravine
