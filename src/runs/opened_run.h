// What a run is made of. train/open_run.h opens it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "comm/ranks.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "model/adapters.h"
#include "runs/disk_needs.h"
#include "runs/run_data.h"
#include "runs/run_folder.h"
#include "step/layout.h"
#include "step/step.h"

namespace ravine {

// What the run computes with and what is written down of its options, once auto has chosen.
struct RunChoices {
  Types types;
  Backend backend = Backend::cpu;
  Kernels kernels;
  std::string why;  // of what precision.compute=auto and bf16_products=auto chose; empty: nothing
  // Both without the layers of each stage that parallel.split came to.
  std::string config_text;  // what config.yaml gets
  Json options;             // as checkpoints record them
};

// Everything that a run opens before it touches its folder; from then on nothing of it changes but the numbers that the engine
// holds. Of several ranks all do the same, and each has its own. Not movable: parts refer to each other.
struct OpenedRun {
  // Nothing is open yet. world: the ranks of this job, which must outlive it; null: alone.
  OpenedRun(Config given, Log& to, World* job) : config(std::move(given)), log(to), world(job) {}
  OpenedRun(const OpenedRun&) = delete;
  OpenedRun& operator=(const OpenedRun&) = delete;

  std::string path(const std::string& name) const { return run_path(config, name); }

  Config config;  // with what auto chose
  Log& log;
  World* world;
  std::unique_ptr<RunFolder> folder;
  std::string weights;  // checksum of what model.path holds; empty: not given, or not known
  std::unique_ptr<Model> model;
  std::optional<LoraSettings> lora;  // of the adapter that is trained
  RunLayout layout;
  Ranks ranks;
  RunChoices chosen;
  RunData data;
  std::unique_ptr<StepEngine> engine;
  SavedBytes bytes;
};

}  // namespace ravine
