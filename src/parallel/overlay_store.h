// Weights of a model that shares its base with another model in memory: adapters and fully trained modules. Parameters
// that differ from the base are stored here; all others are read from the store of the base.
#pragma once
#include <memory>
#include <vector>

#include "parallel/inference_store.h"

namespace ravine {

// The weights of a model that shares most of its weights with a base in memory. Values that differ are stored here; all
// others are read from the WeightSource of the base.
class OverlayStore : public WeightSource {
 public:
  // Allocates the values that differ from the base, filled with zero, as InferenceStore stores them. Such values are
  // the trainable parameters, parameters that the base lacks or has in another shape, and all parameters joined with
  // these parameters. `params`: parameters of this model. `base_params`, `base`: parameters and weights of the base, on
  // the same ranks and stages. Both sets and `base` are kept by reference, and must outlive this. The units of both
  // models must be the same.
  OverlayStore(ParamSet& params, ParamSet& base_params, WeightSource& base, const Types& types, DeviceKind device,
               const Ranks& ranks, const std::vector<int>& stages);

  void prefetch(const Unit& unit) override { base_.prefetch(*units_[unit.index]); }
  void acquire(const Unit& unit) override { base_.acquire(*units_[unit.index]); }
  void release(const Unit& unit) override { base_.release(*units_[unit.index]); }
  TensorView value(const Param& p) const override { return owns(p) ? own_->value(p) : base_.value(of_base(p)); }
  TensorView master(const Param& p) const override { return owns(p) ? own_->master(p) : base_.master(of_base(p)); }
  Nf4View blocks(const Param& p) const override { return owns(p) ? own_->blocks(p) : base_.blocks(of_base(p)); }
  Shape shape(const Param& p) const override { return owns(p) ? own_->shape(p) : base_.shape(of_base(p)); }
  std::vector<ParamBox> boxes() const override { return own_->boxes(); }  // without the boxes of the base
  std::vector<const Param*> params_in(const TensorView& view) const override;
  void progress() override { base_.progress(); }

  // True if the value of the parameter is stored here; false if it is read from the base. For a tied parameter: if the
  // value of its owner is stored here.
  bool owns(const Param& p) const { return at_base_[(p.tied ? p.tied : &p)->index] == nullptr; }
  int64_t weight_bytes() const { return own_->weight_bytes(); }  // of the values stored here
  size_t owned() const;                                          // number of parameters stored here

 private:
  const Param& of_base(const Param& p) const { return *at_base_[(p.tied ? p.tied : &p)->index]; }

  const ParamSet& params_;
  WeightSource& base_;
  std::vector<const Unit*> units_;     // units of the base, by Unit::index
  std::vector<const Param*> at_base_;  // parameters of the base, by Param::index; null: the value is stored here
  std::unique_ptr<InferenceStore> own_;
};

}  // namespace ravine
