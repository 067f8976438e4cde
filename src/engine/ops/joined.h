// Parameters that lie side by side in memory (ParamSet::add_joined), so that one product sees them all.
#pragma once
#include <span>

#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// The view of all of them, of what this rank holds, from the view of the first.
TensorView joined(const WeightSource& store, TensorView first, std::span<Param* const> params);

// The gradient of all of them; each is marked as written. Absent where they are frozen.
TensorView joined_grad(Ctx& c, std::span<Param* const> params, bool& accumulate);

// The weights that products read: side by side, or each in blocks of its own.
class JoinedWeights {
 public:
  JoinedWeights(Ctx& c, std::span<Param* const> weights, Join join);
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  // f(weight, first row, rows) of each product that they are: one; or, where precision.unfused asks for it and where each is
  // kept in blocks, one for each weight.
  template <class F>
  void each(Ctx& c, F&& f) const {
    if (whole_) return f(*weights_[0], int64_t{0}, rows_);
    int64_t begin = 0;
    for (const Param* p : weights_) {
      const int64_t count = c.store().shape(*p)[0];
      f(*p, begin, count);
      begin += count;
    }
  }
  // make(first row, rows) is the product but for its b.
  template <class F>
  void multiply(Ctx& c, F&& make) const {
    each(c, [&](const Param& p, int64_t row, int64_t rows) {
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
  TensorView plain_;  // absent: each is kept in blocks
  int64_t rows_ = 0, cols_ = 0;
  bool whole_ = true;  // one product
};

}  // namespace ravine
