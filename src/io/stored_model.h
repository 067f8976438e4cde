// The model of a folder as its weights are: config.json may tie the head to the embedding where the files hold two tables.
#pragma once
#include <memory>
#include <string>

#include "files/tensor_file.h"
#include "model/model.h"

namespace ravine {

// open_model (model/model.h), and where config.json ties a head that the files hold with other values than the embedding, the
// model with two tables, as Transformers has it: the files count, and a warning says so, once in a process. A Megatron
// checkpoint without config.json is the model that its stored arguments say (io/convert/megatron.h). UserErrors: those of open_model. Weights that are absent or cannot be read are left to those who load them.
std::unique_ptr<Model> open_stored_model(const std::string& folder);

// What is said of a tied head with values of its own; `where` has the config.
std::string two_tables_text(const std::string& where);

// Whether two tensors have one shape and the same values, whatever their types.
bool same_values(const TensorFile& a_file, const TensorInfo& a, const TensorFile& b_file, const TensorInfo& b);

}  // namespace ravine
