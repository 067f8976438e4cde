// ParamStore that keeps every parameter, and its moments and gradients, in the memory of this rank.
#pragma once
#include <memory>

#include "engine/ctx.h"

namespace ravine {

class ResidentStore : public ParamStore {
 public:
  // Buffers for all parameters, uninitialised. 16-bit compute keeps a copy of what products read. The set is kept by reference.
  ResidentStore(ParamSet& params, const Types& types, DeviceKind device);

  void acquire(const Unit&) override {}
  void release(const Unit&) override {}
  TensorView value(const Param& p) const override;
  TensorView master(const Param& p) const override;
  void open_grads(Ctx& c, const Unit& unit) override;
  void close_grads(Ctx&, const Unit&) override {}
  TensorView add_to_grad(const Param& p, bool& accumulate) override;
  bool has_grad(const Param& p) const override;
  void finish_grads(Ctx& c) override;
  void end_step() override;
  const std::vector<Bucket>& buckets() const override { return buckets_; }
  TensorView flat_master(size_t bucket) const override;
  TensorView flat_copy(size_t bucket) const override;
  TensorView flat_grad(size_t bucket) const override;

  // The accumulated gradient of a parameter after finish_grads.
  TensorView grad(const Param& p) const;
  // After the masters were written by hand (init, load): makes the 16-bit copies again.
  void refresh_copies(Ctx& c);
  int64_t weight_bytes() const;  // masters and copies

 private:
  struct Place {
    size_t bucket = 0;
    int64_t begin = 0;
    bool written = false;  // gradient, this step
  };
  const Place& place(const Param& p) const { return places_[(p.tied ? p.tied : &p)->index]; }

  ParamSet& params_;
  Types types_;
  DeviceKind device_;
  std::vector<Bucket> buckets_;
  std::vector<Storage> masters_, copies_;
  std::vector<Tensor> grads_;                    // per bucket, open during a step
  std::vector<Place> places_;                    // per parameter
  std::map<const Param*, Tensor> tied_grads_;    // per tied place of use
};

// Draws every parameter as declared: element i of a normal one from Philox keyed by (seed, name) at counter i.
void initialise(const ParamSet& params, ParamStore& store, uint64_t seed);

}  // namespace ravine
