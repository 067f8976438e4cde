// The tape has two levels: blocks (recomputation, gathering, reduction), and the ops in each block (gradients).
// Closures capture TensorRef and Saved, never Tensor, so that memory is freed during the backward pass. One exception:
// a tensor that dx computes and dw also reads is passed in a shared_ptr, which dw empties (ops/lora.cpp).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/saved.h"

namespace ravine {

struct Unit;
using BackwardFn = std::function<void(Ctx&)>;
using BlockFn = std::function<Flow(Ctx&, Flow)>;

struct OpNode {
  std::string path;
  const char* op;
  // The outputs of the op. Their gradients are dropped after dx and dw have run. If no output has a gradient, the
  // backward pass of the op is skipped. Empty: it always runs.
  std::vector<TensorRef> outputs;
  BackwardFn dx, dw;
};

struct BlockNode {
  std::string path;
  const Unit* unit;
  std::vector<OpNode> ops;
  // Used only if the block is recomputed: the function that runs it again, and its input (x, branch).
  BlockFn again;
  Saved x, branch;
  TensorRef out_x, out_branch;
};

struct Tape {
  std::vector<BlockNode> blocks;
};

}  // namespace ravine
