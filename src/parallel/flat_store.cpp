#include "parallel/flat_store.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/philox.h"
#include "engine/ops/collectives.h"
#include "parallel/copies.h"

namespace ravine {
namespace {

TensorView slice(void* data, DType t, int64_t begin, const Shape& shape, DeviceKind device) {
  return view_of(data ? static_cast<std::byte*>(data) + begin * size_of(t) : nullptr, t, shape, device);
}
TensorView slice(const Storage& s, DType t, int64_t begin, const Shape& shape) { return slice(s.data(), t, begin, shape, s.device()); }
TensorView slice(const Tensor& t, int64_t begin, const Shape& shape) {
  return slice(t.view().data, t.dtype(), begin, shape, t.view().device);
}

}  // namespace

FlatStore::FlatStore(ParamSet& params, const Types& types, DeviceKind device, const FlatLayout& layout)
    : params_(params), types_(types), device_(device), ranks_(layout.ranks ? layout.ranks : &alone_), zero_(layout.zero), sequence_(layout.sequence), at_(params.params().size()),
      reads_(params.units().size()) {
  const Coordinates& me = ranks_->at();
  place_ = {.tensor_rank = me.tensor, .tensor_size = ranks_->mesh().tensor, .data_rank = me.data, .data_size = ranks_->mesh().data,
            .divided = zero_ > 0, .whole_below = layout.whole_below};
  declare(layout.stages);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    Held& h = held_[b];
    bool narrow = bucket.matrix && types.compute != types.master;
    h.divided = zero_ > 0 && bucket.mine.count < bucket.count;
    h.reads_master = !narrow || std::any_of(bucket.spans.begin(), bucket.spans.end(), [](const Bucket::Span& s) { return s.param->use != Use::matrix; });
    h.master_whole = !h.divided || (zero_ < 3 && h.reads_master);
    h.copy_whole = !h.divided || zero_ < 3;
    h.master = Storage(device, (h.master_whole ? bucket.count : bucket.mine.count) * size_of(types.master));
    h.copy = Storage(device, narrow ? (h.copy_whole ? bucket.count : bucket.mine.count) * size_of(types.compute) : 0);
  }
}
FlatStore::~FlatStore() = default;

// Buckets of this stage, and of tied parameters that another stage owns; who reads them, and where gradients go.
void FlatStore::declare(const std::vector<int>& stages) {
  int me = ranks_->at().pipeline;
  auto stage = [&](const Unit* u) { return stages.empty() ? me : stages[u->index]; };
  std::vector<Unit*> here;
  for (Unit& u : params_.units())
    if (stage(&u) == me) here.push_back(&u);
  buckets_ = flat_buckets(params_, here, place_);
  const size_t owned = buckets_.size();
  for (Unit* u : here)
    for (Param* p : u->params) {
      if (!p->tied || stage(p->tied->unit) == me) continue;
      for (Bucket& b : flat_buckets(params_, {p->tied->unit}, place_))
        if (std::any_of(b.spans.begin(), b.spans.end(), [&](const Bucket::Span& s) { return s.param == p->tied; })) {
          b.unit = u;
          b.spoken = {};
          buckets_.push_back(std::move(b));
        }
    }
  held_ = std::vector<Held>(buckets_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    reads_[buckets_[b].unit->index].push_back(b);
    if (buckets_[b].trainable) {
      held_[b].own = static_cast<int>(places_.size());
      places_.emplace_back();
      places_.back().bucket = b;
      places_.back().unit = b < owned ? buckets_[b].unit : nullptr;  // of an owner elsewhere: nobody writes here, the sum of the place of use becomes it
    }
    for (const Bucket::Span& s : buckets_[b].spans) {
      ParamPlace& at = at_[s.param->index];
      at.bucket = b;
      at.begin = s.begin;
      at.shape = s.shape;
      at.here = true;
      at.has_grads = buckets_[b].trainable;
      if (at.has_grads) at.grads = static_cast<size_t>(held_[b].own);
    }
  }
  for (const Param& p : params_.params()) {
    if (!p.tied) continue;
    if (stage(p.unit) != me) {  // used elsewhere: what is added there must come here
      if (stage(p.tied->unit) == me && p.tied->trainable) held_[at_[p.tied->index].bucket].other_stage = stage(p.unit);
      continue;
    }
    ParamPlace& owner = at_[p.tied->index];
    std::vector<size_t>& reads = reads_[p.unit->index];
    if (std::find(reads.begin(), reads.end(), owner.bucket) == reads.end()) reads.push_back(owner.bucket);
    if (!p.tied->trainable) continue;
    if (stage(p.tied->unit) != me) held_[owner.bucket].other_stage = stage(p.tied->unit);
    ParamPlace& at = at_[p.index];
    at.has_grads = true;
    at.grads = places_.size();
    at.begin = owner.begin;
    at.shape = owner.shape;
    places_.emplace_back();
    places_.back().bucket = owner.bucket;
    places_.back().tied = &p;
    places_.back().unit = p.unit;
  }
}

