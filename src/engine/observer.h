// Sees every kernel call. Dump, statistics, NaN watch, compare, timeline, profile and fault injection are observers.
#pragma once
#include <span>
#include <string_view>

#include "engine/tensor.h"

namespace ravine {

enum class Phase : uint8_t { forward, recompute, backward, update };
std::string_view name(Phase p);

struct NamedView {
  const char* name;
  TensorView view;
  Access access;
};

struct CallInfo {
  std::string_view path;  // "model.layers.3.self_attn"
  const char* op;         // "matmul"
  Phase phase;
  std::span<const NamedView> tensors;
  double flops;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const CallInfo&) {}
  virtual void after(const CallInfo&) {}  // may change what was written (fault injection)
  // What a block hands on. hidden state = x + branch.
  virtual void flow(Ctx&, std::string_view /*path*/, const Flow&) {}
};

}  // namespace ravine
