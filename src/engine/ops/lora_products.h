// The products of adapters, for lora() and for heads.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "base/philox.h"
#include "engine/ops/collectives.h"
#include "engine/ops/joined.h"

namespace ravine {

// The matrix products of the LoRA adapters of one layer on one rank. Several adapters are columns of [N, R], where R is
// the sum of their ranks; their A are joined as rows.
class LoraProducts {
 public:
  // store: holds the A and B of the adapters. `weights`: the weights of the adapted layer, in the store of the Ctx;
  // empty for a head.
  LoraProducts(const LoraAdapters& s, const WeightSource& store, std::span<Param* const> weights, Split split)
      : s_(s), store_(store), weights_(weights), split_(split) {
    rows_.push_back(0);
    for (const Param* a : s.a) rows_.push_back(rows_.back() + a->shape[0]);
  }

  int64_t rank() const { return rows_.back(); }
  TensorView a() const { return joined(store_, store_.value(*s_.a[0]), s_.a); }
  TensorView part(const TensorView& v, size_t adapter) const {
    return v.columns(rows_[adapter], rows_[adapter + 1] - rows_[adapter]);
  }
  TensorView outputs(Ctx& c, const TensorView& y, size_t weight) const {
    int64_t from = 0;
    for (size_t i = 0; i < weight; ++i) from += c.store().shape(*weights_[i])[0];
    return y.columns(from, c.store().shape(*weights_[weight])[0]);
  }

  // Calls f(x, first row, rows) for the products of x with the joined A. Once for all rows if all adapters read the
  // same x; else once per adapter, with dropout applied to x.
  template <class F>
  void each_input(Ctx& c, const TensorView& x, F&& f) const {
    if (!drops(c)) return f(x, int64_t{0}, rank());
    for (size_t i = 0; i < s_.a.size(); ++i) {
      Tensor dropped = c.empty({x.rows(), x.cols()}, x.dtype);
      drop(c, i, x, dropped.view());
      f(dropped.view(), rows_[i], rows_[i + 1] - rows_[i]);
    }
  }
  bool drops(Ctx& c) const {
    return c.dropping() && std::any_of(s_.dropout.begin(), s_.dropout.end(), [](double p) { return p > 0; });
  }
  void drop(Ctx& c, size_t adapter, const TensorView& from, const TensorView& to) const {
    TensorView positions = c.batch().positions, sequences = c.batch().sequences;
    const int64_t first = split_ == Split::none ? c.stream_begin() : 0;
    for (TensorView* v : {&positions, &sequences}) {
      v->shape = {from.rows()};
      if (v->data) v->data = static_cast<std::byte*>(v->data) + first * size_of(v->dtype);
    }
    const std::string& name = s_.a[adapter]->name;
    c.call(Dropout{.x = from,
                   .positions = positions,
                   .sequences = sequences,
                   .out = to,
                   .p = s_.dropout[adapter],
                   .key = philox_key(c.seed(), name + ".dropout"),
                   .step = c.batch().step,
                   .first = split_ == Split::rows ? from.cols() * c.group(Axis::tensor).rank() : 0});
  }
  void scale(Ctx& c, const TensorView& v) const {
    for (size_t i = 0; i < s_.a.size(); ++i)
      if (s_.scale[i] != 1) c.call(Multiply{.a = part(v, i), .b = {}, .out = part(v, i), .scale = s_.scale[i]});
  }

