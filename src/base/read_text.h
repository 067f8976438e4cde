// Whole small files: configs, JSON, prompts.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

// Returns the bytes of a regular file, or of a pipe up to its end (<(..) of a shell, /dev/stdin). `limit` is in bytes;
// `what` names the kind of file in messages ("a config"). UserError: more than `limit` bytes, a folder, a device, a Git
// LFS pointer, or a pipe without input for 10 seconds.
std::string read_text(const std::string& path, int64_t limit, const std::string& what);

}  // namespace ravine
