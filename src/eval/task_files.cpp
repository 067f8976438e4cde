#include "eval/task_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/text.h"
#include "data/records/open_records.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMostItems = 1'000'000;
constexpr size_t kMostTaskFiles = 65536;

std::string_view without_compression(std::string_view name) {
  for (const std::string_view end : {".gz", ".zst", ".xz"})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return name;
}

// Returns the text for * of `part` in `name`; empty if `name` does not match.
std::optional<std::string> star_of(std::string_view part, std::string_view name) {
  const size_t star = part.find('*');
  const std::string_view before = part.substr(0, star), after = part.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return {};
  return std::string(name.substr(before.size(), name.size() - before.size() - after.size()));
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < kMostTaskFiles; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void collect(const fs::path& folder, std::string_view pattern, const std::string& subject, std::vector<TaskFile>& out) {
  const size_t slash = pattern.find('/');
  const std::string_view part = pattern.substr(0, slash);
  const bool last = slash == std::string_view::npos;
  auto go_on = [&](const std::string& name, const std::string& found) {
    std::error_code error;
    if (!last)
      collect(folder / name, pattern.substr(slash + 1), found, out);
    else if (fs::is_regular_file(folder / name, error))
      out.push_back({(folder / name).lexically_normal().string(), found.empty() ? name.substr(0, name.find('.')) : found});
  };
  if (part.find('*') == std::string_view::npos) {
    for (const char* end : {"", ".gz", ".zst", ".xz"})
      if (last || *end == '\0') go_on(std::string(part) + end, subject);
    return;
  }
  for (const std::string& name : names_in(folder))
    if (last && name.starts_with("train"))
      continue;  // training examples are not asked
    else if (const auto star = star_of(part, last ? without_compression(name) : std::string_view(name)))
      go_on(name, *star);
}

// Throws a UserError if a file and its compressed copy match: each item would count twice.
void refuse_twins(const std::vector<TaskFile>& found) {
  std::map<std::string_view, const TaskFile*> seen;
  for (const TaskFile& f : found)
    if (const auto [other, fresh] = seen.emplace(without_compression(f.path), &f); !fresh)
      throw UserError(fmt::format("a file and its compressed copy, {} beside it", fs::path(f.path).filename().string()),
                      other->second->path, "each item is asked once", "remove one of them");
}

std::vector<fs::path> roots_of(const std::string& data, const std::string& task) {
  std::error_code error;
  if (fs::is_directory(fs::path(data) / task, error)) return {fs::path(data) / task};
  return {fs::path(data)};
}

}  // namespace

std::vector<TaskFile> look_for_task_files(const std::string& data, const std::string& task,
                                          const std::vector<std::string>& patterns) {
  for (const fs::path& root : roots_of(data, task))
    for (const std::string& pattern : patterns) {
      std::vector<TaskFile> found;
      collect(root, pattern, "", found);
      refuse_twins(found);
      if (!found.empty()) return found;
    }
  return {};
}

std::vector<TaskFile> find_task_files(const std::string& data, const std::string& task,
                                      const std::vector<std::string>& patterns) {
  std::vector<TaskFile> found = look_for_task_files(data, task, patterns);
  if (!found.empty()) return found;
  if (std::error_code error; !fs::is_directory(data, error))
    throw UserError("no such folder", data, "--data holds a folder for each task", missing_path_advice(data, Hub::datasets));
  throw UserError(fmt::format("no data of {}", task), roots_of(data, task)[0].string(),
                  fmt::format("looked for {}", fmt::join(patterns, ", ")),
                  fmt::format("download and unpack the benchmark into {}", (fs::path(data) / task).string()));
}

std::vector<TaskRecord> read_task_records(const std::string& path) {
  const std::unique_ptr<RecordReader> reader = open_records(path, {.option_name = "--data", .max_record = int64_t{1} << 20});
  std::vector<TaskRecord> out;
  for (Record record; reader->next(record);) {
    if (static_cast<int64_t>(out.size()) >= kMostItems)
      throw UserError("too many items", path, fmt::format("a file has at most {}", kMostItems),
                      "check that it is the benchmark's");
    if (find_invalid_utf8(record.body) != std::string::npos)
      throw UserError("text is not UTF-8", record.where(), "benchmarks are text in UTF-8", "download the file again");
    out.push_back({record.json(), record.where()});
  }
  if (out.empty()) throw UserError("no items", path, "a benchmark has some", "download the file again");
  return out;
}

std::string text_or_nothing(const Json& record, const std::string& key, const std::string& where) {
  const auto it = record.find(key);
  return it == record.end() || it->is_null() ? "" : field<std::string>(record, key, where);
}

}  // namespace ravine
