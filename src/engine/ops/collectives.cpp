#include "engine/ops/collectives.h"

namespace ravine {
namespace {

TensorView piece(const TensorView& flat, int64_t begin, int64_t count) {
  return view_of(flat.data ? static_cast<char*>(flat.data) + begin * size_of(flat.dtype) : nullptr, flat.dtype, {count},
                 flat.device);
}

TensorView flat_of(const TensorView& x) {
  require(x.count() == 0 || x.stride == x.cols() || x.rows() == 1, "collective: the tensor is not in one run");
  return view_of(x.data, x.dtype, {x.count()}, x.device);
}

// received[0] += received[1] + ... over `ranks` pieces, neighbours first.
void tree_sum(Ctx& c, const TensorView& received, int ranks, int64_t count) {
  for (int stride = 1; stride < ranks; stride *= 2)
    for (int i = 0; i + stride < ranks; i += 2 * stride) {
      TensorView a = piece(received, i * count, count), b = piece(received, (i + stride) * count, count);
      c.call(Add{a, b, a});
    }
}

}  // namespace

Reduction Reduction::scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine) {
  require(all.count() == group.size() * mine.count() && all.dtype == mine.dtype,
          "reduce_scatter: {} elements for {} ranks of {}", all.count(), group.size(), mine.count());
  Reduction r;
  r.group_ = &group;
  r.scatter_ = true;
  r.from_ = flat_of(all);
  r.to_ = flat_of(mine);
  r.count_ = mine.count();
  if (group.size() == 1) {
    if (r.from_.data != r.to_.data) c.call(Cast{r.from_, r.to_});
    return r;
  }
  r.received_ = c.empty({group.size() * r.count_}, all.dtype, MemoryKind::workspace);
  r.pending_ = group.all_to_all(r.from_.data, r.received_.view().data, r.count_ * size_of(all.dtype));
  return r;
}

Reduction Reduction::whole(Ctx& c, const Group& group, const TensorView& x) {
  int ranks = group.size();
  Reduction r;
  r.group_ = &group;
  if (ranks == 1 || x.count() == 0) return r;
  r.to_ = r.from_ = flat_of(x);
  r.count_ = ceil_div(x.count(), ranks);
  if (r.count_ * ranks != x.count()) {
    r.padded_ = c.empty({r.count_ * ranks}, x.dtype, MemoryKind::workspace);
    r.from_ = r.padded_.view();
    c.call(Cast{r.to_, piece(r.from_, 0, x.count())});
    c.call(Fill{piece(r.from_, x.count(), r.count_ * ranks - x.count()), 0});
  }
  r.received_ = c.empty({ranks * r.count_}, x.dtype, MemoryKind::workspace);
  r.pending_ = group.all_to_all(r.from_.data, r.received_.view().data, r.count_ * size_of(x.dtype));
  return r;
}

bool Reduction::step(Ctx& c) {
  pending_.wait();
  if (!received_) return true;
  if (!summed_) {
    summed_ = true;
    tree_sum(c, received_.view(), group_->size(), count_);
    if (!scatter_) {
      pending_ = group_->all_gather(received_.view().data, from_.data, count_ * size_of(from_.dtype));
      return false;
    }
    c.call(Cast{piece(received_.view(), 0, count_), to_});
  } else if (padded_) {
    c.call(Cast{piece(from_, 0, to_.count()), to_});
  }
  received_ = padded_ = Tensor();
  return true;
}

void reduce_scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine) {
  Reduction::scatter(c, group, all, mine).step(c);
}

void all_reduce(Ctx& c, const Group& group, const TensorView& x) {
  Reduction r = Reduction::whole(c, group, x);
  while (!r.step(c)) {
  }
}

}  // namespace ravine
