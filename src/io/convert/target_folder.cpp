#include "io/convert/target_folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "files/checksum.h"
#include "files/compressed.h"

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

TargetFolder::TargetFolder(const std::string& path, const std::string& plan) : folder_(path, AtomicFolder::take_up) {
  try {
    lock_.emplace(folder_.folder());
  } catch (...) {
    folder_.keep();  // it is another's
    throw;
  }
  const std::string text = sealed(plan);
  taken_up_ = text_of(this->path(kPlan)) == text;
  std::vector<fs::path> doomed;
  if (taken_up_) {  // files that were being written go
    for (const auto& entry : fs::recursive_directory_iterator(folder_.folder()))
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) doomed.push_back(entry.path());
  } else {
    for (const auto& entry : fs::directory_iterator(folder_.folder()))
      if (entry.path().filename() != kLock) doomed.push_back(entry.path());
  }
  std::error_code error;
  for (const fs::path& p : doomed) fs::remove_all(p, error);
  if (error) throw_system("remove", folder_.folder(), error.value());
  if (!taken_up_) write_file_atomic(this->path(kPlan), text);
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
  folder_.commit();
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
