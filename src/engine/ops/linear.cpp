#include "engine/ops/linear.h"

#include <algorithm>

#include "engine/ops/joined.h"
#include "engine/ops/lora.h"

namespace ravine {
namespace {

// Returns x W^T + b. partial: the inputs are cut, so the other tensor ranks have the other inputs.
Tensor base_product(Ctx& c, const Tensor& x, const LinearParams& p, bool partial) {
  const JoinedWeights w(c, p.weights, p.join);
  TensorView b = p.biases.empty() || (partial && c.group(Axis::tensor).rank() > 0)
                     ? TensorView{}
                     : joined(c.store(), c.store().master(*p.biases[0]), p.biases);
  require(x.cols() == w.cols(), "linear: x has {} columns, weight '{}' has {}", x.cols(), p.weights[0]->name, w.cols());
  Tensor y = c.empty({x.rows(), w.rows()}, c.types().compute);
  w.multiply(c, [&](int64_t row, int64_t rows) {
    return Matmul{
        .a = x.view(), .bias = b.absent() ? b : b.columns(row, rows), .out = y.view().columns(row, rows), .trans_b = true};
  });
  if (!c.recording()) return y;

  auto any_trains = [](const std::vector<Param*>& all) {
    return std::any_of(all.begin(), all.end(), [](const Param* one) { return one->policy.trainable; });
  };
  const bool trains = any_trains(p.weights), trains_bias = any_trains(p.biases);
  Saved saved = trains ? c.save(x) : Saved();
  BackwardFn dx = [&p, xr = x.ref(), yr = y.ref()](Ctx& c) {
    bool accumulate = false;
    Tensor dy = c.grads().get(yr), dx = c.grads().add_to(xr, accumulate);
    JoinedWeights(c, p.weights, p.join).multiply(c, [&](int64_t row, int64_t rows) {
      return Matmul{.a = dy.view().columns(row, rows), .out = dx.view(), .accumulate = accumulate || row > 0};
    });
  };
  BackwardFn dw = [&p, saved, trains, trains_bias, partial, yr = y.ref()](Ctx& c) {
    Tensor dy = c.grads().get(yr);
    bool accumulate = false;
    if (trains) {
      TensorView g = joined_grad(c, p.weights, accumulate);
      Tensor x = saved.get(c);
      JoinedWeights(c, p.weights, p.join).each(c, [&](const Param&, int64_t row, int64_t rows) {
        c.call(Matmul{.a = dy.view().columns(row, rows),
                      .b = x.view(),
                      .out = g.row_range(row, rows),
                      .trans_a = true,
                      .accumulate = accumulate,
                      .tokens_reduced = true});
      });
    }
    if (trains_bias) {
      TensorView g = joined_grad(c, p.biases, accumulate);
      // Under sequence parallelism the store sums the gradients of parameters that are not cut over tensor ranks. Here
      // each of these ranks has the whole dy, so only the first adds it.
      if (partial && c.sequence_parallel() && c.group(Axis::tensor).rank() > 0) {
        if (!accumulate) c.call(Fill{g, 0});
      } else {
        c.call(SumRows{.x = dy.view(), .out = g, .accumulate = accumulate});
      }
    }
  };
  c.record("linear", {y.ref()}, std::move(dx), trains || trains_bias ? std::move(dw) : BackwardFn());
  return y;
}

}  // namespace

Tensor linear(Ctx& c, const Tensor& x, const LinearParams& p, Split split) {
  Tensor y = base_product(c, x, p, split == Split::rows);
  if (p.adapters) lora(c, x, y, *p.adapters, p.weights, split);
  lora_of_rows(c, x.view(), y.view(), p.weights, split);
  return y;
}

}  // namespace ravine
