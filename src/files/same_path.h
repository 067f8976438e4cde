// Comparison of paths that may be spelled differently: relative paths, links, another mount.
#pragma once
#include <string>

namespace ravine {

// Returns the path without links, dots and doubled slashes. Parts that do not exist yet are kept as they are.
std::string resolved(const std::string& path);
// True if both paths name the same file or folder.
bool same_path(const std::string& a, const std::string& b);
bool lies_within(const std::string& path, const std::string& folder);  // true also for the folder itself

}  // namespace ravine