  // Returns x A^T of each adapter times its scale, [N, R] in the compute type.
  Tensor down(Ctx& c, const TensorView& x) const {
    Tensor h = c.empty({x.rows(), rank()}, c.types().compute);
    const TensorView a = this->a();
    each_input(c, x, [&](const TensorView& x, int64_t from, int64_t rows) {
      c.call(Matmul{.a = x, .b = a.row_range(from, rows), .out = h.view().columns(from, rows), .trans_b = true});
    });
    scale(c, h.view());
    return h;
  }
  void add_up(Ctx& c, const TensorView& h, const TensorView& y) const {
    for (const auto& up : s_.ups)
      c.call(Matmul{.a = part(h, up.adapter),
                    .b = store_.value(*up.b),
                    .out = outputs(c, y, up.weight),
                    .trans_b = true,
                    .accumulate = true});
  }
  // Adds an adapter's output to the logits of a head: y += scale * x A^T B^T. A head has one B, cut as its table.
  void add_logits(Ctx& c, const TensorView& x, const TensorView& y) const {
    const Tensor h = down(c, x);
    c.call(Matmul{.a = h.view(), .b = store_.value(*s_.ups.at(0).b), .out = y, .trans_b = true, .accumulate = true});
  }
  // Returns dy B of each adapter times its scale, [N, R]: the gradient of x A^T.
  Tensor back(Ctx& c, const TensorView& dy) const {
    Tensor u = c.empty({dy.rows(), rank()}, c.types().compute);
    for (size_t i = 0; i < s_.ups.size(); ++i)
      c.call(Matmul{.a = outputs(c, dy, s_.ups[i].weight),
                    .b = store_.value(*s_.ups[i].b),
                    .out = part(u.view(), s_.ups[i].adapter),
                    .accumulate = i > 0 && s_.ups[i - 1].adapter == s_.ups[i].adapter});
    scale(c, u.view());
    return u;
  }
  void add_dx(Ctx& c, const TensorView& u, const TensorView& dx, bool accumulate) const {
    const TensorView a = this->a();
    if (!drops(c)) return c.call(Matmul{.a = u, .b = a, .out = dx, .accumulate = accumulate});
    Tensor of_one = c.empty({dx.rows(), dx.cols()}, dx.dtype);
    for (size_t i = 0; i < s_.a.size(); ++i, accumulate = true) {
      c.call(Matmul{.a = part(u, i), .b = a.row_range(rows_[i], rows_[i + 1] - rows_[i]), .out = of_one.view()});
      drop(c, i, of_one.view(), accumulate ? of_one.view() : dx);
      if (accumulate) c.call(Add{dx, of_one.view(), dx});
    }
  }
  void add_da(Ctx& c, const TensorView& u, const TensorView& x) const {
    bool accumulate = false;
    const TensorView g = joined_grad(c, s_.a, accumulate);
    if (g.absent()) return;
    each_input(c, x, [&](const TensorView& x, int64_t from, int64_t rows) {
      c.call(Matmul{.a = u.columns(from, rows),
                    .b = x,
                    .out = g.row_range(from, rows),
                    .trans_a = true,
                    .accumulate = accumulate,
                    .tokens_reduced = true});
    });
  }
  void add_db(Ctx& c, const TensorView& dy, const TensorView& h) const {
    for (const auto& up : s_.ups) {
      bool accumulate = false;
      const TensorView g = c.grad_store().add_to_grad(*up.b, accumulate);
      if (!g.absent())
        c.call(Matmul{.a = outputs(c, dy, up.weight),
                      .b = part(h, up.adapter),
                      .out = g,
                      .trans_a = true,
                      .accumulate = accumulate,
                      .tokens_reduced = true});
    }
  }
  // Sums `part` [N, R] over tensor ranks: each rank holds a part of this factor of the gradient of a matrix that is not
  // cut. With one rank, or with sequence parallelism, `part` is returned unchanged.
  static Tensor whole(Ctx& c, const Tensor& part) {
    if (c.group(Axis::tensor).size() == 1 || c.sequence_parallel()) return part;
    Tensor sum = c.empty({part.rows(), part.cols()}, part.dtype());
    c.call(Cast{part.view(), sum.view()});
    all_reduce(c, c.group(Axis::tensor), sum.view());
    return sum;
  }
  Split split() const { return split_; }

 private:
  const LoraAdapters& s_;
  const WeightSource& store_;
  std::span<Param* const> weights_;
  Split split_;
  std::vector<int64_t> rows_;  // of the joined A: the first row of each, and the end
};

}  // namespace ravine
