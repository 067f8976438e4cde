// Weights of a base merged with its adapters, W + scale B A, unit by unit: for export.
#pragma once
#include <map>

#include "engine/param_store.h"
#include "model/adapters.h"

namespace ravine {

class MergedWeights : public WeightSource {
 public:
  // `source`: weights of a model with adapters; it must have whole f32 or f64 masters of the adapters and of the
  // adapted weights. `source` and `model` must outlive this object.
  MergedWeights(WeightSource& source, const Model& model, const LoraSettings& lora);
  void acquire(const Unit& unit) override;
  void release(const Unit& unit) override { source_.release(unit); }
  TensorView value(const Param& p) const override { return master(p); }
  TensorView master(const Param& p) const override;
  std::vector<ParamBox> boxes() const override { return source_.boxes(); }

 private:
  WeightSource& source_;
  const Model& model_;
  std::map<std::string, AdapterSpec> specs_;
  const Unit* open_ = nullptr;
  std::map<const Param*, std::vector<double>> sums_;  // of the open unit, by weight: the merged values
};

}  // namespace ravine
