#include "train/health.h"

#include <filesystem>

#include "base/json.h"
#include "files/atomic.h"

namespace ravine {
namespace {

Json read_verdicts(const std::string& file) {
  if (std::error_code error; !std::filesystem::exists(file, error)) return Json::array();
  Json list = read_json(file);
  auto wrong = [&](const std::string& what) {
    throw UserError(what, file, R"(it must be a list of {"is_health": 0 or 1, "ckpt_name": TEXT})", "remove the file, or name the checkpoint by checkpoint.resume=DIR");
  };
  if (!list.is_array()) wrong("not a list of checkpoints");
  for (const Json& c : list)
    if (!c.is_object() || !c.contains("ckpt_name") || !c["ckpt_name"].is_string() || !c.contains("is_health") || !c["is_health"].is_number_integer())
      wrong("an entry is no verdict on a checkpoint");
  return list;
}

}  // namespace

void CheckpointHealth::add(const std::string& checkpoint, bool healthy) const {
  Json list = read_verdicts(file_), kept = Json::array();
  for (Json& c : list)
    if (c["ckpt_name"] != checkpoint) kept.push_back(std::move(c));
  Json c;
  c["is_health"] = healthy ? 0 : 1;
  c["ckpt_name"] = checkpoint;
  kept.push_back(std::move(c));
  write_file_atomic(file_, kept.dump(4) + "\n");
}

bool CheckpointHealth::healthy(const std::string& checkpoint) const {
  for (const Json& c : read_verdicts(file_))
    if (c["ckpt_name"] == checkpoint) return c["is_health"] == 0;
  return false;
}

}  // namespace ravine
