#include "engine/ops/collectives.h"

namespace ravine {
namespace {

TensorView piece(const TensorView& flat, int64_t begin, int64_t count) {
  return view_of(flat.data ? static_cast<char*>(flat.data) + begin * size_of(flat.dtype) : nullptr, flat.dtype, {count}, flat.device);
}

TensorView flat_of(const TensorView& x) {
  require(x.count() == 0 || x.stride == x.cols() || x.rows() == 1, "collective: the tensor is not in one run");
  return view_of(x.data, x.dtype, {x.count()}, x.device);
}

// received[0] += received[1] ... over `ranks` pieces, neighbours first.
void tree_sum(Ctx& c, const TensorView& received, int ranks, int64_t count) {
  for (int stride = 1; stride < ranks; stride *= 2)
    for (int i = 0; i + stride < ranks; i += 2 * stride) {
      TensorView a = piece(received, i * count, count), b = piece(received, (i + stride) * count, count);
      c.call(Add{a, b, a});
    }
}

}  // namespace

void reduce_scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine) {
  int ranks = group.size();
  int64_t count = mine.count();
  require(all.count() == ranks * count && all.dtype == mine.dtype, "reduce_scatter: {} elements for {} ranks of {}", all.count(), ranks, count);
  TensorView from = flat_of(all), to = flat_of(mine);
  if (ranks == 1) {
    if (from.data != to.data) c.call(Cast{from, to});
    return;
  }
  Tensor received = c.empty({ranks * count}, all.dtype, MemoryKind::workspace);
  group.all_to_all(from.data, received.view().data, count * size_of(all.dtype)).wait();
  tree_sum(c, received.view(), ranks, count);
  c.call(Cast{piece(received.view(), 0, count), to});
}

void all_reduce(Ctx& c, const Group& group, const TensorView& x) {
  int ranks = group.size();
  if (ranks == 1 || x.count() == 0) return;
  TensorView whole = flat_of(x);
  int64_t count = ceil_div(x.count(), ranks), bytes = count * size_of(x.dtype);
  Tensor padded;
  TensorView from = whole;
  if (count * ranks != x.count()) {
    padded = c.empty({count * ranks}, x.dtype, MemoryKind::workspace);
    from = padded.view();
    c.call(Cast{whole, piece(from, 0, x.count())});
    c.call(Fill{piece(from, x.count(), count * ranks - x.count()), 0});
  }
  Tensor received = c.empty({ranks * count}, x.dtype, MemoryKind::workspace);
  group.all_to_all(from.data, received.view().data, bytes).wait();
  tree_sum(c, received.view(), ranks, count);
  group.all_gather(received.view().data, from.data, bytes).wait();
  if (padded) c.call(Cast{piece(from, 0, x.count()), whole});
}

}  // namespace ravine
