// ParamStore of a model that only runs forward: every weight once, in the type that kernels read. No gradients, no moments.
#pragma once
#include <memory>
#include <vector>

#include "engine/ctx.h"

namespace ravine {

class InferenceStore : public ParamStore {
 public:
  // Buffers for all parameters, zero. Matrices and lookup tables are held in types.compute, vectors (norms, biases) in
  // types.master; what is written there is rounded to that. Joined parameters lie side by side. The set is kept by reference.
  InferenceStore(ParamSet& params, const Types& types, DeviceKind device);

  void acquire(const Unit&) override {}
  void release(const Unit&) override {}
  TensorView value(const Param& p) const override { return of(p); }
  TensorView master(const Param& p) const override { return of(p); }  // the same memory: there is one copy
  const std::vector<Bucket>& buckets() const override { return none_; }
  int64_t weight_bytes() const;

  // Training calls are Errors.
  void open_grads(Ctx&, const Unit&) override;
  void close_grads(Ctx&, const Unit&) override;
  TensorView add_to_grad(const Param&, bool&) override;
  bool has_grad(const Param&) const override { return false; }
  void finish_grads(Ctx&) override;
  void end_step() override {}
  TensorView flat_master(size_t) const override;
  TensorView flat_copy(size_t) const override;
  TensorView flat_grad(size_t) const override { return {}; }

 private:
  TensorView of(const Param& p) const;
  Types types_;
  std::vector<Storage> units_;   // by Unit::index
  std::vector<int64_t> places_;  // offset in bytes in the unit's storage, by Param::index
  std::vector<Bucket> none_;
};

}  // namespace ravine
