#include "engine/ops/rope.h"

namespace ravine {
namespace {

// Calls f(table, first row, rows) for runs of neighbouring rows with one table. Rows outside all segments are padding
// and belong to the run before them.
template <class F>
void each_run(const Batch& b, const RopeTables& t, int64_t rows, F&& f) {
  if ((t.far.absent() && !t.of_length) || b.segments.empty()) return f(t.near, int64_t{0}, rows);
  // 0: near; else far, or the length for of_length.
  auto kind = [&](size_t i) { return b.length(i) <= t.limit ? 0 : t.of_length ? b.length(i) : 1; };
  auto table = [&](int64_t k) { return k == 0 ? t.near : t.of_length ? t.of_length(k) : t.far; };
  int64_t begin = 0;
  for (size_t i = 1; i < b.segments.size(); ++i) {
    if (kind(i) == kind(i - 1)) continue;
    f(table(kind(i - 1)), begin, b.segments[i].q_begin - begin);
    begin = b.segments[i].q_begin;
  }
  f(table(kind(b.segments.size() - 1)), begin, rows - begin);
}

// The unfused definition; each op rounds to the type of x: cosines and sines of the rows, then four products and two
// sums per head. With interleaved pairs these are computed per pair. If a precision rule sets a type for rope, cosines
// and sines have this type.
void rotate_unfused(Ctx& c, const Rope& a) {
  const int64_t rows = a.x.rows(), half = a.table.cols() / 2, size = div_exact(a.x.cols(), a.heads);
  const int64_t width = a.interleaved ? 1 : half, runs = half / width;
  const RecipeRule* rule = c.rule(Rope::name);
  const DType angle = rule && a.x.dtype != DType::f64 ? rule->arithmetic.value_or(a.x.dtype) : a.x.dtype;
  Tensor angles = c.empty({rows, 2 * half}, angle), one = c.empty({rows, width}, a.x.dtype),
         two = c.empty({rows, width}, a.x.dtype), low = c.empty({rows, width}, a.x.dtype);
  c.call(EmbeddingForward{.ids = a.positions, .weight = a.table, .out = angles.view()});
  const double sign = a.inverse ? -1 : 1;
  for (int64_t i = 0; i < a.heads * runs; ++i) {
    const int64_t run = i % runs, at = i / runs * size + a.begin + 2 * run;
    const TensorView cos = angles.view().columns(run, width), sin = angles.view().columns(half + run, width);
    const TensorView lo = a.x.columns(at, width), hi = a.x.columns(at + width, width);
    c.call(Multiply{.a = lo, .b = cos, .out = one.view()});
    c.call(Multiply{.a = hi, .b = sin, .out = two.view(), .scale = -sign});
    c.call(Add{one.view(), two.view(), low.view()});
    c.call(Multiply{.a = hi, .b = cos, .out = one.view()});
    c.call(Multiply{.a = lo, .b = sin, .out = two.view(), .scale = sign});
    c.call(Add{one.view(), two.view(), hi});
    c.call(Cast{low.view(), lo});
  }
}

void rotate(Ctx& c, const TensorView& x, const RopeTables& tables, int64_t heads, int64_t first, bool inverse) {
  const Batch& b = c.batch();
  each_run(b, tables, x.rows(), [&](const TensorView& table, int64_t begin, int64_t rows) {
    TensorView positions = b.positions;
    positions.shape = {rows};
    if (positions.data) positions.data = static_cast<std::byte*>(positions.data) + begin * size_of(positions.dtype);
    const Rope a{.x = x.row_range(begin, rows),
                 .positions = positions,
                 .table = table,
                 .heads = heads,
                 .inverse = inverse,
                 .begin = first,
                 .interleaved = tables.interleaved};
    if (c.fused("rope"))
      c.call(a);
    else
      rotate_unfused(c, a);
  });
}

}  // namespace

void rope(Ctx& c, const Tensor& x, const RopeTables& tables, int64_t heads, int64_t begin) {
  require(c.batch().max_position <= tables.near.rows(), "rope: position {} is beyond the table of {}",
          c.batch().max_position - 1, tables.near.rows());
  rotate(c, x.view(), tables, heads, begin, false);
  c.record("rope", {}, [xr = x.ref(), tables, heads, begin](Ctx& c) {
    if (c.grads().has(xr)) rotate(c, c.grads().get(xr).view(), tables, heads, begin, true);
  });
}

}  // namespace ravine
