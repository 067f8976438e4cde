#include "io/convert/megatron_place.h"

#include <filesystem>

namespace ravine {
namespace fs = std::filesystem;

bool is_megatron_folder(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "latest_checkpointed_iteration.txt", error)) return true;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && entry.path().filename().string().starts_with("mp_rank_")) return true;
  return false;
}

}  // namespace ravine
