// Values and gradients of trained parameters in the same flat buckets, as the optimizer reads them. On one rank, the
// rank owns all elements.
#pragma once
#include "parallel/flat_grads.h"
#include "parallel/flat_weights.h"

namespace ravine {

class FlatStore : public FlatWeights, public FlatGrads {
 public:
  // Allocates flat buffers for values and gradients of the parameters of this rank's pipeline stage, filled with zero.
  // The set is kept by reference.
  FlatStore(ParamSet& params, const Types& types, DeviceKind device, const FlatLayout& layout = {})
      : FlatStore(std::make_shared<const FlatTable>(params, types, layout), device) {}

  TensorView owned_master(size_t bucket) const override { return master_range(bucket, buckets()[bucket].owned); }
  TensorView owned_copy(size_t bucket) const override { return copy_range(bucket, buckets()[bucket].owned); }
  void publish(Ctx&, size_t bucket) override;
  void end_step() override;
  void progress() override;
  std::vector<const Param*> params_in(const TensorView& view) const override;

 private:
  FlatStore(const std::shared_ptr<const FlatTable>& table, DeviceKind device) : FlatWeights(table, device), FlatGrads(table) {}
};

}  // namespace ravine
