// Seam S6: a linear layer over one or several joined weights. Adapters sit here.
#pragma once
#include <string>
#include <vector>

#include "engine/ops/linear.h"

namespace ravine {

struct LinearSpec {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t out = 0;
  int parts = 0;  // that it can be cut into at most (key/value heads); 0: any number
};

class Linear {
 public:
  Linear() = default;
  // Declares <name>.weight (and .bias) for each spec, side by side (`join` says which these are, of several): one product
  // computes them all. Split by rows, the results of tensor ranks are summed: the bias, which each of them holds, comes from the
  // first. With Split::none every rank has all of it, for the rows of the residual stream that are there. What set.adapter_of
  // says has an adapter gets <name>.lora_A.weight [rank, in] and <name>.lora_B.weight [out, rank], and set.adapters hears of it.
  Linear(ParamSet& set, Unit& unit, const std::vector<LinearSpec>& specs, int64_t in, bool bias, Split split, double init_std,
         Join join = Join::single);
  // The one `weight` [out, in], declared as the caller says (tied, use, cuts over outputs), of the module `name`: what the head
  // multiplies by.
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
