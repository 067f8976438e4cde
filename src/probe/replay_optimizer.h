// Runs an update rule alone: recorded gradients are the input, weights after each step the output. Uses the Optimizer
// and the store of training, but no model.
#pragma once
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "comm/ranks.h"
#include "config/config.h"
#include "kernels/backend.h"

namespace ravine {

// A parameter of the file: p.NAME [..] of any float type; its gradients g.NAME [S, ..], or [R, S, ..] for R ranks, of
// which this rank has its own. Values are f64.
struct ReplayParam {
  std::string name;
  Shape shape;
  std::vector<double> values, grads;
};

// The recorded parameters and gradients.
struct ReplayInput {
  std::vector<ReplayParam> params;  // in the order of the file
  int64_t steps = 0;
  std::vector<double> lrs;  // learning rates by step; empty: from the schedule
};

// Reads a file. A UserError names file and tensor.
ReplayInput read_replay_input(const std::string& path, int rank, int ranks);

// A tensor of the result.
struct ReplayTensor {
  std::string name;  // "p.NAME", or "state.STATE.NAME"
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
};

// Returns, on rank 0, p.NAME [S + 1, ..] before the first step and after each step (for several ranks [R, S + 1, ..]),
// then the states after the last step. Other ranks get nothing. The type is f32, or f64 if it is the compute type.
// Ranks are data ranks: a rule gets the mean of their gradients. The schedule has the length of train.steps if that is
// set, else the number of steps in the file; schedule.steps is ignored. Gradients are clipped only if
// optimizer.clip_norm is set. A matrix with "embed" in its name is a table.
std::vector<ReplayTensor> replay_optimizer(const ReplayInput& input, const Config& config, Backend backend, const Ranks& ranks);

}  // namespace ravine
