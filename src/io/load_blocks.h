// Matrices of files into blocks of 4 bits.
#pragma once
#include <functional>

#include "io/load_tensors.h"
#include "model/model.h"

namespace ravine {

// Fills what the store keeps in blocks (WeightSource::blocks), where `wanted` (null: all): unit by unit, whose matrices are whole
// in f32 meanwhile, on each rank, since scales depend on all of a matrix. A value that is not finite is a UserError.
void load_blocks(const TensorSource& source, const Model& model, WeightSource& store,
                 const std::function<bool(const Param&)>& wanted);

}  // namespace ravine
