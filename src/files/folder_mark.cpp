#include "files/folder_mark.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/json.h"
#include "files/atomic.h"
#include "files/checksum.h"
#include "files/compressed.h"
#include "files/temporary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kMarkFormat = "ravine-folder";
constexpr int64_t kMostMark = int64_t{64} << 20;  // bytes
constexpr int64_t kMostEdited = int64_t{1} << 20;

FolderMark::File entry_of(const std::string& path) { return {static_cast<int64_t>(fs::file_size(path)), checksum_text(checksum_of_file(path))}; }

bool has_bytes(const std::string& path, const FolderMark::File& known, bool whole) {
  if (static_cast<int64_t>(fs::file_size(path)) != known.bytes) return false;
  return known.checksum.empty() || (!whole && known.bytes > kMostEdited) || checksum_text(checksum_of_file(path)) == known.checksum;
}

// Calls f(path in the folder, whether it is a plain file) for all that are no folders, and for empty folders; by name.
template <class F>
void each_below(const std::string& folder, F f) {
  std::vector<std::pair<std::string, bool>> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool plain = entry.symlink_status().type() == fs::file_type::regular;
    if (plain || entry.is_symlink() || !entry.is_directory() || fs::is_empty(entry.path()))
      found.emplace_back(entry.path().lexically_relative(folder).string(), plain);
  }
  std::sort(found.begin(), found.end());
  for (const auto& [path, plain] : found)
    if (path != kFolderMark) f(path, plain);
}

}  // namespace

std::string new_run_id() { return random_digits() + random_digits(); }

std::optional<FolderMark> read_mark(const std::string& folder) {
  try {
    const std::string path = folder + "/" + kFolderMark;
    if (fs::symlink_status(path).type() != fs::file_type::regular) return {};
    const Json j = parse_json(read_whole(path, kMostMark), path);
    if (j.at("format") != kMarkFormat || j.at("version") != 1) return {};
    FolderMark mark{.run = j.at("run").get<std::string>(), .files = {}, .kind = field_or(j, "kind", path, std::string())};
    for (const auto& [file, entry] : j.at("files").items()) mark.files[file] = {entry.at("bytes").get<int64_t>(), entry.at("checksum").get<std::string>()};
    return mark;
  } catch (const std::exception&) {
    return {};
  }
}

void write_mark(const std::string& folder, const FolderMark& mark) {
  Json files = Json::object();
  for (const auto& [path, f] : mark.files) files[path] = {{"bytes", f.bytes}, {"checksum", f.checksum}};
  Json j{{"format", kMarkFormat}, {"version", 1}, {"run", mark.run}, {"files", files}};
  if (!mark.kind.empty()) j["kind"] = mark.kind;
  write_file_atomic(folder + "/" + kFolderMark, j.dump(1, ' ', true, Json::error_handler_t::replace) + "\n");
}

FolderMark mark_of(const std::string& folder, const std::string& run, const std::string& kind) {
  FolderMark mark{.run = run, .files = {}, .kind = kind};
  each_below(folder, [&](const std::string& path, bool plain) {
    if (plain) mark.files[path] = entry_of(folder + "/" + path);
  });
  return mark;
}

std::string foreign_in_folder(const std::string& folder, const FolderMark& mark) {
  std::string first;
  each_below(folder, [&](const std::string& path, bool plain) {
    if (!first.empty()) return;
    const auto it = mark.files.find(path);
    if (!plain || it == mark.files.end() || !has_bytes(folder + "/" + path, it->second, false)) first = path;
  });
  return first;
}

std::string missing_in_folder(const std::string& folder, const FolderMark& mark) {
  std::error_code error;
  for (const auto& [path, known] : mark.files)
    if (!fs::exists(fs::symlink_status(folder + "/" + path, error))) return path;
  return "";
}

std::string changed_in_folder(const std::string& folder, const FolderMark& mark) {
  std::error_code error;
  for (const auto& [path, known] : mark.files)
    if (const auto status = fs::symlink_status(folder + "/" + path, error); fs::exists(status) && (!fs::is_regular_file(status) || !has_bytes(folder + "/" + path, known, true))) return path;
  return "";
}

}  // namespace ravine
