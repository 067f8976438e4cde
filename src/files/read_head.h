// The beginning of a file.
#pragma once
#include <cstddef>
#include <string>

namespace ravine {

// At most the first `most` bytes of a plain file; "" of what is not there or no plain file (a pipe is not waited for). A file
// that cannot be opened or read is an Error that names it.
std::string read_head(const std::string& path, size_t most);

}  // namespace ravine
