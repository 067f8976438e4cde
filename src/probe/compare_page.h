// The verdict on two dumps as one HTML page without outside resources.
#pragma once
#include <string>

#include "probe/comparison.h"

namespace ravine {

// The verdict, a table of culprits, and the tree of the model: each path with its calls, coloured by error over bound, and the
// figures of both tensors. Of a path at most 40 tensors, those nearest to their bound or beyond it.
std::string comparison_page(const Comparison& c, const std::string& a, const std::string& b);

}  // namespace ravine
