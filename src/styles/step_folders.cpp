#include "styles/step_folders.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "files/folder_mark.h"
#include "files/temporary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

std::string kind_of(const std::string& name) { return "checkpoint " + name; }  // the kind in the mark

// Returns the name of a folder. A folder that is being replaced has a temporary name; its former name is returned.
std::string name_of(const std::string& folder) {
  const std::string name = fs::path(folder).filename().string();
  const auto parked = parse_temporary(name);
  return parked ? parked->target : name;
}

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
  std::error_code error;
  if (fs::is_symlink(folder, error)) return false;
  const auto mark = read_mark(folder);
  return mark && mark->kind == kind_of(name_of(folder)) && mark->run == run;
}

bool may_go(const std::string& folder, const std::string& run) {
  std::optional<FolderMark> mark = read_mark(folder);
  return is_of_run(folder, run) && mark && foreign_in_folder(folder, *mark, true).empty();
}

std::string foreign_ahead(const Config& config, const StepNames& names, const std::string& run, const std::string& from) {
  const int64_t done = names.step(fs::path(from).filename().string()).value_or(0);
  const TrainOptions& train = config.train;
  for (const int64_t step : names.steps_in(train.output))
    if (const std::string there = train.output + "/" + names.name(step);
        step > done && (train.epochs > 0 || step <= train.steps) && !may_go(there, run))
      return there;
  return "";
}

void clean_step_leftovers(const std::string& output, const StepNames& names) {
  remove_leftovers(
      output, [&](const std::string& target) { return names.step(target).has_value(); },
      [](const std::string& leftover) {
        auto mark = read_mark(leftover);
        const bool replaced = parse_temporary(fs::path(leftover).filename().string())->replaced;
        return replaced && mark ? foreign_in_folder(leftover, *mark, true) : std::string();
      });
}

MayReplace replaces_own(const std::string& run) {
  return [run](const std::string& there) {
    if (!may_go(there, run))
      throw UserError("a folder that this run would replace", there, "it, or a file in it, is not this run's own",
                      "move it away");
  };
}

void mark_as_made(const std::string& folder, const std::string& run, const std::string& name) {
  write_mark(folder, mark_of(folder, run, kind_of(name), true));
}

void keep_newest(const std::string& output, const StepNames& names, const std::string& run, int64_t step, int64_t keep,
                 int64_t best) {
  std::vector<int64_t> own;
  for (const int64_t one : names.steps_in(output))
    if (one <= step && is_of_run(output + "/" + names.name(one), run)) own.push_back(one);
  if (const auto found = std::find(own.begin(), own.end(), best); found != own.end() && best < step && keep > 0) {
    own.erase(found);
    keep = std::max<int64_t>(keep - 1, 1);
  }
  std::error_code error;
  for (size_t i = 0; keep > 0 && i + static_cast<size_t>(keep) < own.size(); ++i)
    if (const std::string old = output + "/" + names.name(own[i]); may_go(old, run)) remove_whole(old, error);
}

}  // namespace ravine
