// The result of a comparison as one HTML page without outside resources.
#pragma once
#include <string>

#include "probe/comparison.h"

namespace ravine {

// Returns the result of a comparison as an HTML page: the verdict, a table of culprits, and the tree of the model. Each
// path of the tree has its calls, coloured by error / bound, and the figures of both tensors. A path shows at most 40
// tensors: those with the largest error / bound. a, b: names of the two dumps.
std::string comparison_page(const Comparison& c, const std::string& a, const std::string& b);

}  // namespace ravine
