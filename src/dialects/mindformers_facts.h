#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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
};

}  // namespace ravine
