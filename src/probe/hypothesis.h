// A guess on the cause of a difference, and the verdict of a comparison, as text.
#pragma once
#include <string>

#include "probe/comparison.h"

namespace ravine {

// Returns "the same numbers in another order", "B is A times 2", ..; "" if no guess fits.
std::string hypothesis_of(const ComparedPair& p);

std::string verdict_of(const Comparison& c);

}  // namespace ravine
