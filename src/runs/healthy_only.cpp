#include "runs/healthy_only.h"

#include <filesystem>
#include <set>

#include "io/checkpoint_health.h"
#include "runs/run_folder.h"

namespace ravine {
namespace fs = std::filesystem;

TakesCheckpoint healthy_only(const Config& config) {
  if (config.health.embedding_norm == 0 || config.checkpoint.resume != kResumeNewest) return {};
  const std::string folder = run_path(config, "checkpoints");
  const CheckpointVerdicts verdicts(folder);
  const std::vector<std::string> all = checkpoints_to_try(folder);
  std::set<std::string> good;
  for (const std::string& checkpoint : all)
    if (const std::string name = fs::path(checkpoint).filename().string(); verdicts.healthy(name)) good.insert(name);
  if (good.empty() && !all.empty())
    throw UserError(
        "no healthy checkpoints", folder,
        fmt::format(
            "by {} and their own verdicts none of the {} checkpoints is healthy; with health.embedding_norm={} a run resumes only from a healthy one",
            kHealthFile, all.size(), config.health.embedding_norm),
        fmt::format(
            "train again (checkpoint.resume=none, or another train.output), raise health.embedding_norm if it is too small, or name one: checkpoint.resume={}",
            all[0]));
  return [good](const std::string& name) { return good.count(name) > 0; };
}

}  // namespace ravine
