// Rows of a table by token id, and the gradient of the table. kernels.h defines letters, types and determinism.
#pragma once
#include <cstdint>

#include "kernels/view.h"

namespace ravine {

// Rows of an embedding table by id: out[n] = scale * weight[ids[n]]. ids i32 [N]; weight [V,C]; out [N,C]. A part of a
// vocabulary: if `whole` is not 0, weight has rows [first, first + V) of a table of `whole` rows. ids are indices of
// the whole table, and out[n] is zero if another part has the row. V may be 0.
struct EmbeddingForward {
  static constexpr const char* name = "embedding";
  TensorView ids, weight, out;
  double scale = 1;
  int64_t first = 0, whole = 0;
  template <class F>
  void each(F&& f) const {
    f("ids", ids, Access::read), f("weight", weight, Access::read), f("out", out, Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("scale", scale);
  }
  double flops() const { return 0; }
  double bytes() const { return static_cast<double>(ids.bytes() + out.count() * size_of(weight.dtype) + out.bytes()); }
};

// The gradient of an embedding table: dweight[ids[n]] += scale * dout[n], tokens in order; without `accumulate`,
// dweight is zeroed first. Row `padding_id` (if >= 0) gets no gradient (PyTorch's padding_idx). dweight is at least as
// wide as dout. first, whole: as in EmbeddingForward; tokens in the rows of another part are skipped. padding_id is an
// index of the whole table.
struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  TensorView ids, dout, dweight;
  int64_t padding_id = -1;
  bool accumulate = false;
  double scale = 1;
  int64_t first = 0, whole = 0;
  template <class F>
  void each(F&& f) const {
    f("ids", ids, Access::read), f("dout", dout, Access::read),
        f("dweight", dweight, accumulate ? Access::update : Access::write);
  }
  template <class F>
  void settings(F&& f) const {
    f("scale", scale), f("padding_id", static_cast<double>(padding_id));
  }
  double flops() const { return static_cast<double>(dout.count()); }
};

}  // namespace ravine
