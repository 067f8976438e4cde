// Reads tensors of files into parameters by a table of names and layouts (model/weight_files.h). Used for model folders
// and adapters.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/param_store.h"
#include "files/tensor_file.h"
#include "model/weight_files.h"

namespace ravine {

// The input of check_tensors and load_tensors: the weight files, and the table of their tensors.
struct TensorSource {
  const std::vector<std::unique_ptr<TensorFile>>& files;
  std::string where;  // the folder, for messages
  // The names and layouts of the tensors in the files. Each tensor must be stored once, in its shape and a floating
  // type, and the files must hold nothing else.
  const WeightFiles& table;
  std::string whole, kind, fix;  // for messages: "the model", "llama", "use weights that belong to config.json"
  bool head_alone = false;       // true: a tied head stored without the embedding is read as the embedding
};

// Checks the headers of the weight files against the table, and throws a UserError for the first fault; reads no
// tensor.
void check_tensors(const TensorSource& source);
// Reads the weight files into the boxes of the parameters that the store holds, if `wanted` selects them (null: all).
// Elements are converted and rounded once, in parallel. `params` is the number of parameters (Param::index is below
// it). Everything is checked before any weight changes. Returns the names in the files, in order of the table.
std::vector<std::string> load_tensors(const TensorSource& source, size_t params, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
