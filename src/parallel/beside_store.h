// Weights of a model that differs from another one, whose weights are in memory, by what stands beside them: adapters, and
// modules that were trained whole. What differs lies here, everything else is read where the other has it.
#pragma once
#include <memory>
#include <vector>

#include "parallel/inference_store.h"

namespace ravine {

class BesideStore : public WeightSource {
 public:
  // `params`: of the model that differs; `base_params` and `base`: of the other, on the same ranks and stages. Its own are
  // those that are trained beside the base, those that the base lacks or has in another shape, and what is joined with such.
  // Sets and base are kept by reference. Units must be those of the base. Own values begin at zero, as an InferenceStore has
  // them.
  BesideStore(ParamSet& params, ParamSet& base_params, WeightSource& base, const Types& types, DeviceKind device,
              const Ranks& ranks, const std::vector<int>& stages);

  void prefetch(const Unit& unit) override { base_.prefetch(*units_[unit.index]); }
  void acquire(const Unit& unit) override { base_.acquire(*units_[unit.index]); }
  void release(const Unit& unit) override { base_.release(*units_[unit.index]); }
  TensorView value(const Param& p) const override { return owns(p) ? own_->value(p) : base_.value(of_base(p)); }
  TensorView master(const Param& p) const override { return owns(p) ? own_->master(p) : base_.master(of_base(p)); }
  Nf4View blocks(const Param& p) const override { return owns(p) ? own_->blocks(p) : base_.blocks(of_base(p)); }
  Shape shape(const Param& p) const override { return owns(p) ? own_->shape(p) : base_.shape(of_base(p)); }
  std::vector<ParamBox> boxes() const override { return own_->boxes(); }  // of its own
  std::vector<const Param*> params_in(const TensorView& view) const override;
  void progress() override { base_.progress(); }

  // Whether the value lies here; of a tied parameter, that of the one it is tied to.
  bool owns(const Param& p) const { return at_base_[(p.tied ? p.tied : &p)->index] == nullptr; }
  int64_t weight_bytes() const { return own_->weight_bytes(); }  // of its own
  size_t owned() const;                                          // parameters whose values lie here

 private:
  const Param& of_base(const Param& p) const { return *at_base_[(p.tied ? p.tied : &p)->index]; }

  const ParamSet& params_;
  WeightSource& base_;
  std::vector<const Unit*> units_;     // of the base, by Unit::index
  std::vector<const Param*> at_base_;  // by Param::index; null: it lies here
  std::unique_ptr<InferenceStore> own_;
};

}  // namespace ravine
