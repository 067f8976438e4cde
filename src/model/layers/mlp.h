// The MLP of a layer: gated by silu, down(silu(gate x) * (up x)), as in Llama; gated by tanh GELU; or down(gelu(up x)).
// With width F (F/P on each of P tensor ranks): x [N,C] -> gate, up [N,2F] -> [N,F] -> [N,C]; without a gate [N,C] ->
// [N,F] -> [N,C].
#pragma once
#include "engine/ops/gelu.h"
#include "model/config_reader.h"
#include "model/layers/linear.h"

namespace ravine {

enum class Act : uint8_t { swiglu, geglu_tanh, gelu, gelu_tanh };
inline bool gated(Act act) { return act == Act::swiglu || act == Act::geglu_tanh; }

struct MlpSpec {
  int64_t width = 0;
  Act act = Act::swiglu;
  bool bias = false;
  double init_std = 0.02, out_init_std = 0.02;
};

// Reads the activation of an MLP without a gate from the field `key`: "gelu" is exact; "gelu_new", "gelu_fast" and
// "gelu_pytorch_tanh" are the tanh form. `fallback`: the value if the field is absent.
Act read_gelu(ConfigReader& r, const std::string& key, const std::string& fallback);

class Mlp {
 public:
  // Declares the parameters of an MLP: <name>.gate_proj (gated only), <name>.up_proj, <name>.down_proj.
  Mlp(ParamSet& set, Unit& unit, const std::string& name, int64_t hidden, const MlpSpec& spec);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // x [N,C] -> [N,C]
  // Runs the MLP without its collectives: x [N,C] -> [N,C], this tensor rank's addend of the output. The caller calls
  // tp_enter before and tp_exit after.
  Tensor part(Ctx& c, Tensor x) const;

 private:
  Act act_;
  Linear up_, down_;  // [N,C] -> [N,2F] (gated) or [N,F]; [N,F] -> [N,C]
};

}  // namespace ravine
