#include "engine/ops/linear.h"

#include "engine/ops/lora_products.h"
#include "engine/ops/vocabulary_parallel.h"

namespace ravine {

TensorView joined(Ctx& c, TensorView first, std::span<Param* const> params) {
  if (first.absent()) return first;
  int64_t rows = 0;
  for (const Param* p : params) rows += c.store().shape(*p)[0];  // of what this rank holds
  first.shape[0] = rows;
  return first;
}

namespace {
// f(weight, first row, rows) of the products that joined weights are: one; or, with precision.unfused, one for each weight
// ("qkv" are three, "gate_up" two), as also where each is kept in blocks of its own.
template <class F>
void each_product(Ctx& c, std::span<Param* const> weights, int64_t rows, F&& f) {
  const bool blocks = !c.store().blocks(*weights[0]).absent();
  if (weights.size() == 1 || (!blocks && c.fused(weights.size() == 2 ? "gate_up" : "qkv")))
    return f(*weights[0], int64_t{0}, rows);
  int64_t begin = 0;
  for (const Param* p : weights) {
    const int64_t count = c.store().shape(*p)[0];
    f(*p, begin, count);
    begin += count;
  }
}

// The weights that products read: side by side, or each in blocks of its own.
class Factors {
 public:
  Factors(Ctx& c, std::span<Param* const> weights) : weights_(weights) {
    for (const Param* p : weights) rows_ += c.store().shape(*p)[0];
    if (c.store().blocks(*weights[0]).absent()) plain_ = joined(c, c.store().value(*weights[0]), weights);
  }
  int64_t rows() const { return rows_; }
  int64_t cols(Ctx& c) const { return c.store().shape(*weights_[0])[1]; }
  // make(first row, rows) is the product but for its b.
  template <class F>
  void multiply(Ctx& c, F&& make) const {
    each_product(c, weights_, rows_, [&](const Param& p, int64_t row, int64_t rows) {
      Matmul m = make(row, rows);
      if (!plain_.absent()) {
        m.b = plain_.row_range(row, rows);
        return c.call(m);
      }
      c.call(Nf4Matmul{
          .a = m.a, .w = c.store().blocks(p), .bias = m.bias, .out = m.out, .trans_w = m.trans_b, .accumulate = m.accumulate});
    });
  }

 private:
  std::span<Param* const> weights_;
  TensorView plain_;
  int64_t rows_ = 0;
};
}  // namespace

TensorView joined_grad(Ctx& c, std::span<Param* const> params, bool& accumulate) {
  TensorView first;
  for (size_t i = 0; i < params.size(); ++i) {
    bool a = false;
    TensorView g = c.grad_store().add_to_grad(*params[i], a);
    if (i == 0) first = g, accumulate = a;
    require(a == accumulate, "linear: joined gradients of '{}' were not written together", params[i]->name);
  }
  if (params.size() == 1 || first.absent()) return first;
  return joined(c, first, params);
}

Tensor linear(Ctx& c, const Tensor& x, std::span<Param* const> weights, std::span<Param* const> biases, bool partial) {
  const Factors w(c, weights);
  TensorView b = biases.empty() || (partial && c.group(Axis::tensor).rank() > 0)
                     ? TensorView{}
                     : joined(c, c.store().master(*biases[0]), biases);
  require(x.cols() == w.cols(c), "linear: x has {} columns, weight '{}' has {}", x.cols(), weights[0]->name, w.cols(c));
  Tensor y = c.empty({x.rows(), w.rows()}, c.types().compute);
  w.multiply(c, [&](int64_t row, int64_t rows) {
    return Matmul{
        .a = x.view(), .bias = b.absent() ? b : b.columns(row, rows), .out = y.view().columns(row, rows), .trans_b = true};
  });
  if (!c.recording()) return y;

  bool trains = false, trains_bias = false;
  for (const Param* p : weights) trains = trains || p->trainable;
  for (const Param* p : biases) trains_bias = trains_bias || p->trainable;
  Saved saved = trains ? c.save(x) : Saved();
  BackwardFn dx = [weights, xr = x.ref(), yr = y.ref()](Ctx& c) {
    bool accumulate = false;
    Tensor dy = c.grads().get(yr), dx = c.grads().add_to(xr, accumulate);
    Factors(c, weights).multiply(c, [&](int64_t row, int64_t rows) {
      return Matmul{.a = dy.view().columns(row, rows), .out = dx.view(), .accumulate = accumulate || row > 0};
    });
  };
  BackwardFn dw = [weights, biases, saved, trains, trains_bias, partial, yr = y.ref()](Ctx& c) {
    Tensor dy = c.grads().get(yr);
    bool accumulate = false;
    if (trains) {
      TensorView g = joined_grad(c, weights, accumulate);
      Tensor x = saved.get(c);
      each_product(c, weights, g.rows(), [&](const Param&, int64_t row, int64_t rows) {
        c.call(Matmul{.a = dy.view().columns(row, rows),
                      .b = x.view(),
                      .out = g.row_range(row, rows),
                      .trans_a = true,
                      .accumulate = accumulate,
                      .tokens_reduced = true});
      });
    }
    if (trains_bias) {
      TensorView g = joined_grad(c, biases, accumulate);
      // Under sequence parallelism the store sums gradients of what is not cut over tensor ranks, and every one of them has all
      // of dy here.
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

Tensor unit_rows(Ctx& c, const Param& weight) {
  TensorView from = c.store().master(weight);
  Tensor w = c.empty({from.rows(), from.cols()}, c.types().compute);
  c.call(UnitRowsForward{from, w.view()});
  return w;
}

void soft_cap(Ctx& c, const TensorView& y, double cap) {
  if (cap != 0) c.call(SoftCapForward{.x = y, .y = y, .cap = cap});
}

Tensor logits(Ctx& c, const Tensor& x, const LinearParams& head, bool unit, double cap) {
  if (c.group(Axis::tensor).size() > 1) return logits_parallel(c, x, head, unit, cap);
  const Param& weight = *head.weights[0];
  Tensor unit_weight = unit ? unit_rows(c, weight) : Tensor();
  TensorView w = unit ? unit_weight.view() : c.store().value(weight);
  Tensor y = c.empty({x.rows(), w.rows()}, c.types().stat);
  c.call(Matmul{.a = x.view(), .b = w, .out = y.view(), .trans_b = true});
  if (!head.adapters.empty()) LoraProducts(head.adapters, {}, Split::columns).add_logits(c, x.view(), y.view());
  soft_cap(c, y.view(), cap);
  return y;
}

}  // namespace ravine
