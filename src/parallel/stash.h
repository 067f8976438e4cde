// Policies of what is kept for backward (seam S3).
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "config/choices.h"
#include "engine/saved.h"

namespace ravine {

// Keeps every tensor in the arena.
//   cheap  outputs of norms and activations are not kept but made again from their inputs, which are kept anyway
//   full   a layer keeps its input only and runs forward again before its backward
//   auto   as cheap: whoever plans memory has settled it before (plan/choose_recompute.h), and all give the same bits
// layers: paths of the layers that full takes; none: all. The others are as under cheap.
std::unique_ptr<Stash> make_stash(Recompute recompute, std::optional<std::set<std::string>> layers = {});

}  // namespace ravine
