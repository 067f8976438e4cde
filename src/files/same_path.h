// Whether two paths lead to one place, however they are spelled: relative, with links, by another mount.
#pragma once
#include <string>

namespace ravine {

// The path without links, dots and doubled slashes; what does not exist yet counts as plain names.
std::string resolved(const std::string& path);
bool same_path(const std::string& a, const std::string& b);
bool lies_within(const std::string& path, const std::string& folder);  // the folder itself counts

}  // namespace ravine
