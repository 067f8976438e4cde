#include "model/layers/mlp.h"

#include "engine/ops/swiglu.h"
#include "engine/ops/tensor_parallel.h"

namespace ravine {

Mlp::Mlp(ParamSet& set, Unit& unit, const std::string& name, int64_t hidden, int64_t width, bool bias, double init_std, double out_init_std)
    : gate_up_(set, unit, {{name + ".gate_proj", width}, {name + ".up_proj", width}}, hidden, bias, Split::columns, init_std),
      down_(set, unit, {{name + ".down_proj", hidden}}, width, bias, Split::rows, out_init_std) {}

Tensor Mlp::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "mlp");
  return tp_exit(c, down_(c, swiglu(c, gate_up_(c, tp_enter(c, x)))));
}

}  // namespace ravine
