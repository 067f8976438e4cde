// Health verdicts on checkpoints, for MindFormers' option use_checkpoint_health_monitor. The file
// train.output/health_ckpts.json, next to the folder of checkpoints, is a list, oldest first, of
//   {"is_health": 0, "ckpt_name": "step_000200"}
// where 0 means healthy. A resume uses the newest healthy checkpoint, as upstream's documentation says (upstream's code
// uses the newest). Each checkpoint also stores its verdict in its manifest, as the scalar "unhealthy". The file is
// written from these scalars and may be edited. An entry in the file overrides the checkpoint's own scalar.
#pragma once
#include <map>
#include <string>

#include "base/json.h"

namespace ravine {

inline constexpr const char* kHealthFile = "health_ckpts.json";
inline constexpr const char* kUnhealthy = "unhealthy";  // scalar (bool) of a checkpoint with a verdict

// The verdicts (healthy or not) on the checkpoints of a folder. health_ckpts.json is read once.
class CheckpointVerdicts {
 public:
  explicit CheckpointVerdicts(const std::string& checkpoints_dir);  // a file of another form is a UserError
  // True if the checkpoint is healthy: by the entry in health_ckpts.json, else by the checkpoint's own manifest.
  // `checkpoint` is the name of its folder. A checkpoint without a verdict, or with an unreadable manifest, is healthy.
  bool healthy(const std::string& checkpoint) const;

 private:
  std::string dir_;
  std::map<std::string, bool> file_;
};

// Writes the verdict on a complete checkpoint from its `scalars` to health_ckpts.json, in place of an older verdict of
// that name. Scalars without a verdict change nothing.
void record_verdict(const std::string& checkpoints_dir, const std::string& checkpoint, const Json& scalars);
// Removes the verdict on the checkpoint named `checkpoint` from health_ckpts.json, before another checkpoint gets that
// name. After a kill in between, no checkpoint has the wrong verdict.
void forget_verdict(const std::string& checkpoints_dir, const std::string& checkpoint);

}  // namespace ravine
