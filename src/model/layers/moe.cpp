#include "model/layers/moe.h"

#include "engine/ops/add.h"
#include "engine/ops/experts.h"
#include "engine/ops/swiglu.h"

namespace ravine {

std::string routing_fault(const Routing& r) {
  if (r.top_k > r.experts) return fmt::format("{} experts per token, and there are {}", r.top_k, r.experts);
  if (r.groups < 1 || r.experts % r.groups != 0) return fmt::format("{} groups do not divide {} experts", r.groups, r.experts);
  if (r.kept_groups < 1 || r.kept_groups > r.groups) return fmt::format("{} of {} groups are kept", r.kept_groups, r.groups);
  if (r.groups > 1 && r.experts / r.groups * r.kept_groups < r.top_k)
    return fmt::format("{} groups of {} experts hold fewer than the {} that a token is sent to", r.kept_groups,
                       r.experts / r.groups, r.top_k);
  return "";
}

Moe::Moe(ParamSet& set, Unit& unit, const std::string& name, int64_t layer, int64_t hidden, const MoeSpec& spec)
    : spec_(spec), layer_(layer) {
  const Routing& r = spec_.routing;
  require(routing_fault(r).empty(), "{}: {}", name, routing_fault(r));
  const double active = static_cast<double>(r.top_k) / static_cast<double>(r.experts);
  router_ = set.add(unit, {.name = name + ".gate.weight",
                           .shape = {r.experts, hidden},
                           .init = {Init::normal, spec_.init_std},
                           .use = Use::wide_matrix});
  if (r.correction) {
    Param* p = set.add(unit, {.name = name + ".gate.e_score_correction_bias",
                              .shape = {r.experts},
                              .init = {Init::zeros},
                              .decay = false,
                              .use = Use::vector});
    p->trainable = false;
    correction_ = p;
  }
  auto stack = [&](const char* part, int64_t out, int64_t in, double std) {
    return set.add(unit, {.name = fmt::format("{}.experts.{}.weight", name, part),
                          .shape = {r.experts, out, in},
                          .init = {Init::normal, std},
                          .active = active});
  };
  up_ = {stack("gate_proj", spec_.width, hidden, spec_.init_std), stack("up_proj", spec_.width, hidden, spec_.init_std)};
  down_ = {stack("down_proj", hidden, spec_.width, spec_.out_init_std)};
  if (spec_.shared.width > 0) shared_.emplace(set, unit, name + "." + spec_.shared_name, hidden, spec_.shared);
  if (spec_.shared_gate)
    shared_gate_ = set.add(unit, {.name = name + ".shared_expert_gate.weight",
                                  .shape = {1, hidden},
                                  .init = {Init::normal, spec_.init_std},
                                  .use = Use::wide_matrix});
}

Tensor Moe::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "mlp");
  const Routes routes = route(c, wide_linear(c, x, *router_), correction_, spec_.routing, spec_.losses, layer_);
  Tensor rows = to_experts(c, x, routes);
  Tensor inner = experts_linear(c, rows, up_, routes);
  rows = Tensor();
  inner = swiglu(c, inner);
  inner = weighted_rows(c, inner, routes);  // the product behind it is linear: weights may come first
  rows = experts_linear(c, inner, down_, routes);
  inner = Tensor();
  Tensor out = from_experts(c, rows, routes);
  rows = Tensor();
  if (!shared_) return out;
  const Tensor beside = (*shared_)(c, x);
  return shared_gate_ ? gated_sum(c, std::move(out), beside, wide_linear(c, x, *shared_gate_)) : add(c, std::move(out), beside);
}

}  // namespace ravine
