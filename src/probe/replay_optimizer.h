// An update rule alone: recorded gradients in, weights of every step out. The same Optimizer and store as in training, no
// model.
#pragma once
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "comm/ranks.h"
#include "config/config.h"
#include "kernels/backend.h"

namespace ravine {

// A parameter of the file: p.NAME [..] of any floating type, g.NAME [S, ..], or [R, S, ..] for R ranks, of which this rank
// takes its own. Values are kept in f64.
struct ReplayParam {
  std::string name;
  Shape shape;
  std::vector<double> values, grads;
};

struct ReplayInput {
  std::vector<ReplayParam> params;  // in the order of the file
  int64_t steps = 0;
  std::vector<double> lrs;  // by step; empty: as the schedule says
};

// A UserError names file and tensor.
ReplayInput read_replay_input(const std::string& path, int rank, int ranks);

struct ReplayTensor {
  std::string name;  // "p.NAME", or "state.STATE.NAME"
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
};

// p.NAME [S + 1, ..], before the first step and after every step, of several ranks [R, S + 1, ..]; then the states after the
// last. On rank 0, others get nothing. In f32, or f64 if that is what is computed in. Ranks are data ranks: a rule gets the
// mean of their gradients. No schedule.steps: its length is that of train.steps if given, else the number of steps in the file.
// No clipping unless optimizer.clip_norm is given. A matrix whose name holds "embed" is a table.
std::vector<ReplayTensor> replay_optimizer(const ReplayInput& input, const Config& config, Backend backend, const Ranks& ranks);

}  // namespace ravine
