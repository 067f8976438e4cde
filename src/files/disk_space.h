// Free space on a disk.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ravine {

// Returns the bytes that this user may still write at `path`, which need not exist: the nearest existing parent is
// used. Nothing if the system does not report it. A quota may allow less.
std::optional<int64_t> free_space(const std::string& path);

}  // namespace ravine
