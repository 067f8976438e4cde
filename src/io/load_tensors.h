// Tensors of files into parameters, by a table of names and layouts (model/weight_files.h): what model folders and adapters
// share.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/param_store.h"
#include "files/tensor_file.h"
#include "model/weight_files.h"

namespace ravine {

struct TensorSource {
  const std::vector<std::unique_ptr<TensorFile>>& files;
  std::string where;             // the folder, for messages
  const WeightFiles& table;      // each of its tensors must be there once, in its shape and a floating type, and nothing else
  std::string whole, kind, fix;  // for messages: "the model", "llama", "use weights that belong to config.json"
  bool head_alone = false;       // a tied table may be stored under the name of a copy alone: it is the embedding then
};

// Throws what is wrong with the headers; reads no tensor.
void check_tensors(const TensorSource& source);
// Fills the boxes of the parameters (of so many, by Param::index) that the store holds here, where `wanted` (null: all),
// converted and rounded once, in parallel. Everything is checked before any weight changes. Returns the names as the files
// spell them, in order of the table.
std::vector<std::string> load_tensors(const TensorSource& source, size_t params, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted = {});

}  // namespace ravine
