// A run's state: what checkpoints hold of it, and how it is filled from one, or as a run begins.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/checkpoint.h"
#include "step/step.h"

namespace ravine {

// The tensors of a run's state, in the order of the optimizer's updates, as checkpoints hold them: "weights/NAME", "m/NAME",
// "v/NAME" or "momentum/NAME"; of what is frozen the weights only. Views into the engine's live buffers. Of several ranks each
// writes what it alone answers for; and reads what it holds. Where ranks of a group keep something for themselves
// (Optimizer::per_rank_states) that is "rank_00001/errors/NAME", and where they have parted "rank_00001/weights/NAME" and its
// states; names without a rank are then those of the first. The scalars hold "optimizer_steps" and, of such, "own_ranks" only.
enum class StateFor : uint8_t { writing, writing_trained, reading };  // writing_trained: without what is frozen
TrainState state_of(const FlatStore& store, const Optimizer& optimizer, StateFor use = StateFor::writing);
inline TrainState state_of(StepEngine& engine, StateFor use = StateFor::writing) {
  return state_of(engine.store(), engine.optimizer(), use);
}
// The parameters of a run that a checkpoint does not hold: frozen, they are those of the model folder that the run began from.
std::vector<std::string> left_out_of(const CheckpointReader& reader, const Model& model);
// Fills the engine from a checkpoint of any layout, 16-bit copies included; what was left out of it comes from `from`.
// All ranks call it. False: what ranks keep for themselves was not kept by as many, or not all of it is there: then this rank
// has the weights and states of the first, and errors of zero.
bool restore(FlatStore& store, Optimizer& optimizer, Ctx& c, const Model& model, const CheckpointReader& reader,
             const ModelOptions& from = {});
inline bool restore(StepEngine& engine, const CheckpointReader& reader, const ModelOptions& from = {}) {
  return restore(engine.store(), engine.optimizer(), engine.ctx(), engine.model(), reader, from);
}
// Weights as a run begins with them: those of model.path, or drawn from train.seed; refuse_not_finite looks at what was read. All
// ranks call it.
void begin_weights(StepEngine& engine, const Config& config);

// A UserError where a weight or a state of the optimizer is NaN or infinite, since no step recovers from that: `where` was read,
// `fix` says what to read. One pass over memory. All ranks call it.
void refuse_not_finite(StepEngine& engine, const std::string& where, const std::string& fix);

// A whole number among the scalars of a checkpoint; one that lacks it is a UserError.
int64_t checkpoint_scalar(const CheckpointReader& reader, const std::string& key);
// Ranks of a group that kept something for themselves in it; 1: none did.
int64_t ranks_with_buffers(const CheckpointReader& reader);

}  // namespace ravine
