// Initializes the rows of embedding and head that a model has beyond those in its weight files (model/vocabulary.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/param_store.h"
#include "files/tensor_file.h"
#include "model/model.h"

namespace ravine {

// Fills the rows of embedding and head that the weight files lack, as far as the store holds them, for `wanted`
// parameters (null: all). Called after the other weights are read from `files`. The values are the mean of the stored
// rows (summed in f64 in their order, rounded once), or normal numbers as in a new model. `table` is
// stored_files(model); `names` has the names of its tensors in the files.
void fill_new_rows(const std::vector<std::unique_ptr<TensorFile>>& files, const WeightFiles& table,
                   const std::vector<std::string>& names, const Model& model, WeightSource& store,
                   const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
