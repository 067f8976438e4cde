// Verdicts on checkpoints, as MindFormers' use_checkpoint_health_monitor promises them: train.output/health_ckpts.json is a list of {"is_health": 0, "ckpt_name":
// "step_000200"}, oldest first, where 0 means healthy. A resume takes the newest healthy one that is there (upstream's documentation; its code takes the newest).
#pragma once
#include <functional>
#include <string>

namespace ravine {

inline constexpr const char* kHealthFile = "health_ckpts.json";

class CheckpointHealth {
 public:
  explicit CheckpointHealth(std::string file) : file_(std::move(file)) {}
  // Adds the verdict on a checkpoint that is complete; a newer one on the same name takes the place of the older.
  void add(const std::string& checkpoint, bool healthy) const;
  // Whether the file calls it healthy; one that it does not know is not. A file that is no such list is a UserError.
  bool healthy(const std::string& checkpoint) const;

 private:
  std::string file_;
};

}  // namespace ravine
