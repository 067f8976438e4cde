// A guess on the cause of a difference, and the verdict of a comparison, as text.
#pragma once
#include <string>

#include "probe/comparison.h"

namespace ravine {

// Returns a guess on the cause of the difference of a pair, as text: "the same numbers in another order", "B is A times
// 2", ..; "" if no guess fits.
std::string hypothesis_of(const ComparedPair& p);

// Returns the verdict of a comparison as text: three sentences, and one on damaged lines if there are any.
std::string verdict_of(const Comparison& c);

}  // namespace ravine
