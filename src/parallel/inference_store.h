// Weights for inference: every weight once, in the type that kernels read, without gradients or optimizer states. A
// rank holds the weights of its pipeline stage, cut over tensor ranks. Data ranks hold the same weights.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "comm/ranks.h"
#include "engine/ctx.h"

namespace ravine {

// The weights of a model that runs forward only: one copy of each, in the type that kernels read.
class InferenceStore : public WeightSource {
 public:
  // Allocates buffers for the parameters of this rank. Matrices and lookup tables have types.compute; vectors (norms,
  // biases) and wide matrices have types.master. Frozen parameters that are kept in bf16 have bf16. No parameter may be
  // packed. Values are rounded to the type when they are written. Joined parameters are contiguous. The set is kept by
  // reference. stages: the pipeline stage of each unit, by Unit::index; empty: all units are here. A stage that uses a
  // tied parameter of another stage also holds it. wanted: parameters for which it is false are left out; null: all
  // parameters are stored.
  InferenceStore(ParamSet& params, const Types& types, DeviceKind device, const Ranks& ranks = {},
                 const std::vector<int>& stages = {}, const std::function<bool(const Param&)>& wanted = {});

  void acquire(const Unit&) override {}
  void release(const Unit&) override {}
  TensorView value(const Param& p) const override { return of(p); }
  TensorView master(const Param& p) const override { return of(p); }  // the same memory as value(): there is one copy
  Shape shape(const Param& p) const override { return of(p).shape; }
  std::vector<ParamBox> boxes() const override;
  std::vector<const Param*> params_in(const TensorView& view) const override;
  int64_t weight_bytes() const;

 private:
  struct Location {
    bool here = false;  // on this stage
    size_t unit = 0;    // unit whose storage holds it
    int64_t byte = 0;   // offset in the storage
    Shape shape;        // local
  };
  TensorView of(const Param& p) const;
  ParamSet& params_;
  Types types_;
  int tensor_rank_, tensor_size_;
  std::vector<Storage> units_;       // by Unit::index
  std::vector<Location> locations_;  // by Param::index
};

}  // namespace ravine
