// A mixture of experts in place of an MLP: a router sends each token to a few of many gated MLPs and adds what they give, by
// weight; a shared MLP may see every token beside them.
#pragma once
#include "kernels/routing.h"
#include "model/layers/linear.h"
#include "model/layers/mlp.h"

namespace ravine {

struct MoeSpec {
  Routing routing;
  int64_t width = 0;  // of an expert
  double init_std = 0.02, out_init_std = 0.02;
  // The shared MLP; width 0: none. A family with n shared experts of width w says n w: they are one MLP.
  MlpSpec shared{};
  bool shared_gate = false;                        // its result times sigmoid(x g^T), g [1, C]
  const char* shared_name = "shared_expert";       // "shared_experts" in DeepSeek: <name>.<shared_name>.gate_proj ..
  LoadBalance balance = LoadBalance::none;         // never `stored`
  double balance_coef = 0;                         // of the auxiliary loss
  double z_coef = 0;                               // of mean(logsumexp(z)^2)
  double bias_rate = 0;                            // balance bias: what a step adds to or takes from the correction of an expert
};

class Moe {
 public:
  // Declares <name>.gate.weight [E,C], with a correction <name>.gate.e_score_correction_bias [E] (not trained),
  // <name>.experts.gate_proj.weight and up_proj.weight [E,I,C], down_proj.weight [E,C,I], those of the shared MLP, and
  // <name>.shared_expert_gate.weight [1,C].
  Moe(ParamSet& set, Unit& unit, const std::string& name, int64_t layer, int64_t hidden, const MoeSpec& spec);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // [N,C] -> [N,C]
};

}  // namespace ravine
