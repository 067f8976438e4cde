#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ravine {

// What is known of the job besides its line.
struct MindFormersFacts {
  int64_t ranks = 0;  // of the job; 0: not known
  bool runs = true;   // false: it is explained or printed only
  struct Data {
    int64_t rows = 0, columns = 0;
  };
  // Of a data set by its path, read by the loader of this type; nothing: nobody can tell. It may throw UserErrors.
  std::function<std::optional<Data>(const std::string& type, const std::string& path)> data;
};

}  // namespace ravine
