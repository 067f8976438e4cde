#include "io/convert/megatron_place.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <vector>

#include "files/compressed.h"
#include "files/torch_file.h"
#include "io/convert/weights.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

std::string first_word(const std::string& path) {
  const std::string text = read_whole(path, 4096);
  const size_t from = text.find_first_not_of(" \t\r\n");
  return from == std::string::npos ? "" : text.substr(from, text.find_first_of(" \t\r\n", from) - from);
}

}  // namespace

std::string megatron_iteration(int64_t step) { return fmt::format("iter_{:07}", step); }

std::optional<int64_t> megatron_step(const std::string& folder) {
  constexpr std::string_view kBefore = "iter_";
  if (!folder.starts_with(kBefore)) return {};
  int64_t step = -1;
  const char* end = folder.data() + folder.size();
  const auto [behind, code] = std::from_chars(folder.data() + kBefore.size(), end, step);
  return code == std::errc{} && behind == end && step >= 0 ? std::optional(step) : std::nullopt;
}

std::vector<std::string> megatron_checkpoints(const std::string& path) {
  if (!fs::exists(path + "/" + kMegatronTracker)) return {};
  const auto newest = megatron_step(fs::path(megatron_ranks(path)).filename().string());
  std::map<int64_t, std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (const auto step = megatron_step(entry.path().filename().string());
        step && newest && *step <= *newest && entry.is_directory(error))
      found[*step] = entry.path().string();
  std::vector<std::string> out;
  for (const auto& [step, folder] : found) out.push_back(folder);
  return out;
}

std::string megatron_ranks(const std::string& path) {
  for (const std::string tracker : {kMegatronTracker, "latest"}) {
    const std::string file = path + "/" + tracker;
    if (!fs::exists(file)) continue;
    if (!fs::is_regular_file(file))
      throw UserError("bad tracker file", file, "it must be a regular file",
                      "replace it by a text file with 'release' or a number");
    const std::string word = first_word(file);
    std::string folder = word;
    if (tracker == kMegatronTracker && word != kMegatronRelease) {
      int64_t step = -1;
      auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), step);
      if (code != std::errc{} || end != word.data() + word.size() || step < 0)
        throw UserError("bad tracker file", file, fmt::format("it must hold 'release' or a number, got '{}'", printable(word)),
                        "correct it");
      folder = megatron_iteration(step);
    }
    if (folder.empty() || folder.find('/') != std::string::npos || folder.starts_with('.'))
      throw UserError("bad tracker file", file, fmt::format("it must name a folder next to it, got '{}'", printable(word)),
                      "correct it");
    if (!fs::is_directory(path + "/" + folder))
      throw UserError("missing folder", path + "/" + folder, fmt::format("{} names it", file), kComplete);
    return path + "/" + folder;
  }
  return path;
}

bool is_megatron_folder(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / kMegatronTracker, error)) return true;
  if (fs::exists(fs::path(path) / ".metadata", error) && fs::exists(fs::path(path) / "common.pt", error)) return true;
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
