// Sees every kernel call. Profile, NaN watch, fault injection, counts of work, checksums of results (probe/) and the hidden
// states of a trace are observers.
//
// An observer that needs memory holds its own, on the heap: the arena of a step is planned, and hands out nothing that was not
// asked for while the plan was made.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "engine/tensor.h"
#include "kernels/kernels.h"

namespace ravine {

struct Param;
class WeightSource;

struct NamedView {
  const char* name;
  TensorView view;
  Access access;
};

struct CallSetting {
  const char* name;
  double value;
};

struct CallInfo {
  int64_t step = 0;   // from 1
  int64_t micro = 0;  // place of the micro batch in the step, over all data ranks, from 0; of the update: 0
  Phase phase = Phase::forward;
  Role role = Role::forward;
  std::string_view path;  // "model.layers.3.self_attn"
  const char* op = "";    // "matmul"
  int64_t ordinal = 0;    // calls of this op at this path before this one, in this micro batch and phase
  std::span<const NamedView> tensors;
  std::span<const CallSetting> settings;  // numbers of its formula (kernels.h)
  double flops = 0;
  double bytes = 0;  // of memory that are read and written: of a table the rows that are looked up, of all else the whole

  // The parameters whose values or gradients the tensors are: several where they lie side by side (q/k/v, gate/up), in their
  // order.
  std::vector<const Param*> parameters() const;
  // Runs the kernel of `kernels` on other tensors: as many as `tensors`, in that order, of the same shapes. What the call
  // leaves besides tensors (a sum of squares) is left as it is. Scratch memory is the heap's.
  void rerun(const Kernels& kernels, std::span<const TensorView> on) const { rerun_(args_, kernels, on); }

  // Set by Ctx.
  const WeightSource* store = nullptr;
  const void* args_ = nullptr;
  void (*rerun_)(const void* args, const Kernels& kernels, std::span<const TensorView> on) = nullptr;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const CallInfo&) {}
  virtual void after(const CallInfo&) {}  // may change what was written (fault injection)
  // What a block hands on. hidden state = x + branch.
  virtual void flow(Ctx&, std::string_view /*path*/, const Flow&) {}
};

// The arguments with other tensors in place of those that are there, in the order of each().
template <class Args>
Args with_tensors(Args args, std::span<const TensorView> on) {
  size_t i = 0;
  args.each([&](const char*, const TensorView& v, Access) {
    if (!v.absent()) const_cast<TensorView&>(v) = on[i++];  // args is this function's own
  });
  require(i == on.size(), "{}: {} tensors given for {}", Args::name, on.size(), i);
  return args;
}

}  // namespace ravine
