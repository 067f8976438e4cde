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

// A parameter with its recorded gradients, as f64. In the file the values are p.NAME [..] of any float type. The
// gradients are g.NAME [S, ..] for S steps, or [R, S, ..] for R ranks; `grads` has the S gradients of this rank.
struct ReplayParam {
  std::string name;
  Shape shape;
  std::vector<double> values, grads;
};

// The contents of a file of recorded parameters and gradients: the result of read_replay_input().
struct ReplayInput {
  std::vector<ReplayParam> params;  // in the order of the file
  int64_t steps = 0;
  std::vector<double> lrs;  // learning rates by step; empty: the schedule of the config gives them
  std::string paired;       // rule by which another program's gradients were paired; "": gradients of the file
};

// Reads a file of recorded parameters and gradients. rank: the rank whose gradients are read, from 0; ranks: their
// number. A mistake in the file is a UserError that names file and tensor.
ReplayInput read_replay_input(const std::string& path, int rank, int ranks);
// Reads the parameters of such a file, p.NAME or NAME, and takes their gradients from another program's files
// (io/given_gradients.h). Gradients in the file itself are not read. decay_all: all parameters decay.
ReplayInput read_replay_input(const std::string& path, const std::string& gradients, bool decay_all);

// A tensor of the result of replay_optimizer().
struct ReplayTensor {
  std::string name;  // "p.NAME", or "state.STATE.NAME"
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
};

// Runs the optimizer of `config` on recorded gradients. Returns on rank 0, for each parameter, p.NAME [S + 1, ..]: its
// values before the first step and after each of S steps (for several ranks [R, S + 1, ..]). Then follow the optimizer
// states after the last step. Other ranks get nothing. The type is f32, or f64 if it is the compute type.
// Ranks are data ranks: a rule gets the mean of their gradients. The schedule has the length of train.steps if that is
// set, else the number of steps in the file; schedule.steps is ignored. Gradients are clipped only if
// optimizer.clip_norm is set. A matrix with "embed" in its name is a table.
std::vector<ReplayTensor> replay_optimizer(const ReplayInput& input, const Config& config, Backend backend, const Ranks& ranks);

}  // namespace ravine
