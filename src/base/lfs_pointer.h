// Pointer files of Git LFS: Git writes one in place of a large file that was not downloaded.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

inline constexpr size_t kLfsPointer = 1024;  // bytes; every pointer file is shorter
// Throws a UserError that names `path` if the bytes begin like a pointer file of Git LFS:
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path);

}  // namespace ravine
