#include "io/convert/target_folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "files/checksum.h"
#include "files/compressed.h"
#include "files/temporary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kPlan = "conversion.plan";
constexpr const char* kLock = ".lock";

std::string sealed(const std::string& plan) { return checksum_text(checksum_of(std::as_bytes(std::span(plan)))) + "\n" + plan; }

std::string text_of(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) ? read_whole(path, int64_t{1} << 30) : "";
}

}  // namespace

AtomicFolder TargetFolder::begin(const std::string& path) {
  std::error_code error;
  if (fs::is_symlink(path, error))
    throw UserError("cannot write folder", path, "it is a link, which a folder cannot replace",
                    "name the folder that it leads to, or another");
  if (!replaces_ && fs::exists(path, error) && !(fs::is_directory(path, error) && fs::is_empty(path, error)))
    throw UserError("cannot write folder", path, "it exists and is not empty", "choose another or remove it");
  std::string found;
  for (const std::string& left : leftovers_of(path)) {
    auto in_use = [&] {
      return UserError("output folder is in use", path, "another process is writing to it",
                       "stop that run or choose another folder");
    };
    std::unique_ptr<FolderLock> lock;
    try {
      lock = std::make_unique<FolderLock>(left);  // an error if it is being written
    } catch (const UserError&) {
      if (fs::exists(left, error)) throw;
      throw in_use();  // it was renamed to its final name, or its writer failed and removed it
    }
    if (is_in_use(left)) throw in_use();
    if (found.empty() && text_of(left + "/" + kPlan) == text_) {
      found = left;
      lock_ = std::move(lock);
      continue;
    }
    fs::remove_all(left, error);
    if (error) throw_system("remove", left, error.value());
  }
  taken_up_ = !found.empty();
  return found.empty() ? AtomicFolder(path) : AtomicFolder(path, found);
}

TargetFolder::TargetFolder(const std::string& path, const std::string& plan, MayReplace replaces)
    : replaces_(std::move(replaces)), text_(sealed(plan)), folder_(begin(path)) {
  if (!lock_) lock_ = std::make_unique<FolderLock>(folder_.folder());
  if (!taken_up_) {
    write_file_atomic(this->path(kPlan), text_);
    return;
  }
  std::vector<fs::path> doomed;  // incomplete files
  for (const auto& entry : fs::recursive_directory_iterator(folder_.folder()))
    if (parse_temporary(entry.path().filename().string())) doomed.push_back(entry.path());
  std::error_code error;
  for (const fs::path& p : doomed) fs::remove_all(p, error);
  if (error) throw_system("remove", folder_.folder(), error.value());
}

TargetFolder::~TargetFolder() = default;

bool TargetFolder::has(const std::string& file) const {
  std::error_code error;
  return taken_up_ && fs::is_regular_file(path(file), error);
}

void TargetFolder::commit() {
  std::error_code error;
  fs::remove(path(kPlan), error);
  lock_.reset();
  folder_.commit(replaces_);
}

std::string describe_source(const std::string& path) {
  std::vector<std::string> lines;
  auto add = [&](const fs::path& file) {
    std::error_code error;
    lines.push_back(fmt::format("{} {} {}\n", file.string(), fs::file_size(file, error),
                                fs::last_write_time(file, error).time_since_epoch().count()));
  };
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    add(path);
  } else {
    for (const auto& entry : fs::recursive_directory_iterator(path, error))
      if (entry.is_regular_file(error) && entry.path().filename() != kLock) add(entry.path());
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
}

}  // namespace ravine
