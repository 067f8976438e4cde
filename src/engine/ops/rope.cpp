#include "engine/ops/rope.h"

namespace ravine {
namespace {

// f(table, first row, rows) over runs of neighbours that take one table; rows outside every segment are padding and go with
// what is before them.
template <class F>
void each_run(const Batch& b, const RopeTables& t, int64_t rows, F&& f) {
  if (t.far.absent()) return f(t.near, int64_t{0}, rows);
  auto is_far = [&](size_t i) { return b.length(i) > t.limit; };
  int64_t begin = 0;
  for (size_t i = 1; i < b.segments.size(); ++i) {
    if (is_far(i) == is_far(i - 1)) continue;
    f(is_far(i - 1) ? t.far : t.near, begin, b.segments[i].q_begin - begin);
    begin = b.segments[i].q_begin;
  }
  f(!b.segments.empty() && is_far(b.segments.size() - 1) ? t.far : t.near, begin, rows - begin);
}

void rotate(Ctx& c, const TensorView& x, const RopeTables& tables, int64_t heads, bool inverse) {
  const Batch& b = c.batch();
  each_run(b, tables, x.rows(), [&](const TensorView& table, int64_t begin, int64_t rows) {
    TensorView positions = b.positions;
    positions.shape = {rows};
    if (positions.data) positions.data = static_cast<std::byte*>(positions.data) + begin * size_of(positions.dtype);
    c.call(Rope{.x = x.row_range(begin, rows), .positions = positions, .table = table, .heads = heads, .inverse = inverse});
  });
}

}  // namespace

void rope(Ctx& c, const Tensor& x, const RopeTables& tables, int64_t heads) {
  require(c.batch().max_position <= tables.near.rows(), "rope: position {} is beyond the table of {}",
          c.batch().max_position - 1, tables.near.rows());
  rotate(c, x.view(), tables, heads, false);
  c.record("rope", {}, [xr = x.ref(), tables, heads](Ctx& c) {
    if (c.grads().has(xr)) rotate(c, c.grads().get(xr).view(), tables, heads, true);
  });
}

}  // namespace ravine
