// What a run is made of. train/open_run.h opens it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/ranks.h"
#include "config/config.h"
#include "model/adapters.h"
#include "runs/checkpoint_files.h"
#include "runs/disk_needs.h"
#include "runs/run_data.h"
#include "runs/run_folder.h"
#include "runs/run_spec.h"
#include "step/step.h"

namespace ravine {

// Everything that a run opens before it touches its folder; from then on nothing of it changes but the numbers that the engine
// holds. Of several ranks all do the same, and each has its own. Not movable: parts refer to each other.
struct OpenedRun {
  // Nothing is open yet. world: the ranks of this job, which must outlive it; null: alone.
  OpenedRun(Config given, Log& to, World* job, std::shared_ptr<const CheckpointFiles> form = nullptr)
      : files(std::move(form)), asked(settled(std::move(given))), log(to), world(job) {}
  OpenedRun(const OpenedRun&) = delete;
  OpenedRun& operator=(const OpenedRun&) = delete;

  std::string path(const std::string& name) const { return run_path(config(), name); }

  std::shared_ptr<const CheckpointFiles> files;  // null: checkpoints of Ravine
  std::vector<std::string> taken;  // lines: what the checkpoint of another program says over the options that were given
  const Config asked;
  std::shared_ptr<const RunSpec> spec;  // what the run does; null until model and ranks are there
  const Config& config() const { return spec ? spec->options : asked; }
  Log& log;
  World* world;
  std::unique_ptr<RunFolder> folder;
  std::string
      weights;  // checksum of what model.path holds, beside an adapter also model.weights; empty: not given, or not known
  std::unique_ptr<Model> model;
  std::optional<LoraSettings> lora;  // of the adapter that is trained
  Ranks ranks;
  RunData data;
  std::unique_ptr<StepEngine> engine;
  SavedBytes bytes;

 private:
  Config settled(Config given) {
    if (files) taken = files->take_over(given);
    return given;
  }
};

}  // namespace ravine
