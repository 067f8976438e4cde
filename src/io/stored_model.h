// Opens the model of a folder with the tables that its weight files hold: config.json may tie a head that the files
// store separately.
#pragma once
#include <memory>
#include <string>

#include "files/tensor_file.h"
#include "model/model.h"

namespace ravine {

// Returns the model of a folder, as open_model (model/model.h) does, with two exceptions. If config.json ties the head
// but the files hold a head with other values than the embedding, the model has two tables, as in Transformers; a
// warning is printed once per process. A Megatron checkpoint without config.json gives the model of its stored
// arguments (io/convert/megatron.h). Throws the UserErrors of open_model. Missing or unreadable weights are reported
// only when they are loaded.
std::unique_ptr<Model> open_stored_model(const std::string& folder);

// True if two tensors have the same shape and values; their types may differ.
bool same_values(const TensorFile& a_file, const TensorInfo& a, const TensorFile& b_file, const TensorInfo& b);

}  // namespace ravine
