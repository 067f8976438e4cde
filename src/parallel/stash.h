// Policies for the tensors that are kept for the backward pass (seam S3).
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "config/choices.h"
#include "engine/saved.h"

namespace ravine {

// Returns the stash of a recomputation policy: it keeps or recomputes the tensors that the backward pass needs. All
// policies compute the same bits.
//   none   keeps every tensor.
//   cheap  makes outputs of norms and activations again from their inputs, which are kept anyway.
//   full   keeps the input of a layer, and runs the layer forward again before its backward pass.
//   auto   as cheap; the planner has replaced it before (plan/choose_recompute.h).
// layers: paths of the layers to which `full` applies; nullopt: all layers. The other layers are as under cheap.
std::unique_ptr<Stash> make_stash(Recompute recompute, std::optional<std::set<std::string>> layers = {});

}  // namespace ravine
