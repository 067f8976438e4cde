#include "engine/ops/experts.h"

#include "engine/ops/add.h"

namespace ravine {
namespace {

// Calls f(weight, first column of y, columns) for each weight.
template <class F>
void each_weight(Ctx& c, std::span<Param* const> weights, F&& f) {
  int64_t begin = 0;
  for (Param* p : weights) {
    const int64_t out = c.store().shape(*p)[1];
    f(*p, begin, out);
    begin += out;
  }
}

// Calls f(source, first row, rows, offsets of its experts) for each rank that rows came from.
template <class F>
void each_source(const TensorView& offsets, const std::vector<int64_t>& sources, int64_t rows, F&& f) {
  if (sources.empty()) return f(0, int64_t{0}, rows, offsets);
  int64_t begin = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    TensorView of = offsets.row_range(static_cast<int64_t>(s), 1);
    of.shape = {of.cols()};
    f(static_cast<int>(s), begin, sources[s], of);
    begin += sources[s];
  }
}

// A path of its own, since the backward pass runs the same kernels when it computes these rows again.
Tensor rows_of_tokens(Ctx& c, const Tensor& x, const Tensor& tokens) {
  Ctx::Scope scope(c, "to_experts");
  Tensor out = c.empty({tokens.view().count(), x.cols()}, x.dtype());
  c.call(GatherRows{.x = x.view(), .tokens = tokens.view(), .out = out.view()});
  return out;
}

}  // namespace

Tensor to_experts(Ctx& c, const Tensor& x, const Routes& routes) {
  Tensor out = rows_of_tokens(c, x, routes.tokens);
  if (!c.recording()) return out;
  out.set_rebuild(
      [saved = c.save(x), tokens = c.save(routes.tokens)](Ctx& c) { return rows_of_tokens(c, saved.get(c), tokens.get(c)); });
  c.record("to_experts", {out.ref()}, [slots = c.save(routes.slots), xr = x.ref(), outr = out.ref()](Ctx& c) {
    bool accumulate = false;
    const Tensor dx = c.grads().add_to(xr, accumulate);
    c.call(
        CombineRows{.y = c.grads().get(outr).view(), .slots = slots.get(c).view(), .out = dx.view(), .accumulate = accumulate});
  });
  return out;
}

Tensor from_experts(Ctx& c, const Tensor& y, const Routes& routes) {
  Tensor out = c.empty({routes.slots.rows(), y.cols()}, c.types().compute);
  c.call(CombineRows{.y = y.view(), .slots = routes.slots.view(), .out = out.view()});
  if (!c.recording()) return out;
  c.record("from_experts", {out.ref()}, [tokens = c.save(routes.tokens), yr = y.ref(), outr = out.ref()](Ctx& c) {
    bool accumulate = false;
    const Tensor dy = c.grads().add_to(yr, accumulate);
    require(!accumulate, "from_experts: its rows must be used by it only");
    c.call(GatherRows{.x = c.grads().get(outr).view(), .tokens = tokens.get(c).view(), .out = dy.view()});
  });
  return out;
}

