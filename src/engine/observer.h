// Observers see every kernel call. Profile, NaN watch, fault injection, work counts, result checksums (probe/) and the
// hidden states of a trace are observers.
//
// An observer allocates its memory on the heap. The arena of a step is planned, and has no room for other allocations.
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
  int64_t micro = 0;  // index of the micro batch in the step, over all data ranks, from 0; 0 in an update
  Phase phase = Phase::forward;
  Role role = Role::forward;
  std::string_view path;  // "model.layers.3.self_attn"
  const char* op = "";    // "matmul"
  int64_t ordinal = 0;    // number of calls of this op at this path before this call, in this micro batch and phase.
  std::span<const NamedView> tensors;
  std::span<const CallSetting> settings;  // numbers of the op's formula (kernels.h)
  double flops = 0;
  // Bytes of memory that the kernel call reads and writes. Of a lookup table only the rows that are read are counted.
  double bytes = 0;

  // Returns the parameters whose values or gradients are tensors of this call, in order. One tensor is of several
  // parameters if they are joined in memory (q/k/v, gate/up).
  std::vector<const Param*> parameters() const;
  // Runs this kernel call again with the kernel of `kernels` on other tensors: as many as in `tensors`, in this order,
  // with equal shapes. A result that is not a tensor (a sum of squares) is discarded. Scratch memory is on the heap.
  void rerun(const Kernels& kernels, std::span<const TensorView> on) const { rerun_(args_, kernels, on); }

  // Members that Ctx sets, and observers do not use directly.
  const WeightSource* store = nullptr;
  const void* args_ = nullptr;
  void (*rerun_)(const void* args, const Kernels& kernels, std::span<const TensorView> on) = nullptr;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const CallInfo&) {}
  virtual void after(const CallInfo&) {}  // may change the results (fault injection)
  // Called after the forward pass of each block with its output; hidden state = x + branch.
  virtual void flow(Ctx&, std::string_view /*path*/, const Flow&) {}
};

// Returns the arguments of a kernel call with their tensors replaced by `on`, in the order of each().
template <class Args>
Args with_tensors(Args args, std::span<const TensorView> on) {
  size_t i = 0;
  args.each([&](const char*, const TensorView& v, Access) {
    if (!v.absent()) const_cast<TensorView&>(v) = on[i++];  // args is a copy
  });
  require(i == on.size(), "{}: {} tensors given for {}", Args::name, on.size(), i);
  return args;
}

}  // namespace ravine