const FlatStore::ParamPlace& FlatStore::at(const Param& p) const {
  const ParamPlace& at = at_[(p.tied ? p.tied : &p)->index];
  require(at.here, "store: '{}' lives on another pipeline stage", p.name);
  return at;
}

TensorView FlatStore::view(const Param& p, bool wants_master) const {
  const ParamPlace& where = at(p);
  const Held& h = held_[where.bucket];
  bool copy = !wants_master && p.use == Use::matrix && h.copy.bytes() > 0;
  if (copy ? h.copy_whole : h.master_whole) return slice(copy ? h.copy : h.master, copy ? types_.compute : types_.master, where.begin, where.shape);
  const Tensor& full = copy ? h.full_copy : h.full_master;
  require(h.leases > 0 && full, "store: '{}' is read while its unit is not acquired", p.name);
  return slice(full, where.begin, where.shape);
}
TensorView FlatStore::value(const Param& p) const { return view(p, false); }
TensorView FlatStore::master(const Param& p) const { return view(p, true); }

// --- gathering (stage 3)

void FlatStore::gather(size_t b) {
  Held& h = held_[b];
  if (!h.divided || zero_ < 3 || h.full_master || h.full_copy) return;
  require(ctx_ != nullptr, "store: no Ctx is attached to gather into");
  auto bring = [&](const Storage& from, DType t, Tensor& full, Pending& coming) {
    full = ctx_->empty({buckets_[b].count}, t, MemoryKind::weights);
    coming = ranks_->along(Axis::data).all_gather(from.data(), full.view().data, from.bytes());
  };
  if (h.copy.bytes() > 0) bring(h.copy, types_.compute, h.full_copy, h.coming_copy);
  if (h.reads_master) bring(h.master, types_.master, h.full_master, h.coming_master);
}

void FlatStore::prefetch(const Unit& unit) {
  if (zero_ < 3) return;
  for (size_t b : reads_[unit.index]) gather(b);
}

void FlatStore::acquire(const Unit& unit) {
  if (zero_ < 3) return;
  for (size_t b : reads_[unit.index]) {
    gather(b);
    held_[b].coming_copy.wait();
    held_[b].coming_master.wait();
    ++held_[b].leases;
  }
}

void FlatStore::release(const Unit& unit) {
  if (zero_ < 3) return;
  for (size_t b : reads_[unit.index])
    if (--held_[b].leases == 0) held_[b].full_copy = held_[b].full_master = Tensor();
}

// --- gradients

void FlatStore::open_grads(Ctx& c, const Unit& unit) {
  for (Place& g : places_) {
    if (g.unit != &unit || g.open) continue;
    g.open = c.empty({buckets_[g.bucket].count}, types_.master, MemoryKind::gradients);
    if (g.tied)
      at_[g.tied->index].written = false;
    else
      for (const Bucket::Span& s : buckets_[g.bucket].spans) at_[s.param->index].written = false;
  }
}

TensorView FlatStore::add_to_grad(const Param& p, bool& accumulate) {
  ParamPlace& where = at_[p.index];
  if (!where.has_grads) return {};
  const Place& g = places_[where.grads];
  require(static_cast<bool>(g.open), "store: gradients of '{}' are not open", p.name);
  where.ever = true;
  accumulate = std::exchange(where.written, true);
  return slice(g.open, where.begin, where.shape);
}

bool FlatStore::has_grad(const Param& p) const { return at_[p.index].ever; }

// Padding, what nobody wrote and what is frozen become zero, so that sums over leaves and ranks are of numbers.
void FlatStore::clear_unwritten(Ctx& c, Place& g) {
  const Bucket& bucket = buckets_[g.bucket];
  auto clear = [&](int64_t begin, int64_t end) {
    if (begin < end) c.call(Fill{slice(g.open, begin, {end - begin}), 0});
  };
  int64_t end = 0;
  for (const Bucket::Span& s : bucket.spans) {
    bool written = g.tied ? s.param == g.tied->tied && at_[g.tied->index].written : at_[s.param->index].written;
    if (!written || !s.param->trainable) continue;
    clear(end, s.begin);
    end = s.begin + s.shape.count();
  }
  clear(end, bucket.count);
}

