// How much room a disk has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ravine {

// Bytes that this user may still write where `path` is or will be: on the disk of its nearest parent that exists. Nothing if
// the system does not say; a quota may be tighter.
std::optional<int64_t> free_space(const std::string& path);

}  // namespace ravine
