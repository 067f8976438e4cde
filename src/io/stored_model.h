// The model of a folder as its weights are: config.json may tie the head to the embedding where the files hold two tables.
#pragma once
#include <memory>
#include <string>

#include "model/model.h"

namespace ravine {

// open_model (model/model.h), and where config.json ties a head that the files hold with other values than the embedding, the
// model with two tables, as Transformers has it: the files count, and a warning says so, once in a process. A Megatron
// checkpoint without config.json is the model that its stored arguments say (io/convert/megatron.h).
// UserErrors: those of open_model. Weights that are absent or cannot be read are left to those who load them.
std::unique_ptr<Model> open_stored_model(const std::string& folder);

}  // namespace ravine
