// Reads matrices of weight files into blocks of 4 bits (NF4).
#pragma once
#include <functional>

#include "io/load_tensors.h"
#include "model/model.h"

namespace ravine {

// Reads the parameters that the store keeps in blocks of 4 bits (WeightSource::blocks), if `wanted` selects them (null:
// all). Works unit by unit. Each rank holds the whole matrices of a unit in f32 meanwhile, since scales depend on the
// whole matrix. A value that is not finite is a UserError.
void load_blocks(const TensorSource& source, const Model& model, WeightSource& store,
                 const std::function<bool(const Param&)>& wanted);

}  // namespace ravine
