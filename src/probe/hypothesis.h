// What a pair of tensors looks like, in words, and the verdict on all.
#pragma once
#include <string>

#include "probe/comparison.h"

namespace ravine {

// "the same numbers in another order", "B is A times 2"; "" where nothing fits.
std::string hypothesis_of(const ComparedPair& p);

std::string verdict_of(const Comparison& c);

}  // namespace ravine
