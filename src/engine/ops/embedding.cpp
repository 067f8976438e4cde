#include "engine/ops/embedding.h"

#include "engine/ops/vocabulary_parallel.h"

namespace ravine {

namespace {

// Returns the ids or positions of the local tokens: under sequence parallelism each tensor rank has a range of tokens.
TensorView rows_here(Ctx& c, TensorView Batch::*rows) {
  TensorView v = c.batch().*rows;
  if (!c.sequence_parallel()) return v;
  const Group& group = c.group(Axis::tensor);
  int64_t count = div_exact(c.batch().tokens, group.size());
  v.shape = {count};
  if (v.data) v.data = static_cast<std::byte*>(v.data) + group.rank() * count * size_of(v.dtype);
  return v;
}

Tensor look_up(Ctx& c, const Param& table, TensorView Batch::*rows, int64_t padding_id, double scale) {
  TensorView ids = rows_here(c, rows);
  Tensor x = c.empty({ids.count(), table.shape[1]}, c.types().residual);
  c.call(EmbeddingForward{.ids = ids, .weight = c.store().master(table), .out = x.view(), .scale = scale});
  c.record("embedding", {x.ref()}, {}, [&table, rows, padding_id, scale, xr = x.ref()](Ctx& c) {
    bool accumulate = false;
    TensorView dweight = c.grad_store().add_to_grad(table, accumulate);
    if (!dweight.absent())
      c.call(EmbeddingBackward{.ids = rows_here(c, rows),
                               .dout = c.grads().get(xr).view(),
                               .dweight = dweight,
                               .padding_id = padding_id,
                               .accumulate = accumulate,
                               .scale = scale});
  });
  return x;
}

}  // namespace

Tensor embedding(Ctx& c, const Param& table, int64_t padding_id, double scale) {
  if (c.group(Axis::tensor).size() > 1) return embedding_parallel(c, table, padding_id, scale);
  return look_up(c, table, &Batch::ids, padding_id, scale);
}

Tensor position_embedding(Ctx& c, const Param& table) {
  require(c.batch().max_position <= table.shape[0], "position_embedding: position {} is beyond the table of {}",
          c.batch().max_position - 1, table.shape[0]);
  return look_up(c, table, &Batch::positions, -1, 1);
}

}  // namespace ravine
