// What Git leaves in place of a large file that was not fetched.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

inline constexpr size_t kLfsPointer = 1024;  // bytes; a pointer is shorter
// A UserError naming `path` if its bytes begin as those of a pointer of Git LFS do:
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path);

}  // namespace ravine
