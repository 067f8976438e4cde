// The parts of an opened run. train/open_run.h opens them.
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

// An opened run: config, spec, model, data, engine and folder, which are opened before the run writes to its folder.
// Later only the numbers in the engine change. Each rank has its own. Not movable: members refer to each other.
struct OpenedRun {
  // Stores the arguments, and opens nothing yet. `given`: the config of the run. `to`: its log. `job`: the ranks of
  // this job, which must outlive this; null: a single rank. `form`: the checkpoint format of another program; null:
  // Ravine's.
  OpenedRun(Config given, Log& to, World* job, std::shared_ptr<const CheckpointFiles> form = nullptr)
      : files(std::move(form)), requested(settled(std::move(given))), log(to), world(job) {}
  OpenedRun(const OpenedRun&) = delete;
  OpenedRun& operator=(const OpenedRun&) = delete;

  std::string path(const std::string& name) const { return run_path(config(), name); }

  std::shared_ptr<const CheckpointFiles> files;  // null: Ravine's checkpoints
  std::vector<std::string> taken;                // log lines: options that another program's checkpoint replaced
  const Config requested;
  std::shared_ptr<const RunSpec> spec;  // the resolved run; null until model and ranks are known
  const Config& config() const { return spec ? spec->options : requested; }
  Log& log;
  World* world;
  std::unique_ptr<RunFolder> folder;
  // Checksum of the weights of model.path; for an adapter also of model.weights. Empty if model.path is not set, or if
  // the checksum is unknown.
  std::string weights;
  std::unique_ptr<Model> model;
  std::optional<LoraSettings> lora;  // of the trained adapter
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
