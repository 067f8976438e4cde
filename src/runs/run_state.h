// The state of a run in its checkpoints: its tensors, and loading them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/checkpoint.h"
#include "step/step.h"

namespace ravine {

// Returns the tensors of a run's state, in the order of the optimizer's updates, with the names of checkpoints:
// "weights/NAME", "m/NAME", "v/NAME" or "momentum/NAME". Frozen parameters have weights only. Tensors are views of the
// engine's live buffers. For writing, each rank lists the elements that it alone writes; for reading, all elements that
// it holds. States that each rank of a group keeps for itself (Optimizer::per_rank_states) are
// "rank_00001/errors/NAME". If ranks have diverged, they also have "rank_00001/weights/NAME" and its states; names
// without a rank are then of the first rank. The scalars are "optimizer_steps" and, for per-rank states, "own_ranks".
enum class StateFor : uint8_t { writing, writing_trained, reading };  // writing_trained: without frozen parameters
TrainState state_of(const FlatStore& store, const Optimizer& optimizer, StateFor use = StateFor::writing);
inline TrainState state_of(StepEngine& engine, StateFor use = StateFor::writing) {
  return state_of(engine.store(), engine.optimizer(), use);
}
// Returns the parameters that a checkpoint leaves out: frozen ones, which the model folder of the run has.
std::vector<std::string> left_out_of(const CheckpointReader& reader, const Model& model);
// Loads the engine from a checkpoint of any layout, with 16-bit copies. Left-out parameters are read from `from`.
// Returns false if per-rank states were stored by another number of ranks, or are incomplete. This rank then has the
// weights and states of the first rank, and errors of zero. All ranks call it together.
bool restore(FlatStore& store, Optimizer& optimizer, Ctx& c, const Model& model, const CheckpointReader& reader,
             const ModelOptions& from = {});
inline bool restore(StepEngine& engine, const CheckpointReader& reader, const ModelOptions& from = {}) {
  return restore(engine.store(), engine.optimizer(), engine.ctx(), engine.model(), reader, from);
}
// Loads the initial weights of a run: from model.path, or random from train.seed. refuse_not_finite checks loaded
// weights. All ranks call it together.
void begin_weights(StepEngine& engine, const Config& config);

// Throws a UserError if a weight or an optimizer state is NaN or infinite, because no step recovers from it. `where`:
// the source of the values. `fix`: the advice of the error. One pass over memory. All ranks call it together.
void refuse_not_finite(StepEngine& engine, const std::string& where, const std::string& fix);

// Returns an integer of the scalars of a checkpoint; a missing or negative one is a UserError.
int64_t checkpoint_scalar(const CheckpointReader& reader, const std::string& key);
// Returns the number of ranks that stored per-rank states; 1: none.
int64_t ranks_with_buffers(const CheckpointReader& reader);

}  // namespace ravine
