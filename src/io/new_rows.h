// Rows of embedding and head beyond those of the files that a model begins from (model/vocabulary.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/param_store.h"
#include "files/tensor_file.h"
#include "model/model.h"

namespace ravine {

// Fills what the store holds here of them, of parameters that are `wanted` (null: all), once the others are read from `files`:
// the mean of the stored rows, in f64 and in their order, rounded once; or normal numbers, as in a new model. `table` are
// stored_files(model), `names` what its tensors are called in the files.
void fill_new_rows(const std::vector<std::unique_ptr<TensorFile>>& files, const WeightFiles& table,
                   const std::vector<std::string>& names, const Model& model, WeightSource& store,
                   const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
