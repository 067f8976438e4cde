#include "styles/step_folders.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "files/folder_mark.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kCheckpointFolder = "checkpoint";  // kind of the mark

}  // namespace

std::string StepNames::name(int64_t step) const { return fmt::format("{}{:0{}}", before, step, digits); }

std::optional<int64_t> StepNames::step(const std::string& name) const {
  if (!name.starts_with(before) || name.size() > before.size() + 12) return {};
  const std::string number = name.substr(before.size());
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return {};
  const int64_t step = std::stoll(number);
  return this->name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<int64_t> StepNames::steps_in(const std::string& output) const {
  std::vector<int64_t> out;
  std::error_code error;
  for (fs::directory_iterator it(output, error), end; !error && it != end; it.increment(error))
    if (const auto found = step(it->path().filename().string()); found) out.push_back(*found);
  std::sort(out.begin(), out.end());
  return out;
}

bool is_of_run(const std::string& folder, const std::string& run) {
  const auto mark = read_mark(folder);
  return mark && mark->kind == kCheckpointFolder && mark->run == run;
}

bool may_go(const std::string& folder, const std::string& run) {
  std::optional<FolderMark> mark = read_mark(folder);
  return is_of_run(folder, run) && mark && foreign_in_folder(folder, *mark, true).empty();
}

MayReplace replaces_own(const std::string& run) {
  return [run](const std::string& there) {
    if (!may_go(there, run))
      throw UserError("a folder that this run would replace", there, "it, or a file in it, is not this run's own",
                      "move it away");
  };
}

void mark_as_made(const std::string& folder, const std::string& run) {
  FolderMark mark{.run = run, .files = {}, .kind = kCheckpointFolder};
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      mark.files[fs::path(entry.path()).lexically_relative(folder).string()].bytes = static_cast<int64_t>(entry.file_size());
  write_mark(folder, mark);
}

void keep_newest(const std::string& output, const StepNames& names, const std::string& run, int64_t step, int64_t keep) {
  std::vector<int64_t> own;
  for (const int64_t one : names.steps_in(output))
    if (one <= step && is_of_run(output + "/" + names.name(one), run)) own.push_back(one);
  std::error_code error;
  for (size_t i = 0; keep > 0 && i + static_cast<size_t>(keep) < own.size(); ++i)
    if (const std::string old = output + "/" + names.name(own[i]); may_go(old, run)) fs::remove_all(old, error);
}

}  // namespace ravine
