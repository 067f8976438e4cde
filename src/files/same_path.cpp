#include "files/same_path.h"

#include <filesystem>

namespace fs = std::filesystem;

namespace ravine {
namespace {

bool same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return a == b || (fs::equivalent(a, b, error) && !error);
}

}  // namespace

std::string resolved(const std::string& path) {
  std::error_code error;
  fs::path p = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) p = fs::absolute(path, error).lexically_normal();
  if (!p.has_filename() && p.has_relative_path()) p = p.parent_path();  // a slash at the end
  return p.string();
}

bool same_path(const std::string& a, const std::string& b) { return same(resolved(a), resolved(b)); }

bool lies_within(const std::string& path, const std::string& folder) {
  const fs::path outer = resolved(folder);
  for (fs::path p = resolved(path);; p = p.parent_path()) {
    if (same(p, outer)) return true;
    if (p == p.parent_path()) return false;
  }
}

}  // namespace ravine
