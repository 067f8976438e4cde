// A head that config.json ties to the embedding, where the files hold two tables.
#pragma once
#include <string>

#include "files/tensor_file.h"

namespace ravine {

// What is said of a tied head with values of its own; `where` has the config.
std::string two_tables_text(const std::string& where);

// Whether two tensors have one shape and the same values, whatever their types.
bool same_values(const TensorFile& a_file, const TensorInfo& a, const TensorFile& b_file, const TensorInfo& b);

}  // namespace ravine
