#include "engine/ops/embedding.h"

namespace ravine {

namespace {

Tensor look_up(Ctx& c, const Param& table, TensorView Batch::*rows, int64_t padding_id) {
  Tensor x = c.empty({c.batch().tokens, table.shape[1]}, c.types().residual);
  c.call(EmbeddingForward{c.batch().*rows, c.store().master(table), x.view()});
  c.record("embedding", {x.ref()}, {}, [&table, rows, padding_id, xr = x.ref()](Ctx& c) {
    bool accumulate = false;
    TensorView dweight = c.store().add_to_grad(table, accumulate);
    if (!dweight.absent()) c.call(EmbeddingBackward{c.batch().*rows, c.grads().get(xr).view(), dweight, padding_id, accumulate});
  });
  return x;
}

}  // namespace

Tensor embedding(Ctx& c, const Param& table, int64_t padding_id) { return look_up(c, table, &Batch::ids, padding_id); }

Tensor position_embedding(Ctx& c, const Param& table) {
  require(c.batch().max_position <= table.shape[0], "position_embedding: position {} is beyond the table of {}", c.batch().max_position - 1,
          table.shape[0]);
  return look_up(c, table, &Batch::positions, -1);
}

}  // namespace ravine