void FlatStore::add_leaf(Ctx& c, Place& g, Tensor t) {
  g.finished.push_back(std::move(t));
  for (int64_t n = ++g.leaves; n % 2 == 0; n /= 2) {
    TensorView later = g.finished.back().view(), sum = g.finished[g.finished.size() - 2].view();
    c.call(Add{sum, later, sum});
    g.finished.pop_back();
  }
}

// While a unit is computed the sums of the one behind it are under way.
void FlatStore::close_grads(Ctx& c, const Unit& unit) {
  size_t before = moving_.size();
  const Group& data = ranks_->along(Axis::data);
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& g = places_[i];
    if (g.unit != &unit || !g.open) continue;
    if (reduces_early()) {
      clear_unwritten(c, g);
      Tensor all = std::exchange(g.open, {});
      if (held_[g.bucket].divided) {
        Tensor part = c.empty({buckets_[g.bucket].part}, types_.master, MemoryKind::gradients);
        Reduction r = Reduction::scatter(c, data, all.view(), part.view());
        moving_.push_back({i, std::move(all), std::move(part), leaf_ends_, std::move(r)});
      } else {
        Reduction r = Reduction::whole(c, data, all.view());
        moving_.push_back({i, {}, std::move(all), leaf_ends_, std::move(r)});
      }
    } else {
      if (leaf_ends_) {
        clear_unwritten(c, g);
        add_leaf(c, g, std::exchange(g.open, {}));
      }
      if (step_ends_ && !local_) reduce(c, g);
    }
  }
  advance(c, before);
}

// Takes the first `count` sums under way a step further; those that are done leave.
void FlatStore::advance(Ctx& c, size_t count) {
  std::deque<Moving> still;
  for (; count > 0; --count) {
    Moving m = std::move(moving_.front());
    moving_.pop_front();
    if (!m.reduction.step(c)) {
      still.push_back(std::move(m));
      continue;
    }
    m.from = Tensor();
    if (reduces_early()) finish_reduction(c, places_[m.place], std::move(m.to), m.leaf_ends);
  }
  for (; !still.empty(); still.pop_back()) moving_.push_front(std::move(still.back()));
}

void FlatStore::settle(Ctx& c) {
  while (!moving_.empty()) advance(c, moving_.size());
}

void FlatStore::progress() {
  if (!moving_.empty() || zero_ >= 3) ranks_->along(Axis::data).progress();
}

// Stages 2 and 3: the sum over data ranks of one micro batch.
void FlatStore::finish_reduction(Ctx& c, Place& g, Tensor sum, bool leaf_ends) {
  if (!g.part)
    g.part = std::move(sum);
  else
    c.call(Add{g.part.view(), sum.view(), g.part.view()});
  if (leaf_ends) add_leaf(c, g, std::exchange(g.part, {}));
}

void FlatStore::sum_leaves(Ctx& c, Place& g) {
  if (g.open) {
    clear_unwritten(c, g);
    add_leaf(c, g, std::exchange(g.open, {}));
  }
  if (g.part) add_leaf(c, g, std::exchange(g.part, {}));
  while (g.finished.size() > 1) {  // not a power of two: the last ones first
    TensorView later = g.finished.back().view(), sum = g.finished[g.finished.size() - 2].view();
    c.call(Add{sum, later, sum});
    g.finished.pop_back();
  }
}

// The leaves of this rank. Whether there are any.
bool FlatStore::sum_here(Ctx& c, Place& g) {
  if (g.sum) return true;
  sum_leaves(c, g);
  if (g.finished.empty()) return false;
  g.sum = std::move(g.finished.back());
  g.finished.clear();
  if (sequence_ && !buckets_[g.bucket].cut) all_reduce(c, ranks_->along(Axis::tensor), g.sum.view());
  return true;
}

// The leaves of this rank, then, begun here and ended by settle(), those of all ranks.
void FlatStore::reduce(Ctx& c, Place& g) {
  if (g.reduced || !sum_here(c, g)) return;
  g.reduced = true;
  const Group& data = ranks_->along(Axis::data);
  if (data.size() == 1 || reduces_early()) return;
  Reduction r = held_[g.bucket].divided ? Reduction::scatter(c, data, g.sum.view(), sum_view(g)) : Reduction::whole(c, data, g.sum.view());
  moving_.push_back({static_cast<size_t>(&g - places_.data()), {}, {}, false, std::move(r)});
}

