// The gated MLP of Llama: down(silu(gate x) * (up x)).
#pragma once
#include "model/layers/linear.h"

namespace ravine {

class Mlp {
 public:
  Mlp(ParamSet& set, Unit& unit, const std::string& name, int64_t hidden, int64_t width, bool bias, double init_std, double out_init_std);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // [N,C] -> [N,C]

 private:
  Linear gate_up_, down_;
};

}  // namespace ravine
