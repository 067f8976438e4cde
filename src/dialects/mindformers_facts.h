#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// What is known of the job besides its line.
struct MindFormersFacts {
  int64_t ranks = 0;  // of the job; 0: not known
  bool runs = true;   // false: it is explained or printed only
  struct Data {
    int64_t rows = 0, ids = 0;            // ids: of a row; 0: not known
    std::vector<std::string> names = {};  // of columns; empty: not known
  };
  // Of a data set by its paths, read by the loader of this type; nothing: nobody can tell. It may throw UserErrors.
  std::function<std::optional<Data>(const std::string& type, const std::vector<std::string>& paths)> data;
  // What a file or folder of strategies says otherwise than files of weights are cut; "" if they agree. `model`: config.json. It
  // may throw UserErrors.
  std::function<std::string(const std::string& strategy, const std::string& weights, const Json& model)> disagreement = {};
};

}  // namespace ravine
