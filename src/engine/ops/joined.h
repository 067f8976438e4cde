// Parameters that lie side by side in memory (ParamSet::add_joined), so that one product computes them all.
#pragma once
#include <span>

#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns the view of all of them on this rank, from the view of the first.
TensorView joined(const WeightSource& store, TensorView first, std::span<Param* const> params);

// Returns the gradient of all of them, and marks each as written. Absent if they are frozen.
TensorView joined_grad(Ctx& c, std::span<Param* const> params, bool& accumulate);

// The weights of a product: side by side in memory, or each in 4-bit blocks of its own.
class JoinedWeights {
 public:
  JoinedWeights(Ctx& c, std::span<Param* const> weights, Join join);
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  // Calls f(weight, first row, rows) for each product: one for all weights, or one per weight. The latter if
  // precision.unfused sets it, or if weights are stored in blocks.
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
  // Runs the product of each. make(first row, rows) returns the arguments without b.
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
  TensorView plain_;  // absent: each weight is stored in blocks
  int64_t rows_ = 0, cols_ = 0;
  bool whole_ = true;  // one product for all weights
};

}  // namespace ravine