Tensor experts_linear(Ctx& c, const Tensor& x, std::span<Param* const> weights, const Routes& routes) {
  int64_t outs = 0;
  bool trains = false;
  each_weight(c, weights, [&](Param& p, int64_t, int64_t out) { outs += out, trains = trains || p.policy.trainable; });
  Tensor y = c.empty({x.rows(), outs}, c.types().compute);
  each_weight(c, weights, [&](Param& p, int64_t begin, int64_t out) {
    each_source(routes.offsets.view(), routes.sources, x.rows(), [&](int, int64_t row, int64_t rows, const TensorView& of) {
      c.call(GroupedMatmul{.a = x.view().row_range(row, rows),
                           .b = c.store().value(p),
                           .offsets = of,
                           .out = y.view().columns(begin, out).row_range(row, rows),
                           .trans_b = true,
                           .most_rows = routes.most_of_source});
    });
  });
  if (!c.recording()) return y;
  const Saved offsets = c.save(routes.offsets), saved = trains ? c.save(x) : Saved();
  const std::vector<int64_t>& sources = routes.sources;
  const int64_t most = routes.most_of_source;
  BackwardFn dx = [weights, offsets, sources, most, xr = x.ref(), yr = y.ref()](Ctx& c) {
    const Tensor dy = c.grads().get(yr), of = offsets.get(c);
    Tensor dx = c.empty(xr.shape, weights.size() > 1 ? c.types().stat : xr.dtype);
    each_weight(c, weights, [&](Param& p, int64_t begin, int64_t out) {
      each_source(of.view(), sources, dy.rows(), [&](int, int64_t row, int64_t rows, const TensorView& of) {
        c.call(GroupedMatmul{.a = dy.view().columns(begin, out).row_range(row, rows),
                             .b = c.store().value(p),
                             .offsets = of,
                             .out = dx.view().row_range(row, rows),
                             .accumulate = begin > 0,
                             .most_rows = most});
      });
    });
    require(!c.grads().has(xr), "experts_linear: its rows must be used by it only");
    c.grads().put(xr, std::move(dx));
  };
  BackwardFn dw = [weights, offsets, sources, most, saved, yr = y.ref()](Ctx& c) {
    const Tensor dy = c.grads().get(yr), of = offsets.get(c), x = saved.get(c);
    each_weight(c, weights, [&](Param& p, int64_t begin, int64_t out) {
      bool accumulate = false;
      const TensorView g = c.grad_store().add_to_grad(p, accumulate);
      if (g.absent()) return;
      each_source(of.view(), sources, dy.rows(), [&](int source, int64_t row, int64_t rows, const TensorView& of) {
        c.call(GroupedMatmul{.a = dy.view().columns(begin, out).row_range(row, rows),
                             .b = x.view().row_range(row, rows),
                             .offsets = of,
                             .out = c.grad_store().grad_of_source(p, g, source),
                             .trans_a = true,
                             .accumulate = accumulate,
                             .most_rows = most});
      });
    });
  };
  c.record("experts_linear", {y.ref()}, std::move(dx), trains ? std::move(dw) : BackwardFn());
  return y;
}

Tensor weighted_rows(Ctx& c, const Tensor& x, const Routes& routes) {
  auto forward = [](Ctx& c, const Tensor& x, const Tensor& weights) {
    Ctx::Scope scope(c, "weighted_rows");
    Tensor out = c.empty({x.rows(), x.cols()}, x.dtype());
    c.call(ScaleRows{.x = x.view(), .scale = weights.view(), .out = out.view()});
    return out;
  };
  Tensor out = forward(c, x, routes.weights);
  if (!c.recording()) return out;
  const Saved saved = c.save(x), weights = c.save(routes.weights);
  out.set_rebuild([=](Ctx& c) { return forward(c, saved.get(c), weights.get(c)); });
  c.record("weighted_rows", {out.ref()}, [=, xr = x.ref(), wr = routes.weights.ref(), outr = out.ref()](Ctx& c) {
    const Tensor dout = c.grads().get(outr);
    bool accumulate = false;
    const Tensor dweights = c.grads().add_to(wr, accumulate), dx = c.grads().add_to(xr, accumulate);
    require(!accumulate, "weighted_rows: rows and weights must be used by it only");
    c.call(RowDot{.x = dout.view(), .y = saved.get(c).view(), .weight = {}, .out = dweights.view()});
    c.call(ScaleRows{.x = dout.view(), .scale = weights.get(c).view(), .out = dx.view()});
  });
  return out;
}

Tensor gated_sum(Ctx& c, Tensor a, const Tensor& b, const Tensor& gate) {
  Tensor open = c.empty({gate.rows(), 1}, gate.dtype()), product = c.empty({b.rows(), b.cols()}, b.dtype());
  c.call(SigmoidForward{.x = gate.view(), .out = open.view()});
  c.call(ScaleRows{.x = b.view(), .scale = open.view(), .out = product.view()});
  c.record("gated_rows", {product.ref()},
           [b = c.recording() ? c.save(b) : Saved(), open = c.recording() ? c.save(open) : Saved(), br = b.ref(),
            gr = gate.ref(), pr = product.ref()](Ctx& c) {
             const Tensor dout = c.grads().get(pr), s = open.get(c);
             bool accumulate = false;
             const Tensor db = c.grads().add_to(br, accumulate), dgate = c.grads().add_to(gr, accumulate);
             require(!accumulate, "gated_sum: what is gated must be used by it only");
             c.call(ScaleRows{.x = dout.view(), .scale = s.view(), .out = db.view()});
             c.call(RowDot{.x = dout.view(), .y = b.get(c).view(), .weight = {}, .out = dgate.view()});
             c.call(SigmoidBackward{.y = s.view(), .dout = dgate.view(), .dx = dgate.view()});
           });
  return add(c, std::move(a), std::move(product));
}

}  // namespace ravine
