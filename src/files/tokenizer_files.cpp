#include "files/tokenizer_files.h"

#include <filesystem>

namespace ravine {
namespace fs = std::filesystem;

std::string find_in_folder(const std::string& folder, const std::string& name) {
  std::error_code error;
  for (const char* suffix : {"", ".xz"})
    if (std::string path = (fs::path(folder) / (name + suffix)).string(); fs::exists(path, error)) return path;
  return "";
}

bool has_tokenizer(const std::string& folder) {
  auto has = [&](const char* name) { return !find_in_folder(folder, name).empty(); };
  return has("tokenizer.model") || has("tokenizer.json") || (has("vocab.json") && has("merges.txt")) || has("vocab.txt");
}

}  // namespace ravine
