// The beginning of a file.
#pragma once
#include <cstddef>
#include <string>

namespace ravine {

// Returns at most the first `most` bytes of a plain file; "" if the path is missing or is not a plain file, e.g. a
// pipe. A file that cannot be opened or read is an Error that names it.
std::string read_head(const std::string& path, size_t most);

}  // namespace ravine
