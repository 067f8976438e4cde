// The state of a run in its checkpoints: its tensors, and loading them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/checkpoint.h"
#include "step/step.h"

namespace ravine {

// state_of returns the tensors of a run's state, in the order of the optimizer's updates, with the names of
// checkpoints: "weights/NAME", "m/NAME", "v/NAME" or "momentum/NAME". Frozen parameters have weights only. Tensors are
// views of the engine's live buffers.
// For writing, each rank lists the elements that it alone writes; writing_trained leaves out frozen parameters. For
// reading, it lists all elements that it holds.
// Optimizer states that each rank of a group keeps for itself (Optimizer::per_rank_states) are
// "rank_00001/errors/NAME". If ranks have diverged, they also have "rank_00001/weights/NAME" and its states; names
// without a rank are then of the first rank. The scalars are "optimizer_steps" and, for per-rank states, "own_ranks".
enum class StateFor : uint8_t { writing, writing_trained, reading };  // writing_trained: without frozen parameters
TrainState state_of(const FlatStore& store, const Optimizer& optimizer, StateFor use = StateFor::writing);
inline TrainState state_of(StepEngine& engine, StateFor use = StateFor::writing) {
  return state_of(engine.store(), engine.optimizer(), use);
}
// Returns the names of the parameters that a checkpoint does not contain: frozen parameters, which the run reads from
// its model folder.
std::vector<std::string> left_out_of(const CheckpointReader& reader, const Model& model);
// Loads weights and optimizer states from a checkpoint that any layout of ranks wrote, and makes the 16-bit copies
// again. Parameters that the checkpoint leaves out are read from the model `from`. Returns false if per-rank states
// were stored by another number of ranks, or are incomplete. This rank then has the weights and states of the first
// rank, and errors of zero. All ranks call it together.
bool restore(FlatStore& store, Optimizer& optimizer, Ctx& c, const Model& model, const CheckpointReader& reader,
             const ModelOptions& from = {});
inline bool restore(StepEngine& engine, const CheckpointReader& reader, const ModelOptions& from = {}) {
  return restore(engine.store(), engine.optimizer(), engine.ctx(), engine.model(), reader, from);
}
// Loads the initial weights of a run: from model.path, or random from train.seed. refuse_not_finite checks loaded
// weights. All ranks call it together.
void begin_weights(StepEngine& engine, const Config& config);

// Throws a UserError if a weight or an optimizer state is NaN or infinite, because no step recovers from it. `where`:
// the source of the values in the message. `fix`: the advice in the message. Reads all weights and states once. All
// ranks call it together.
void refuse_not_finite(StepEngine& engine, const std::string& where, const std::string& fix);

// Returns the integer under `key` in the scalars of a checkpoint; a missing or negative value is a UserError.
int64_t checkpoint_scalar(const CheckpointReader& reader, const std::string& key);
// Returns the number of ranks that stored optimizer states of their own (Optimizer::per_rank_states) in a checkpoint; 1
// if the checkpoint has none.
int64_t ranks_with_buffers(const CheckpointReader& reader);

}  // namespace ravine
