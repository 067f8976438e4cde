#include "engine/ops/embedding.h"

#include "engine/ops/vocabulary_parallel.h"

namespace ravine {

Tensor embedding(Ctx& c, const Param& table, int64_t padding_id) {
  if (c.group(Axis::tensor).size() > 1) return embedding_parallel(c, table, padding_id);
  Tensor x = c.empty({c.batch().tokens, table.shape[1]}, c.types().residual);
  c.call(EmbeddingForward{c.batch().ids, c.store().master(table), x.view()});
  c.record("embedding", {x.ref()}, {}, [&table, padding_id, xr = x.ref()](Ctx& c) {
    bool accumulate = false;
    TensorView dweight = c.store().add_to_grad(table, accumulate);
    if (!dweight.absent()) c.call(EmbeddingBackward{c.batch().ids, c.grads().get(xr).view(), dweight, padding_id, accumulate});
  });
  return x;
}

}  // namespace ravine
