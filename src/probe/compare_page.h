// The result of a comparison as one HTML page without outside resources.
#pragma once
#include <string>

#include "probe/comparison.h"

namespace ravine {

// Returns a page with the verdict, a table of culprits, and the tree of the model. Each path has its calls, coloured by
// error / bound, and the figures of both tensors. A path shows at most 40 tensors, with the largest error / bound.
std::string comparison_page(const Comparison& c, const std::string& a, const std::string& b);

}  // namespace ravine
