#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// Facts about a job of MindFormers in addition to its command line. The caller fills them.
struct MindFormersFacts {
  int64_t ranks = 0;  // number of ranks of the job; 0: not known
  bool runs = true;   // false: the job is only explained or printed
  // The size of a dataset.
  struct Data {
    int64_t rows = 0, ids = 0;            // number of rows; number of token ids in a row, 0: not known
    std::vector<std::string> names = {};  // names of the columns; empty: not known
  };
  // Returns the size of a dataset by its loader type and its paths; nothing if it is not known. May throw UserErrors.
  std::function<std::optional<Data>(const std::string& type, const std::vector<std::string>& paths)> data;
  // Compares a strategy file or folder (MindSpore's description of how weights are cut) with the shapes in the weight
  // files. Returns the contradiction as text; "" if they agree. model: config.json. May throw UserErrors.
  std::function<std::string(const std::string& strategy, const std::string& weights, const Json& model)> disagreement = {};
};

}  // namespace ravine
