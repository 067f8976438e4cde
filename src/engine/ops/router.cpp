#include "engine/ops/router.h"

#include <algorithm>

namespace ravine {
namespace {

// Returns x in the type of statistics: x itself, or a copy.
Tensor widened(Ctx& c, const Tensor& x) {
  const DType wide = c.types().stat;
  if (x.dtype() == wide) return x;
  Tensor out = c.empty({x.rows(), x.cols()}, wide);
  c.call(Cast{x.view(), out.view()});
  return out;
}

// The group of each token in the sums of losses (-1: padding), and the number of groups.
struct TokenGroups {
  Tensor of;  // i32 [N]
  int64_t count = 1;
};

// Host work: tokens in no segment are padding. by_sequence: neighbouring tokens of one sequence are a group.
TokenGroups groups_of(Ctx& c, bool by_sequence) {
  const Batch& b = c.batch();
  TokenGroups g{.of = c.empty({b.tokens}, DType::i32)};
  const auto* sequence = by_sequence ? b.sequences.as<int64_t>() : nullptr;
  std::vector<int32_t> group(static_cast<size_t>(b.tokens));
  for (int64_t n = 1; sequence && n < b.tokens; ++n)
    group[static_cast<size_t>(n)] = group[static_cast<size_t>(n - 1)] + (sequence[n] != sequence[n - 1] ? 1 : 0);
  g.count = b.tokens > 0 ? group.back() + 1 : 1;
  auto* to = g.of.view().as<int32_t>();
  if (!to) return g;
  std::fill_n(to, b.tokens, -1);
  for (const Segment& s : b.segments) std::copy_n(group.begin() + s.q_begin, s.q_count, to + s.q_begin);
  return g;
}

// Host work: copies the statistics from the tensors.
RouterLoad load_of(const Routing& r, const TensorView& claims, const TensorView& slots, const TensorView& scores,
                   const TensorView& counts, const TensorView& squares) {
  RouterLoad load{.experts = r.experts, .top_k = r.top_k, .claims = {}, .scores = {}, .counts = {}, .shares = {}};
  const auto* claimed = claims.as<int32_t>();
  if (!claimed) return load;
  load.claims.assign(claimed, claimed + r.experts);
  const auto* slot = slots.as<int32_t>();
  load.taken = std::count_if(slot, slot + slots.count(), [](int32_t s) { return s >= 0; });
  load.scores.assign(scores.as<double>(), scores.as<double>() + scores.count());
  load.counts.assign(counts.as<double>(), counts.as<double>() + counts.count());
  load.squares = *squares.as<double>();
  return load;
}

// Only the first tensor rank adds the losses of routers, since tensor ranks sum the gradients of the logits.
bool adds_losses(Ctx& c) { return c.group(Axis::tensor).rank() == 0; }

// Host work: the derivatives of the balance loss by the scores. No data on the meta device.
Tensor balance_slopes(Ctx& c, const RouterLosses& losses, int64_t layer, const Shape& shape) {
  Tensor slopes = c.empty(shape, DType::f64);
  double* to = slopes.view().as<double>();
  if (!to) return slopes;
  const std::vector<double> values = losses.balance == LoadBalance::aux ? pooled_slopes(c.router_pool(), c.routers().at(layer))
                                     : losses.balance == LoadBalance::seq_aux ? grouped_slopes(c.routers(), layer)
                                                                              : global_slopes(c.routers(), layer);
  const double scale = losses.balance_coef * c.batch().micro_scale;
  std::transform(values.begin(), values.end(), to, [scale](double x) { return scale * x; });
  return slopes;
}

double z_slope(Ctx& c, const RouterLosses& losses, int64_t layer) {
  const auto load = c.routers().find(layer);
  const double tokens = load == c.routers().end() || load->second.claims.empty() ? 0 : load->second.tokens();
  return tokens > 0 ? losses.z_coef * c.batch().micro_scale / tokens : 0;
}

}  // namespace

double balance_loss(const RouterLosses& losses, const RouterLoads& loads) {
  return losses.balance == LoadBalance::aux          ? pooled_balance(pool_of(loads))
         : losses.balance == LoadBalance::seq_aux    ? grouped_balance(loads)
         : losses.balance == LoadBalance::global_aux ? global_balance(loads)
                                                     : 0;
}

double router_loss(const RouterLosses& losses, const RouterLoads& loads) {
  return losses.balance_coef * balance_loss(losses, loads) + losses.z_coef * z_loss(loads);
}

Tensor wide_linear(Ctx& c, const Tensor& x, const Param& weight) {
  const TensorView w = c.store().master(weight);
  Tensor y = c.empty({x.rows(), w.rows()}, c.types().stat);
  c.call(Matmul{.a = widened(c, x).view(), .b = w, .bias = {}, .out = y.view(), .trans_b = true});
  if (!c.recording()) return y;
  Saved saved = weight.policy.trainable ? c.save(x) : Saved();
  BackwardFn dx = [&weight, xr = x.ref(), yr = y.ref()](Ctx& c) {
    const Tensor dy = c.grads().get(yr);
    Tensor wide = c.empty(xr.shape, dy.dtype());
    c.call(Matmul{.a = dy.view(), .b = c.store().master(weight), .bias = {}, .out = wide.view()});
    if (wide.dtype() != xr.dtype) {
      Tensor narrow = c.empty(xr.shape, xr.dtype);
      c.call(Cast{wide.view(), narrow.view()});
      wide = std::move(narrow);
    }
    c.give_grad(xr, std::move(wide));
  };
  BackwardFn dw = [&weight, saved, yr = y.ref()](Ctx& c) {
    bool accumulate = false;
    const TensorView g = c.grad_store().add_to_grad(weight, accumulate);
    c.call(Matmul{.a = c.grads().get(yr).view(),
                  .b = widened(c, saved.get(c)).view(),
                  .bias = {},
                  .out = g,
                  .trans_a = true,
                  .accumulate = accumulate,
                  .tokens_reduced = true});
  };
  c.record("wide_linear", {y.ref()}, std::move(dx), weight.policy.trainable ? std::move(dw) : BackwardFn());
  return y;
}

Routes route(Ctx& c, const Tensor& logits, const Param* correction, const Routing& routing, const RouterLosses& losses,
             int64_t layer) {
  const int64_t tokens = logits.rows(), rows = routed_rows(routing, tokens);
  const bool learns = !c.batch().labels.absent();
  const TokenGroups groups = groups_of(c, learns && losses.balance == LoadBalance::seq_aux);
  const Tensor chosen = c.empty({tokens, routing.top_k}, DType::i32), claims = c.empty({routing.experts}, DType::i32);
  Routes r{.slots = c.empty({tokens, routing.top_k}, DType::i32),
           .tokens = c.empty({rows}, DType::i32),
           .offsets = c.empty({routing.experts + 1}, DType::i32),
           .weights = c.empty({rows, 1}, c.types().stat)};
  c.call(RouterChoice{.logits = logits.view(),
                      .correction = correction ? c.store().master(*correction) : TensorView{},
                      .groups = groups.of.view(),
                      .chosen = chosen.view(),
                      .slots = r.slots.view(),
                      .tokens = r.tokens.view(),
                      .weights = r.weights.view(),
                      .offsets = r.offsets.view(),
                      .claims = claims.view(),
                      .routing = routing});
  const Shape cells{groups.count, routing.experts};
  if (learns) {
    const Tensor scores = c.empty(cells, DType::f64), counts = c.empty(cells, DType::f64), squares = c.empty({1}, DType::f64);
    c.call(RouterSums{.logits = logits.view(),
                      .chosen = chosen.view(),
                      .groups = groups.of.view(),
                      .scores = scores.view(),
                      .counts = counts.view(),
                      .z = squares.view(),
                      .routing = routing});
    c.add_router(layer, load_of(routing, claims.view(), r.slots.view(), scores.view(), counts.view(), squares.view()));
  }
  if (!c.recording()) return r;
  c.record("route", {r.weights.ref()},
           [routing, losses, layer, cells, logits = c.save(logits), chosen = c.save(chosen), slots = c.save(r.slots),
            groups = c.save(groups.of), lr = logits.ref(), wr = r.weights.ref()](Ctx& c) {
             bool accumulate = false;
             const Tensor dlogits = c.grads().add_to(lr, accumulate);
             require(!accumulate, "route: its logits must be used by it only");
             const bool adds = adds_losses(c);
             const Tensor slopes = adds && losses.balances() ? balance_slopes(c, losses, layer, cells) : Tensor();
             c.call(RouterBackward{.logits = logits.get(c).view(),
                                   .chosen = chosen.get(c).view(),
                                   .slots = slots.get(c).view(),
                                   .groups = groups.get(c).view(),
                                   .dweights = c.grads().get(wr).view(),
                                   .slopes = slopes.view(),
                                   .dlogits = dlogits.view(),
                                   .z_slope = adds ? z_slope(c, losses, layer) : 0,
                                   .routing = routing});
           });
  return r;
}

}  // namespace ravine
