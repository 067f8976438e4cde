// A mixture of experts, which replaces an MLP (Shazeer et al. 2017). A router sends each token to a few of many gated
// MLPs and adds their outputs by weight. A shared MLP may also see every token. Tensor ranks cut the width of every
// expert; expert ranks hold some of the experts each.
//
// With E experts of width F, K experts per token, R rows of experts (N K without a capacity; kernels/routing.h).
//   x [N,C] -> logits [N,E] -> rows [R,C] -> gate, up [R,2F] -> silu(gate) * up * weight [R,F] -> [R,C] -> [N,C].
// Weights are applied before the last product, so its backward pass does not need its result.
#pragma once
#include <optional>

#include "engine/ops/router.h"
#include "model/layers/mlp.h"

namespace ravine {

struct MoeSpec {
  Routing routing;
  int64_t width = 0;  // of an expert
  double init_std = 0.02, out_init_std = 0.02;
  // The MLP that every token passes, besides its experts; width 0: none. n shared experts of width w are one MLP of
  // width n w.
  MlpSpec shared{};
  bool shared_gate = false;                   // its output is multiplied by sigmoid(x g^T), g [1,C]
  const char* shared_name = "shared_expert";  // "shared_experts" in DeepSeek: <name>.<shared_name>.gate_proj ...
  RouterLosses losses{};                      // balance is never LoadBalance::stored here
};

class Moe {
 public:
  // Declares the parameters of a mixture of experts. Router: <name>.gate.weight [E,C], with a correction
  // <name>.gate.e_score_correction_bias [E] (no gradient). Then <name>.experts.gate_proj.weight and up_proj.weight
  // [E,F,C], down_proj.weight [E,C,F], the shared MLP, and <name>.shared_expert_gate.weight [1,C]. layer: its number,
  // for the router statistics.
  Moe(ParamSet& set, Unit& unit, const std::string& name, int64_t layer, int64_t hidden, const MoeSpec& spec);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]

 private:
  MoeSpec spec_;
  int64_t layer_;
  const Param *router_ = nullptr, *correction_ = nullptr, *shared_gate_ = nullptr;
  std::vector<Param*> up_, down_;  // gate and up [E,F,C] each; [E,C,F]
  std::optional<Mlp> shared_;
};

// Checks the settings of a routing. Returns the fault as a text with the names of the fields in config.json; "" if
// there is none.
std::string routing_fault(const Routing& r);

}  // namespace ravine
