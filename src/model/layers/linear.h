// Seam S6: a linear layer over one or several joined weights, with its adapters.
#pragma once
#include <string>
#include <vector>

#include "engine/ops/linear.h"

namespace ravine {

struct LinearSpec {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t out = 0;
  // The largest number of tensor ranks over which the outputs can be cut (key/value heads); 0: no limit.
  int parts = 0;
};

class Linear {
 public:
  Linear() = default;
  // Declares the weights of a linear layer: <name>.weight (and .bias) for each spec, side by side, so that one product
  // computes them all. `join` names the kind of several weights. If set.adapter_of returns an adapter: also
  // <name>.lora_A.weight [rank, in] and <name>.lora_B.weight [out, rank], and an entry in set.adapters(). With
  // Split::rows the results of tensor ranks are summed. Each rank holds the bias; the first rank adds it. With
  // Split::none every rank holds the whole weight, for its rows of the residual stream.
  Linear(ParamSet& set, Unit& unit, const std::vector<LinearSpec>& specs, int64_t in, bool bias, Split split, double init_std,
         Join join = Join::single);
  // Declares the product of the head: one `weight` [out, in] of the module `name`. The caller sets tied, use, and cuts
  // over outputs.
  Linear(ParamSet& set, Unit& unit, const std::string& name, Param weight);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N, in] -> [N, sum of outs]
  const LinearParams& params() const { return params_; }

 private:
  void add_adapters(ParamSet& set, Unit& unit, const std::vector<LinearSpec>& specs, int64_t in);

  LinearParams params_;
  Split split_ = Split::columns;
  std::string scope_;
};

}  // namespace ravine
