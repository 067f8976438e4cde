// Weights of a model that only runs forward: every weight once, in the type that kernels read. No gradients, no moments. Of
// several ranks each holds what its pipeline stage runs, cut over tensor ranks; data ranks hold the same.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "comm/ranks.h"
#include "engine/ctx.h"

namespace ravine {

class InferenceStore : public WeightSource {
 public:
  // Buffers for the parameters, zero. Matrices and lookup tables are held in types.compute, vectors (norms, biases) in
  // types.master, frozen ones that are kept in bf16 in that; none may be kept in blocks. What is written there is rounded to that. Joined parameters lie side by side. The set is kept by reference.
  // stages: the pipeline stage of each unit, by Unit::index; empty: all are here. A stage that uses a tied parameter of another
  // holds it too. wanted: parameters that it does not want are not here; null: all are wanted.
  InferenceStore(ParamSet& params, const Types& types, DeviceKind device, const Ranks& ranks = {},
                 const std::vector<int>& stages = {}, const std::function<bool(const Param&)>& wanted = {});

  void acquire(const Unit&) override {}
  void release(const Unit&) override {}
  TensorView value(const Param& p) const override { return of(p); }
  TensorView master(const Param& p) const override { return of(p); }  // the same memory: there is one copy
  Shape shape(const Param& p) const override { return of(p).shape; }
  std::vector<ParamBox> boxes() const override;
  std::vector<const Param*> params_in(const TensorView& view) const override;
  int64_t weight_bytes() const;

 private:
  struct Location {
    bool here = false;  // on this stage
    size_t unit = 0;    // in whose storage
    int64_t byte = 0;   // where it begins there
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
