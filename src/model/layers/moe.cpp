#include "model/layers/moe.h"

#include "engine/ops/add.h"
#include "engine/ops/expert_ranks.h"
#include "engine/ops/experts.h"
#include "engine/ops/swiglu.h"
#include "engine/ops/tensor_parallel.h"

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
    p->policy.trainable = false;
    p->policy.updated_by_rule = spec_.losses.balance == LoadBalance::bias;
    correction_ = p;
  }
  // wide: the dim that is the width of an expert.
  auto stack = [&](const char* part, int64_t out, int64_t in, int wide, double std) {
    return set.add(unit, {.name = fmt::format("{}.experts.{}.weight", name, part),
                          .shape = {r.experts, out, in},
                          .cuts = {{0, Axis::expert}, {wide, Axis::tensor}},
                          .init = {Init::normal, std},
                          .active = active,
                          .group = Axis::expert_data});
  };
  up_ = {stack("gate_proj", spec_.width, hidden, 1, spec_.init_std), stack("up_proj", spec_.width, hidden, 1, spec_.init_std)};
  down_ = {stack("down_proj", hidden, spec_.width, 2, spec_.out_init_std)};
  if (spec_.shared.width > 0) shared_.emplace(set, unit, name + "." + spec_.shared_name, hidden, spec_.shared);
  if (spec_.shared_gate)
    shared_gate_ = set.add(unit, {.name = name + ".shared_expert_gate.weight",
                                  .shape = {1, hidden},
                                  .init = {Init::normal, spec_.init_std},
                                  .use = Use::wide_matrix});
}

// The outputs of the router and of the gate are equal on all tensor ranks, so both products come before tp_enter(x).
// After tp_enter each rank has a part of every expert, and gradients of x are parts of a sum.
Tensor Moe::operator()(Ctx& c, const Tensor& x) const {
  Ctx::Scope scope(c, "mlp");
  const Tensor logits = tp_enter(c, wide_linear(c, x, *router_));
  const Routes routes = route(c, logits, correction_, spec_.routing, spec_.losses, layer_);
  const Tensor gate = shared_gate_ ? tp_enter(c, wide_linear(c, x, *shared_gate_)) : Tensor();
  Tensor all = tp_enter(c, x);
  const ExpertRanks ranks(c, routes, spec_.routing);
  Tensor rows = ranks.to_owners(c, to_experts(c, all, routes));
  if (!shared_) all = Tensor();
  Tensor inner = experts_linear(c, rows, up_, ranks.here());
  rows = Tensor();
  inner = swiglu(c, inner);
  inner = weighted_rows(c, inner, ranks.here());  // the next product is linear, so weights may be applied first
  rows = experts_linear(c, inner, down_, ranks.here());
  inner = Tensor();
  Tensor out = from_experts(c, ranks.from_owners(c, std::move(rows)), routes);
  rows = Tensor();
  if (!shared_) return tp_exit(c, std::move(out));
  Tensor shared_out;
  {
    Ctx::Scope shared(c, "mlp");
    shared_out = shared_->part(c, std::move(all));
  }
  return tp_exit(c, shared_gate_ ? gated_sum(c, std::move(out), shared_out, gate) : add(c, std::move(out), shared_out));
}

}  // namespace ravine
