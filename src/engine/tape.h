// The two-level tape: blocks outside (recompute, gather, reduction), ops inside (gradients).
// Closures capture TensorRef and Saved, never Tensor, so that memory goes as the tape is walked. One exception: a tensor that dx
// works out and dw reads too goes from the one to the other in a shared_ptr that dw empties (ops/lora.cpp).
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
  std::vector<TensorRef> outputs;  // whose gradients are dropped once dx and dw have run; none written: the op is skipped
  BackwardFn dx, dw;
};

struct BlockNode {
  std::string path;
  const Unit* unit;
  std::vector<OpNode> ops;
  // With recompute: the input, and how to run the block again.
  BlockFn again;
  Saved x, branch;
  TensorRef out_x, out_branch;
};

struct Tape {
  std::vector<BlockNode> blocks;
};

}  // namespace ravine
