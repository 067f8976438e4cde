// The resolved settings of a run: its options without auto, and the values computed from them. train/resolve.h makes
// them before anything is written; later they do not change. Train, plan, resume and the record in checkpoints use a
// RunSpec, not the Config of the command.
#pragma once
#include <string>

#include "base/json.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "step/layout.h"

namespace ravine {

// The resolved settings of a run: options without auto, layout, types and kernels. The result of resolve
// (train/resolve.h).
struct RunSpec {
  Config options;
  RunLayout layout;
  Types types;
  Backend backend = Backend::cpu;
  Kernels kernels;
  // The reason for the values that replaced auto in precision.compute and precision.bf16_products; empty: neither was
  // auto.
  std::string why;
  // config_text and record leave out values that depend on the memory and the layers of this job: train.recompute, and
  // the layers of each stage from parallel.split.
  std::string config_text;  // the content of config.yaml
  Json record;              // the record in checkpoints
};

}  // namespace ravine
