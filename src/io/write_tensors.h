// Writes parameters into a safetensors file, with names and layout of a table (model/weight_files.h).
#pragma once
#include <string>
#include <vector>

#include "engine/param_store.h"
#include "model/weight_files.h"

namespace ravine {

// Writes master weights to the safetensors file `path`, converted to `dtype` and rounded once. The masters must be
// present and whole. Tensors are ordered by name, as safetensors sorts tensors of one type. Blocks until the file is on
// disk. Returns the number of values that are infinite in the file because they exceed f16; other types can hold all
// f32 values.
int64_t write_tensors(const std::string& path, std::vector<const FileTensor*> tensors, DType dtype, WeightSource& store);

}  // namespace ravine
