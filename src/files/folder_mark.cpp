#include "files/folder_mark.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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
constexpr int64_t kMostGlance = int64_t{1} << 20;
constexpr int64_t kSettled = 2'000'000'000;  // ns

// Returns size, inode and time of change of a file, without its checksum.
FolderMark::File look_at_file(const std::string& path) {
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) throw_system("look at", path, errno);
  return {s.st_size, "", static_cast<int64_t>(s.st_ino), int64_t{s.st_ctim.tv_sec} * 1'000'000'000 + s.st_ctim.tv_nsec};
}

bool same_file(const FolderMark::File& a, const FolderMark::File& b) {
  return a.bytes == b.bytes && a.inode == b.inode && a.changed == b.changed;
}

// True if any later change of the file will show: `seen`, taken before the file was read, is still true and 2 s old.
bool is_settled(const std::string& path, const FolderMark::File& seen) {
  const int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return now - seen.changed >= kSettled && same_file(look_at_file(path), seen);
}

bool has_bytes(const std::string& path, const FolderMark::File& known) {
  return look_at_file(path).bytes == known.bytes &&
         (known.checksum.empty() || checksum_text(checksum_of_file(path)) == known.checksum);
}

bool is_as_marked(const std::string& path, FolderMark::File& known, bool glance) {
  const FolderMark::File seen = look_at_file(path);
  if (seen.bytes != known.bytes) return false;
  if (same_file(seen, known) || (glance && known.bytes > kMostGlance)) return true;
  if (!has_bytes(path, known)) return false;
  if (!known.checksum.empty() && is_settled(path, seen)) known.inode = seen.inode, known.changed = seen.changed;
  return true;
}

// Calls f(path in the folder, true if a plain file) for all files, links and empty folders, sorted by name.
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
    for (const auto& [file, entry] : j.at("files").items()) {
      mark.files[file] = {entry.at("bytes").get<int64_t>(), entry.at("checksum").get<std::string>(),
                          field_or(entry, "inode", path, int64_t{0}), field_or(entry, "changed", path, int64_t{0})};
    }
    return mark;
  } catch (const std::exception&) {
    return {};
  }
}

void write_mark(const std::string& folder, const FolderMark& mark) {
  Json files = Json::object();
  for (const auto& [path, f] : mark.files) {
    files[path] = {{"bytes", f.bytes}, {"checksum", f.checksum}};
    if (f.inode != 0) files[path]["inode"] = f.inode, files[path]["changed"] = f.changed;
  }
  Json j{{"format", kMarkFormat}, {"version", 1}, {"run", mark.run}, {"files", files}};
  if (!mark.kind.empty()) j["kind"] = mark.kind;
  write_file_atomic(folder + "/" + kFolderMark, j.dump(1, ' ', true, Json::error_handler_t::replace) + "\n");
}

FolderMark mark_of(const std::string& folder, const std::string& run, const std::string& kind, bool glance) {
  FolderMark mark{.run = run, .files = {}, .kind = kind};
  each_below(folder, [&](const std::string& path, bool plain) {
    if (!plain) return;
    FolderMark::File& file = mark.files[path] = look_at_file(folder + "/" + path);
    if (!glance || file.bytes <= kMostGlance) file.checksum = checksum_text(checksum_of_file(folder + "/" + path));
  });
  for (auto& [path, file] : mark.files)  // at the end: the reads took time, so that large files are settled now
    if (!is_settled(folder + "/" + path, file)) file.inode = file.changed = 0;
  return mark;
}

std::string foreign_in_folder(const std::string& folder, FolderMark& mark, bool glance) {
  std::string first;
  each_below(folder, [&](const std::string& path, bool plain) {
    if (!first.empty()) return;
    const auto it = mark.files.find(path);
    if (!plain || it == mark.files.end() || !is_as_marked(folder + "/" + path, it->second, glance)) first = path;
  });
  return first;
}

std::string foreign_in_model(const std::string& folder) {
  auto mark = read_mark(folder);
  return mark && mark->kind == kModelFolder ? foreign_in_folder(folder, *mark) : "";
}

std::string missing_in_folder(const std::string& folder, const FolderMark& mark) {
  std::error_code error;
  for (const auto& [path, known] : mark.files)
    if (!fs::exists(fs::symlink_status(folder + "/" + path, error))) return path;
  return "";
}

std::string changed_in_folder(const std::string& folder, const FolderMark& mark, bool thorough) {
  std::error_code error;
  auto same = [&](const std::string& path, FolderMark::File known) {
    return thorough ? has_bytes(path, known) : is_as_marked(path, known, false);
  };
  for (const auto& [path, known] : mark.files)
    if (const auto status = fs::symlink_status(folder + "/" + path, error);
        fs::exists(status) && (!fs::is_regular_file(status) || !same(folder + "/" + path, known)))
      return path;
  return "";
}

}  // namespace ravine
