#include "io/convert/megatron_place.h"

#include <filesystem>
#include <vector>

#include "files/torch_file.h"

namespace ravine {
namespace fs = std::filesystem;

bool is_megatron_folder(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "latest_checkpointed_iteration.txt", error)) return true;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && entry.path().filename().string().starts_with("mp_rank_")) return true;
  return false;
}

bool holds_megatron(const std::string& path) {
  if (is_megatron_folder(path)) return true;
  std::error_code error;
  std::vector<std::string> folders{path};
  if (fs::exists(path + "/latest", error))
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.is_directory(error)) folders.push_back(entry.path().string());
  for (const std::string& folder : folders) {
    const std::string first = folder + "/mp_rank_00_model_states.pt";
    if (!fs::exists(first, error)) continue;
    const TorchFile f(first);
    return f.pickle().find(f.pickle().root(), "checkpoint_version").has_value();
  }
  return false;
}

}  // namespace ravine