TensorView FlatStore::sum_view(const Place& g) const {
  const Range& mine = buckets_[g.bucket].mine;
  return g.sum ? slice(g.sum, reduces_early() ? 0 : mine.begin, {mine.count}) : TensorView{};
}

// The places of use of a tied parameter on this stage count as one gradient.
void FlatStore::note_local(Ctx& c) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<TensorView> sums;
    for (const Place& g : places_)
      if (g.bucket == b && g.sum) sums.push_back(reduces_early() ? sum_view(g) : g.sum.view());
    if (sums.empty()) continue;
    Tensor both;
    for (size_t i = 1; i < sums.size(); ++i) {
      if (!both) both = c.empty({sums[0].count()}, types_.master, MemoryKind::workspace);
      c.call(Add{.a = i == 1 ? sums[0] : both.view(), .b = sums[i], .out = both.view()});
    }
    const TensorView all = both ? both.view() : sums[0];
    const Range range = reduces_early() ? buckets_[b].mine : Range{0, buckets_[b].count};
    for (const Bucket::Span& s : buckets_[b].spans) {
      const int64_t begin = std::max(s.begin, range.begin), end = std::min(s.begin + s.shape.count(), range.begin + range.count);
      if (begin < end && s.param->trainable) c.call(SumSquares{.x = slice(all.data, all.dtype, begin - range.begin, {end - begin}, all.device), .result = &(*local_)[s.param->index]});
    }
  }
}

void FlatStore::finish_grads(Ctx& c) {
  settle(c);
  if (local_ && !reduces_early()) {
    for (Place& g : places_) sum_here(c, g);
    note_local(c);
  }
  for (Place& g : places_) {
    size_t before = moving_.size();
    reduce(c, g);
    advance(c, before);
  }
  settle(c);
  for (Place& g : places_) sum_copies(c, ranks_->along(Axis::tensor), buckets_[g.bucket], buckets_[g.bucket].mine, sum_view(g));
  if (local_ && reduces_early()) note_local(c);
  add_tied(c);
}

// Owner's sum += that of the tied place of use. Where that is on another stage both get the other's sum, and add alike.
void FlatStore::add_tied(Ctx& c) {
  for (Place& g : places_) {
    if (!g.tied || !g.sum || held_[g.bucket].other_stage >= 0) continue;
    Place& own = places_[static_cast<size_t>(held_[g.bucket].own)];
    if (!own.sum) {
      own.sum = std::move(g.sum);
      continue;
    }
    TensorView to = sum_view(own);
    c.call(Add{to, sum_view(g), to});
    g.sum = Tensor();
  }
  for (size_t b = 0; b < held_.size(); ++b) {
    int other = held_[b].other_stage;
    if (other < 0) continue;
    Place& own = places_[static_cast<size_t>(held_[b].own)];
    Place* here = &own;  // the accumulator that this stage has
    for (Place& g : places_)
      if (g.tied && g.bucket == b) here = &g;
    require(static_cast<bool>(here->sum), "store: a tied parameter has no gradient");
    TensorView mine = sum_view(*here);
    Tensor theirs = c.empty({mine.count()}, types_.master, MemoryKind::gradients);
    const Group& stages = ranks_->along(Axis::pipeline);
    Pending sent = stages.send(mine.data, mine.bytes(), other);
    stages.receive(theirs.view().data, mine.bytes(), other).wait();
    sent.wait();
    bool owner = here == &own;
    c.call(Add{owner ? mine : theirs.view(), owner ? theirs.view() : mine, mine});
    if (!owner) own.sum = std::move(here->sum);
  }
}

void FlatStore::end_step() {
  for (Held& h : held_) {
    h.coming_copy.wait();
    h.coming_master.wait();
  }
  for (Place& g : places_) {
    g.open = g.part = g.sum = Tensor();
    g.finished.clear();
    g.leaves = 0;
    g.reduced = false;
  }
  for (ParamPlace& p : at_) p.written = p.ever = false;
  leaf_ends_ = step_ends_ = false;
}

// --- flat views

Range FlatStore::held(size_t b) const { return held_[b].master_whole ? Range{0, buckets_[b].count} : buckets_[b].mine; }
TensorView FlatStore::held_master(size_t b) const { return slice(held_[b].master, types_.master, 0, {held(b).count}); }

TensorView FlatStore::flat_master(size_t b) const {
  return slice(held_[b].master, types_.master, held_[b].master_whole ? buckets_[b].mine.begin : 0, {buckets_[b].mine.count});
}

