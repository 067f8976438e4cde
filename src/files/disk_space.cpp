#include "files/disk_space.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>

namespace ravine {

std::optional<int64_t> free_space(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::path at = fs::absolute(path, error).lexically_normal();; at = at.parent_path()) {
    struct statvfs s {};
    if (::statvfs(at.c_str(), &s) == 0) {
      if (s.f_blocks == 0) return {};  // file systems that do not count
      return static_cast<int64_t>(s.f_bavail) * static_cast<int64_t>(s.f_frsize);
    }
    if (errno != ENOENT || !at.has_relative_path()) return {};
  }
}

}  // namespace ravine
