#include "model/layers/norm.h"

namespace ravine {

Norm::Norm(ParamSet& set, Unit& unit, const std::string& name, int64_t hidden, const NormSpec& spec)
    : spec_(spec), scope_(name.starts_with("model.layers.") ? name.substr(name.rfind('.') + 1) : name) {
  weight_ = set.add(unit, {name + ".weight", {hidden}, {}, {spec.offset == 1 ? Init::zeros : Init::ones}, false, Use::vector});
  if (spec.kind == NormSpec::layer) bias_ = set.add(unit, {name + ".bias", {hidden}, {}, {Init::zeros}, false, Use::vector});
}

Normed Norm::operator()(Ctx& c, Flow in, std::optional<DType> out) const {
  Ctx::Scope scope(c, scope_);
  if (spec_.kind == NormSpec::layer) return layer_norm(c, std::move(in), *weight_, *bias_, spec_.eps, out);
  require(!out, "norm: rms_norm gives the compute type");
  return rms_norm(c, std::move(in), *weight_, spec_.eps, spec_.offset);
}

}  // namespace ravine
