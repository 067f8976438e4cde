#include "io/checkpoint_health.h"

#include <filesystem>
#include <optional>

#include "files/atomic.h"
#include "io/checkpoint.h"
#include "io/run_files.h"

namespace ravine {
namespace {

std::string health_file(const std::string& checkpoints_dir) {
  return (std::filesystem::path(checkpoints_dir).parent_path() / kHealthFile).string();
}

Json read_verdicts(const std::string& file) {
  if (std::error_code error; !std::filesystem::exists(file, error)) return Json::array();
  Json list = read_run_json(file);
  auto wrong = [&](const std::string& what) {
    throw UserError(
        what, file, R"(it must be a list of {"is_health": 0 or 1, "ckpt_name": TEXT})",
        "correct it, remove it (then the verdicts in the checkpoints themselves count), or name the checkpoint by checkpoint.resume=DIR");
  };
  if (!list.is_array()) wrong("not a list of checkpoints");
  for (const Json& c : list)
    if (!c.is_object() || !c.contains("ckpt_name") || !c["ckpt_name"].is_string() || !c.contains("is_health") ||
        !c["is_health"].is_number_integer())
      wrong("an entry is no verdict on a checkpoint");
  return list;
}

// Returns the verdicts on all checkpoints other than `checkpoint`, and true if `checkpoint` had a verdict.
std::pair<Json, bool> verdicts_without(const std::string& file, const std::string& checkpoint) {
  Json kept = Json::array();
  bool had = false;
  for (Json& c : read_verdicts(file))
    if (c["ckpt_name"] == checkpoint)
      had = true;
    else
      kept.push_back(std::move(c));
  return {std::move(kept), had};
}

}  // namespace

CheckpointVerdicts::CheckpointVerdicts(const std::string& checkpoints_dir) : dir_(checkpoints_dir) {
  for (const Json& c : read_verdicts(health_file(dir_))) file_.emplace(c["ckpt_name"].get<std::string>(), c["is_health"] == 0);
}

bool CheckpointVerdicts::healthy(const std::string& checkpoint) const {
  if (const auto verdict = file_.find(checkpoint); verdict != file_.end()) return verdict->second;
  const std::string folder = dir_ + "/" + checkpoint;
  std::optional<Json> scalars;
  try {
    scalars = CheckpointReader(folder, false).scalars();
  } catch (const Error&) {
    return true;
  }
  return !field_or(*scalars, kUnhealthy, folder + "/manifest.json: scalars", false);
}

void record_verdict(const std::string& checkpoints_dir, const std::string& checkpoint, const Json& scalars) {
  if (!scalars.contains(kUnhealthy)) return;
  const std::string file = health_file(checkpoints_dir);
  Json list = verdicts_without(file, checkpoint).first, c;
  c["is_health"] = field_or(scalars, kUnhealthy, checkpoint, false) ? 1 : 0;
  c["ckpt_name"] = checkpoint;
  list.push_back(std::move(c));
  write_file_atomic(file, list.dump(4) + "\n");
}

void forget_verdict(const std::string& checkpoints_dir, const std::string& checkpoint) {
  const std::string file = health_file(checkpoints_dir);
  if (const auto [list, had] = verdicts_without(file, checkpoint); had) write_file_atomic(file, list.dump(4) + "\n");
}

}  // namespace ravine
