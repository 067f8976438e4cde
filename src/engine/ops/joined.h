// Parameters that lie side by side in memory (ParamSet::add_joined), so that one product computes them all.
#pragma once
#include <span>

#include "engine/ctx.h"
#include "engine/ops/linear_params.h"

namespace ravine {

// Returns one view of parameters that are joined in memory (this rank's part), from `first`, the view of the first of
// them.
TensorView joined(const WeightSource& store, TensorView first, std::span<Param* const> params);

// Returns one view of the gradients of joined parameters, and marks each as written. `accumulate`: set to true if the
// caller must add to them, else to false. Absent if the parameters are frozen.
TensorView joined_grad(Ctx& c, std::span<Param* const> params, bool& accumulate);

// The weights of a matrix product, joined in memory, or each in its own blocks of 4 bits.
class JoinedWeights {
 public:
  JoinedWeights(Ctx& c, std::span<Param* const> weights, Join join);
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  // Calls f(weight, first row, rows) for each product: once for all joined weights together, or once per weight. Once
  // per weight if precision.unfused names the join, or if weights are stored in blocks of 4 bits.
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
  // Runs the matrix product with the weights, as each() divides it. make(first row, rows) returns the arguments of one
  // product without b.
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
