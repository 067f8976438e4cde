// Policies of what is kept for backward (seam S3).
#pragma once
#include <memory>
#include <string>

#include "engine/saved.h"

namespace ravine {

// Keeps every tensor in the arena; recompute: "none" | "cheap" | "full".
//   cheap  outputs of norms and activations are not kept but made again from their inputs, which are kept anyway
//   full   a layer keeps its input only and runs forward again before its backward
std::unique_ptr<Stash> make_stash(const std::string& recompute);

}  // namespace ravine
