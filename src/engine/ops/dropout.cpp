#include "engine/ops/dropout.h"
#include "base/philox.h"

namespace ravine {

Tensor dropout(Ctx& c, Tensor x) {
  double p = c.dropout();
  if (p == 0) return x;
  uint64_t key = philox_key(c.seed(), c.path() + ".dropout");
  auto apply = [p, key](Ctx& c, const TensorView& from, const TensorView& to) {
    TensorView positions = c.batch().positions, sequences = c.batch().sequences;
    for (TensorView* v : {&positions, &sequences}) {
      if (v->data) v->data = static_cast<std::byte*>(v->data) + c.stream_begin() * size_of(v->dtype);
      v->shape = {from.rows()};
    }
    c.call(Dropout{
        .x = from, .positions = positions, .sequences = sequences, .out = to, .p = p, .key = key, .step = c.batch().step});
  };
  TensorRef xr = x.ref();
  Tensor y = x.renamed();
  apply(c, x.view(), y.view());
  c.record("dropout", {y.ref()}, [apply, xr, yr = y.ref()](Ctx& c) {
    Tensor dy = c.grads().take(yr);
    Tensor dx = dy.unique() ? dy : c.empty(xr.shape, xr.dtype);
    apply(c, dy.view(), dx.view());
    c.give_grad(xr, dx);
  });
  return y;
}

}  // namespace ravine
