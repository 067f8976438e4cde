#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "files/compressed.h"
#include "files/read_head.h"
#include "files/temporary.h"
#include "io/checkpoint.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns the steps in the order to try: the step of `latest`, older ones from new to old, then newer ones from new to
// old.
std::vector<int64_t> steps_to_try(const std::string& dir, std::optional<int64_t> latest) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error))
    if (auto step = checkpoint_step(entry.path().filename().string()); step && entry.is_directory(error))
      steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  if (latest) std::stable_partition(steps.begin(), steps.end(), [&](int64_t s) { return s <= *latest; });
  return steps;
}

}  // namespace

std::optional<int64_t> latest_step(const std::string& dir) {
  const std::string path = dir + "/latest";
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::string name = read_whole(path, 4096);
  name.resize(name.find_last_not_of(" \r\n") + 1);
  return checkpoint_step(name);
}

std::string checkpoint_name(int64_t step) {
  require(step >= 0, "checkpoint_name: a step is not negative, got {}", step);
  return fmt::format("step_{:06}", step);
}

std::optional<int64_t> checkpoint_step(const std::string& folder) {
  constexpr std::string_view prefix = "step_";
  if (!folder.starts_with(prefix)) return {};
  int64_t step = -1;
  const char* end = folder.data() + folder.size();
  auto [stop, code] = std::from_chars(folder.data() + prefix.size(), end, step);
  if (code != std::errc{} || stop != end || step < 0 || checkpoint_name(step) != folder) return {};
  return step;
}

bool manifest_names_checkpoint(const std::string& folder) {
  const fs::path manifest = fs::path(folder) / "manifest.json";
  std::string head = read_head(manifest.string(), 4096);
  std::erase_if(head, [](unsigned char c) { return std::isspace(c) != 0; });
  return head.find(R"("format":"ravine-checkpoint")") != std::string::npos;
}

bool is_checkpoint(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::absolute(folder, error).lexically_normal(),
                 name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return (checkpoint_step(name.string()) && fs::exists(path / "manifest.json", error)) || manifest_names_checkpoint(folder);
}

bool holds_checkpoints(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (checkpoint_step(entry.path().filename().string()) && is_checkpoint(entry.path().string())) return true;
  return false;
}

std::optional<int64_t> first_step_to_try(const std::string& dir) {
  const std::vector<int64_t> steps = steps_to_try(dir, latest_step(dir));
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

std::vector<std::string> checkpoints_to_try(const std::string& dir, const TakesCheckpoint& takes) {
  std::vector<std::string> out;
  for (int64_t step : steps_to_try(dir, latest_step(dir)))
    if (!takes || takes(checkpoint_name(step))) out.push_back(dir + "/" + checkpoint_name(step));
  return out;
}

std::optional<std::string> newest_checkpoint(const std::string& dir, const std::function<void(const std::string&)>& warn,
                                             const TakesCheckpoint& takes, bool whole) {
  const auto latest = latest_step(dir);
  std::vector<int64_t> steps = steps_to_try(dir, latest);
  if (latest && std::find(steps.begin(), steps.end(), *latest) == steps.end())
    warn(fmt::format("{}/latest names {}, which is not there", dir, checkpoint_name(*latest)));
  if (takes) std::erase_if(steps, [&](int64_t step) { return !takes(checkpoint_name(step)); });
  for (int64_t step : steps) {
    const std::string path = dir + "/" + checkpoint_name(step);
    try {
      CheckpointReader reader(path, whole);
      return path;
    } catch (const Error& e) {
      warn(e.what());
    }
  }
  if (steps.empty()) return {};
  throw UserError(
      "no checkpoint can be used", dir,
      steps.size() == 1 ? std::string("the only one is damaged") : fmt::format("all {} are damaged", steps.size()),
      fmt::format("move {}/step_* away and set checkpoint.resume=none to begin anew there, or choose another train.output",
                  dir));
}

bool CheckpointLine::holds(const std::string& by, int64_t step) const {
  return by == process ||
         std::any_of(before.begin(), before.end(), [&](const auto& part) { return part.first == by && step <= part.second; });
}

CheckpointLine CheckpointLine::gone_on(const std::string& by, int64_t step) const {
  CheckpointLine line{by, before};
  line.before.emplace_back(process, step);
  return line;
}

Json CheckpointLine::json() const {
  Json parts = Json::array();
  for (const auto& [by, step] : before) parts.push_back({by, step});
  return {{"process", process}, {"before", parts}};
}

CheckpointLine CheckpointLine::from_scalars(const Json& scalars) {
  try {
    CheckpointLine line;
    const Json& j = scalars.at("line");
    line.process = j.at("process").get<std::string>();
    for (const Json& part : j.at("before")) line.before.emplace_back(part.at(0).get<std::string>(), part.at(1).get<int64_t>());
    return line;
  } catch (const Json::exception&) {
    return {};
  }
}

std::string foreign_in_checkpoint(const std::string& folder) {
  std::string first;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view begin = "state-", end = ".safetensors";
    const bool state = name.starts_with(begin) && name.ends_with(end) && name.size() >= begin.size() + 5 + end.size() &&
                       name.find_first_not_of("0123456789", begin.size()) == name.size() - end.size();
    const bool ours =
        (state || name == "manifest.json" || parse_temporary(name)) && entry.symlink_status().type() == fs::file_type::regular;
    if (!ours && (first.empty() || name < first)) first = name;
  }
  return first;
}

std::string protection_of_checkpoint(const std::string& folder) {
  auto is_protected = [](const std::string& path) {
    struct statx s {};
    if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_MODE, &s) != 0) return false;
    return (s.stx_mode & 0222) == 0 || (s.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0;
  };
  if (is_protected(folder)) return folder;
  std::string first;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string path = entry.path().string(); is_protected(path) && (first.empty() || path < first)) first = path;
  return first;
}

void clean_leftovers(const std::string& dir) {
  constexpr std::string_view parts = ".parts";
  remove_leftovers(
      dir,
      [&](const std::string& target) {
        return target == "latest" ||
               checkpoint_step(target.ends_with(parts) ? target.substr(0, target.size() - parts.size()) : target).has_value();
      },
      [](const std::string& leftover) {
        return checkpoint_step(parse_temporary(fs::path(leftover).filename().string())->target)
                   ? foreign_in_checkpoint(leftover)
                   : "";
      });
}

}  // namespace ravine
