// Verdicts on checkpoints, as MindFormers' use_checkpoint_health_monitor promises them: train.output/health_ckpts.json, beside
// the folder of checkpoints, is a list, oldest first, of
//   {"is_health": 0, "ckpt_name": "step_000200"}
// where 0 means healthy. A resume takes the newest healthy one that is there (upstream's documentation; its code takes the
// newest). Each checkpoint carries its verdict in its manifest, as the scalar "unhealthy"; the file is written from it, and may
// be edited: what it says of a checkpoint goes before what that one says.
#pragma once
#include <map>
#include <string>

#include "base/json.h"

namespace ravine {

inline constexpr const char* kHealthFile = "health_ckpts.json";
inline constexpr const char* kUnhealthy = "unhealthy";  // scalar of a checkpoint that was judged: a bool

// What is said of the checkpoints in a folder. The file is read once.
class CheckpointVerdicts {
 public:
  explicit CheckpointVerdicts(const std::string& checkpoints_dir);  // a file that is no such list is a UserError
  // By the file; if it lacks this one, by the checkpoint's own manifest. One of which neither says anything is healthy: not
  // judged, or too damaged to say so.
  bool healthy(const std::string& checkpoint) const;  // its name

 private:
  std::string dir_;
  std::map<std::string, bool> file_;
};

// Writes the verdict that these scalars of a complete checkpoint carry, in place of an older one on that name; scalars without
// one are nothing to write.
void record_verdict(const std::string& checkpoints_dir, const std::string& checkpoint, const Json& scalars);
// Takes the verdict out of the file, before another checkpoint gets that name: a kill in between leaves no verdict on the wrong
// one.
void forget_verdict(const std::string& checkpoints_dir, const std::string& checkpoint);

}  // namespace ravine