TensorView FlatStore::flat_copy(size_t b) const {
  if (held_[b].copy.bytes() == 0) return {};
  return slice(held_[b].copy, types_.compute, held_[b].copy_whole ? buckets_[b].mine.begin : 0, {buckets_[b].mine.count});
}

TensorView FlatStore::flat_grad(size_t b) const { return held_[b].own < 0 ? TensorView{} : sum_view(places_[static_cast<size_t>(held_[b].own)]); }

TensorView FlatStore::grad(const Param& p) const {
  const ParamPlace& where = at(p);
  const Held& h = held_[where.bucket];
  if (h.own < 0 || !places_[static_cast<size_t>(h.own)].sum) return {};
  require(!h.divided, "store: of the gradient of '{}' only a part is here", p.name);
  return slice(places_[static_cast<size_t>(h.own)].sum, where.begin, where.shape);
}

// Under stage 3 parts stay where they are.
void FlatStore::publish(Ctx&, size_t b) {
  Held& h = held_[b];
  if (!h.divided || zero_ >= 3) return;
  const Group& data = ranks_->along(Axis::data);
  auto share = [&](const Storage& s, Pending& coming) {
    int64_t bytes = s.bytes() / data.size();
    coming = data.all_gather(s.data() ? s.data() + data.rank() * bytes : nullptr, s.data(), bytes);
  };
  if (h.copy.bytes() > 0) share(h.copy, h.coming_copy);
  if (h.master_whole) share(h.master, h.coming_master);
}

std::vector<const Param*> FlatStore::params_in(const TensorView& v) const {
  std::vector<const Param*> out;
  if (!v.data || v.count() == 0) return out;
  const auto* data = static_cast<const std::byte*>(v.data);
  // `memory` holds elements of bucket b from `first` on.
  auto look = [&](size_t b, const std::byte* memory, int64_t bytes, DType type, int64_t first, const Param* tied) {
    if (!memory || data < memory || data >= memory + bytes) return;
    const int64_t from = first + (data - memory) / size_of(type), end = from + (v.rows() - 1) * v.stride + v.cols();
    if (tied && !buckets_[b].spans.empty()) return out.push_back(tied);
    for (const Bucket::Span& s : buckets_[b].spans)
      if (s.begin < end && from < s.begin + s.shape.count()) out.push_back(s.param);
  };
  auto look_at = [&](size_t b, const Tensor& t, int64_t first, const Param* tied) {
    if (t) look(b, static_cast<const std::byte*>(t.view().data), t.view().bytes(), t.dtype(), first, tied);
  };
  for (size_t b = 0; b < held_.size(); ++b) {
    const Held& h = held_[b];
    const int64_t mine = buckets_[b].mine.begin;
    look(b, h.master.data(), h.master.bytes(), types_.master, h.master_whole ? 0 : mine, nullptr);
    look(b, h.copy.data(), h.copy.bytes(), types_.compute, h.copy_whole ? 0 : mine, nullptr);
    look_at(b, h.full_master, 0, nullptr);
    look_at(b, h.full_copy, 0, nullptr);
  }
  for (const Place& g : places_) {
    const int64_t mine = buckets_[g.bucket].mine.begin;
    look_at(g.bucket, g.open, 0, g.tied);
    look_at(g.bucket, g.part, mine, g.tied);
    look_at(g.bucket, g.sum, reduces_early() ? mine : 0, g.tied);
  }
  return out;
}

std::vector<ParamBox> FlatStore::boxes() const {
  std::vector<ParamBox> out;
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (const Piece& p : pieces_of(buckets_[b], held(b), place_))
      out.push_back({p.param, p.begin, slice(held_[b].master, types_.master, p.from - held(b).begin, p.shape)});
  return out;
}

void FlatStore::refresh_copies(Ctx& c) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Held& h = held_[b];
    if (h.copy.bytes() == 0) continue;
    if (h.copy_whole && h.master_whole) {
      c.call(Cast{held_master(b), slice(h.copy, types_.compute, 0, {buckets_[b].count})});
      continue;
    }
    c.call(Cast{flat_master(b), flat_copy(b)});
    publish(c, b);
    h.coming_copy.wait();
    h.coming_master.wait();
  }
}

bool FlatStore::all_here() const {
  return place_.tensor_size == 1 && ranks_->mesh().pipeline == 1 && std::all_of(held_.begin(), held_.end(), [](const Held& h) { return h.master_whole; });
}

int64_t FlatStore::weight_bytes() const {
  int64_t n = 0;
  for (const Held& h : held_) n += h.master.bytes() + h.copy.bytes();
  return n;
}

}  // namespace ravine
