// Whole small files: configs, JSON, prompts.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

// The bytes of a regular file, or of a pipe (<(..) of a shell, /dev/stdin) to its end. More than `limit` bytes, a device, a
// folder, and a pipe into which nobody writes for 10 seconds are UserErrors; `what` says what the file is ("a config").
std::string read_text(const std::string& path, int64_t limit, const std::string& what);

}  // namespace ravine
