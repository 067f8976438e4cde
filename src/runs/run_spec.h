// What a run does, in numbers: its options with all that `auto` stood for worked out, and what follows from them. train/resolve.h
// makes it, before anything is written; from then on nothing of it changes. Train, plan, resume and the record in checkpoints
// read and compare a RunSpec, and never what was asked for.
#pragma once
#include <string>

#include "base/json.h"
#include "config/config.h"
#include "kernels/backend.h"
#include "step/layout.h"

namespace ravine {

struct RunSpec {
  Config options;
  RunLayout layout;
  Types types;
  Backend backend = Backend::cpu;
  Kernels kernels;
  std::string why;  // of what precision.compute=auto and bf16_products=auto came to; empty: nothing was left to choose
  // Both without what depends on the memory and the layers of this job: train.recompute, and the layers of each stage that
  // parallel.split came to.
  std::string config_text;  // what config.yaml gets
  Json record;              // as checkpoints record it
};

}  // namespace ravine
