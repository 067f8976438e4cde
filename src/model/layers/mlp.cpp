#include "model/layers/mlp.h"

#include "engine/ops/geglu.h"
#include "engine/ops/swiglu.h"
#include "engine/ops/tensor_parallel.h"

namespace ravine {
namespace {

std::vector<LinearSpec> inputs(const std::string& name, const MlpSpec& s) {
  if (gated(s.act)) return {{name + ".gate_proj", s.width}, {name + ".up_proj", s.width}};
  return {{name + ".up_proj", s.width}};
}

}  // namespace

Act read_gelu(ConfigReader& r, const std::string& key, const std::string& fallback) {
  std::string act = r.text(key, fallback);
  if (act == "gelu") return Act::gelu;
  if (act != "gelu_new" && act != "gelu_fast" && act != "gelu_pytorch_tanh")
    r.refuse(key, "it must be gelu, gelu_new, gelu_fast or gelu_pytorch_tanh", "use a model with one of these");
  return Act::gelu_tanh;
}

Mlp::Mlp(ParamSet& set, Unit& unit, const std::string& name, int64_t hidden, const MlpSpec& s)
    : act_(s.act),
      up_(set, unit, inputs(name, s), hidden, s.bias, Split::columns, s.init_std, gated(s.act) ? Join::gate_up : Join::single),
      down_(set, unit, {{name + ".down_proj", hidden}}, s.width, s.bias, Split::rows, s.out_init_std) {}

Tensor Mlp::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "mlp");
  return tp_exit(c, part(c, tp_enter(c, x)));
}

Tensor Mlp::part(Ctx& c, Tensor x) const {
  Tensor up = up_(c, x);
  x = Tensor();
  Tensor inner = act_ == Act::swiglu       ? swiglu(c, up)
                 : act_ == Act::geglu_tanh ? geglu(c, up)
                                           : gelu(c, up, act_ == Act::gelu ? GeluForm::exact : GeluForm::tanh);
  up = Tensor();
  return down_(c, inner);
}

}  // namespace ravine
