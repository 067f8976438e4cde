// A mixture of experts in place of an MLP (Shazeer et al. 2017): a router sends each token to a few of many gated MLPs and adds
// what they give, by weight; a shared MLP may see every token beside them. Tensor ranks cut the width of every expert, expert
// ranks have some of the experts each.
//
// With E experts of width F, K of them chosen for a token, R rows of experts (N K without a capacity; kernels/routing.h):
//   x [N,C] -> logits [N,E] -> rows [R,C] -> gate, up [R,2F] -> silu(gate) * up * weight [R,F] -> [R,C] -> [N,C]
// Weights multiply before the last product, so its backward needs nothing of its result.
#pragma once
#include <optional>

#include "engine/ops/router.h"
#include "model/layers/mlp.h"

namespace ravine {

struct MoeSpec {
  Routing routing;
  int64_t width = 0;  // of an expert
  double init_std = 0.02, out_init_std = 0.02;
  // The shared MLP; width 0: none. A family with n shared experts of width w says n w: they are one MLP.
  MlpSpec shared{};
  bool shared_gate = false;                   // its result times sigmoid(x g^T), g [1,C]
  const char* shared_name = "shared_expert";  // "shared_experts" in DeepSeek: <name>.<shared_name>.gate_proj ..
  RouterLosses losses{};                      // balance is never `stored`
};

class Moe {
 public:
  // Declares <name>.gate.weight [E,C], with a correction <name>.gate.e_score_correction_bias [E] (without a gradient),
  // <name>.experts.gate_proj.weight and up_proj.weight [E,F,C], down_proj.weight [E,C,F], those of the shared MLP, and
  // <name>.shared_expert_gate.weight [1,C]. layer: its number, under which sums go sideways.
  Moe(ParamSet& set, Unit& unit, const std::string& name, int64_t layer, int64_t hidden, const MoeSpec& spec);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]

 private:
  MoeSpec spec_;
  int64_t layer_;
  const Param *router_ = nullptr, *correction_ = nullptr, *shared_gate_ = nullptr;
  std::vector<Param*> up_, down_;  // gate and up [E,F,C] each; [E,C,F]
  std::optional<Mlp> shared_;
};

// What of the routing does not fit: "" or the rule, with the names of config.json's fields as the family has them.
std::string routing_fault(const Routing& r);

}  // namespace ravine
