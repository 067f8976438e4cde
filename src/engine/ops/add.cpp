#include "engine/ops/add.h"

namespace ravine {

Tensor add(Ctx& c, Tensor a, Tensor b) {
  TensorRef ar = a.ref(), br = b.ref();
  Tensor out = a.unique() ? a.renamed() : c.empty({a.rows(), a.cols()}, a.dtype());
  c.call(Add{a.view(), b.view(), out.view()});
  c.record("add", {out.ref()}, [ar, br, outr = out.ref()](Ctx& c) {
    Tensor d = c.grads().take(outr);
    c.give_grad(ar, d);
    c.give_grad(br, d);
  });
  return out;
}

}  // namespace ravine
