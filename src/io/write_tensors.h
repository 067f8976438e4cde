// Parameters into a safetensors file, named and laid out by a table (model/weight_files.h).
#pragma once
#include <string>
#include <vector>

#include "engine/param_store.h"
#include "model/weight_files.h"

namespace ravine {

// From the masters, which must be present and whole, converted to `dtype` and rounded once; tensors stand by name in the file,
// as safetensors sorts those of one type. Blocks until the file is on disk. Returns how many values are infinite in the file for
// being beyond f16; other types take what f32 holds.
int64_t write_tensors(const std::string& path, std::vector<const FileTensor*> tensors, DType dtype, WeightSource& store);

}  // namespace ravine
