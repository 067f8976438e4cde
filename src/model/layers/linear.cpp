#include "model/layers/linear.h"

namespace ravine {

Linear::Linear(ParamSet& set, Unit& unit, const std::vector<LinearSpec>& specs, int64_t in, bool bias, Split split,
               double init_std)
    : split_(split) {
  std::vector<Param> weights, biases;
  for (const LinearSpec& s : specs) {
    Param w{
        s.name + ".weight", {s.out, in}, {{split == Split::columns ? 0 : 1, Axis::tensor, s.parts}}, {Init::normal, init_std}};
    weights.push_back(w);
    Param b{s.name + ".bias", {s.out}, {}, {Init::zeros}, false, Use::vector};
    if (split == Split::columns) b.cuts = {{0, Axis::tensor, s.parts}};
    biases.push_back(b);
    scope_ += (scope_.empty() ? "" : "+") + s.name.substr(s.name.rfind('.') + 1);
  }
  weights_ = set.add_joined(unit, std::move(weights));
  if (bias) biases_ = set.add_joined(unit, std::move(biases));
}

Tensor Linear::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, scope_);
  return linear(c, x, weights_, biases_, split_ == Split::rows);
}

}  // namespace ravine
