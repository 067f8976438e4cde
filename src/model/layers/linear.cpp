#include "model/layers/linear.h"

#include <cmath>

namespace ravine {

Linear::Linear(ParamSet& set, Unit& unit, const std::vector<LinearSpec>& specs, int64_t in, bool bias, Split split,
               double init_std, Join join)
    : split_(split) {
  require(specs.size() == 1 || join != Join::single, "linear: {} weights from '{}' on, joined as what?", specs.size(),
          specs[0].name);
  params_.join = join;
  std::vector<Param> weights, biases;
  for (const LinearSpec& s : specs) {
    Param w{s.name + ".weight", {s.out, in}, {}, {Init::normal, init_std}};
    if (split != Split::none) w.cuts = {{split == Split::columns ? 0 : 1, Axis::tensor, s.parts}};
    weights.push_back(w);
    Param b{s.name + ".bias", {s.out}, {}, {Init::zeros}, false, Use::vector};
    if (split == Split::columns) b.cuts = {{0, Axis::tensor, s.parts}};
    biases.push_back(b);
    scope_ += (scope_.empty() ? "" : "+") + s.name.substr(s.name.rfind('.') + 1);
  }
  params_.weights = set.add_joined(unit, std::move(weights));
  if (bias) params_.biases = set.add_joined(unit, std::move(biases));
  if (set.adapter_of) add_adapters(set, unit, specs, in);
}

Linear::Linear(ParamSet& set, Unit& unit, const std::string& name, Param weight) : scope_(name) {
  const int64_t out = weight.shape[0], in = weight.shape[1];
  params_.weights = {set.add(unit, std::move(weight))};
  if (set.adapter_of) add_adapters(set, unit, {{name, out}}, in);
}

// A: uniform with bound 1/sqrt(in), as torch's kaiming_uniform with a = sqrt(5), which PEFT uses; B: zero. Both have
// weight decay.
void Linear::add_adapters(ParamSet& set, Unit& unit, const std::vector<LinearSpec>& specs, int64_t in) {
  std::vector<Param> downs;
  LoraAdapters adapters;
  std::string module;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::optional<AdapterSpec> spec = set.adapter_of(specs[i].name);
    if (!spec) continue;
    if (module != spec->module) {
      module = spec->module;
      Param a{specs[i].name + ".lora_A.weight", {spec->rank, in}, {}, {Init::uniform, 1 / std::sqrt(static_cast<double>(in))}};
      if (split_ == Split::rows) a.cuts = {{1, Axis::tensor, specs[i].parts}};
      a.adapter = true;
      downs.push_back(a);
      adapters.scale.push_back(spec->scale), adapters.dropout.push_back(spec->dropout);
    }
    Param b{specs[i].name + ".lora_B.weight", {specs[i].out, spec->rank}, {}, {Init::zeros}};
    if (split_ == Split::columns) b.cuts = {{0, Axis::tensor, specs[i].parts}};
    b.adapter = true;
    adapters.ups.push_back({downs.size() - 1, set.add(unit, b), i});
  }
  if (downs.empty()) return;
  adapters.a = set.add_joined(unit, std::move(downs));
  params_.adapters = &set.adapters().add(*params_.weights[0], std::move(adapters));
}

Tensor Linear::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, scope_);
  return linear(c, x, params_, split_);
}

}  // namespace ravine
