#include "eval/result_folder.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "eval/samples.h"
#include "files/atomic.h"
#include "files/checksum.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kReadFully = int64_t{32} << 20;  // larger files are compared by size and time
constexpr const char* kResultFiles[] = {"results.json", "results.csv", "ceval_submission.json", "eval.json"};

void remove_results(const fs::path& folder) {
  for (const Task& t : all_tasks()) fs::remove(samples_path(folder.string(), t.name));
  for (const char* name : kResultFiles) fs::remove(folder / name);
}

}  // namespace

std::unique_ptr<FolderLock> open_result_folder(const std::string& folder, const Json& settings, bool overwrite) {
  create_folders(folder);
  const fs::path mark = fs::path(folder) / "eval.json";
  auto lock = std::make_unique<FolderLock>(folder);
  if (fs::exists(mark)) {
    const Json there = read_json(mark.string());
    if (field_or<std::string>(there, "ravine", mark.string(), "") != "eval")
      throw UserError("not a folder of results", mark.string(), "it was written by something else", "choose another --output");
    const Json had = field<Json>(there, "settings", mark.string());
    std::string other;
    for (const auto& [key, value] : settings.items())
      if (other.empty() && (!had.contains(key) || had.at(key) != value)) other = key;
    if (other.empty()) return lock;
    if (!overwrite)
      throw UserError(fmt::format("an evaluation with another '{}'", other), folder,
                      "one folder holds the results of one model, protocol and set of settings",
                      "choose another --output, or add --overwrite");
    remove_results(folder);
  } else {
    for (const fs::directory_entry& e : fs::directory_iterator(folder))
      if (e.path().filename() != ".lock")
        throw UserError(fmt::format("it holds '{}'", e.path().filename().string()), folder,
                        "results go into a folder of their own", "choose another --output");
  }
  write_file_atomic(mark.string(), Json{{"ravine", "eval"}, {"settings", settings}}.dump(1) + "\n");
  return lock;
}

std::string files_of_model(const std::string& path) {
  std::vector<std::string> files;
  auto add = [&](const fs::path& file) {
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(file, error));
    const std::string is = size <= kReadFully ? checksum_text(checksum_of_file(file.string()))
                                              : fmt::format("{}", fs::last_write_time(file, error).time_since_epoch().count());
    files.push_back(fmt::format("{} {} {}", file.filename().string(), size, is));
  };
  if (fs::is_regular_file(path))
    add(path);
  else
    for (const fs::directory_entry& e : fs::directory_iterator(path))
      if (std::error_code error; e.is_regular_file(error)) add(e.path());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const std::string& f : files) all += f + "\n";
  return checksum_text(checksum_of(std::as_bytes(std::span(all))));
}

}  // namespace ravine
