#include "parallel/flat_grads.h"

#include <algorithm>
#include <utility>

#include "parallel/replicas.h"
#include "parallel/slice.h"

namespace ravine {
namespace {

// Returns the number of ranks whose tokens the parameters of a bucket receive at once.
int64_t sources_of(const FlatTable& t, size_t bucket) {
  return t.buckets[bucket].group == Axis::expert_data ? t.sharding.mesh.expert : 1;
}

// True if every micro batch is summed over ranks, or over sources.
bool summed_early(const FlatTable& t, size_t bucket) {
  return t.zero >= 2 && (t.group(bucket).size() > 1 || sources_of(t, bucket) > 1);
}

}  // namespace

FlatGrads::FlatGrads(std::shared_ptr<const FlatTable> table)
    : table_(std::move(table)),
      own_(table_->buckets.size(), kNone),
      partner_(table_->buckets.size(), kNone),
      targets_(table_->params.params().size()) {
  for (size_t b = 0; b < table_->buckets.size(); ++b) {
    const Bucket& bucket = table_->buckets[b];
    if (!bucket.trainable) continue;
    require(bucket.has_master(), "store: '{}' is trained, and has no master", bucket.spans[0].param->name);
    own_[b] = static_cast<int>(accumulators_.size());
    for (const Bucket::Span& s : bucket.spans) targets_[s.param->index] = {.wanted = true, .accumulator = accumulators_.size()};
    Accumulator& a = accumulators_.emplace_back();
    a.bucket = b;
    a.sources = sources_of(*table_, b);
    a.unit = b < table_->borrowed
                 ? bucket.unit
                 : nullptr;  // owner on another stage: no block writes here; the sum of the place of use becomes it
  }
  for (const Param& p : table_->params.params()) {
    if (!p.tied || !p.tied->policy.trainable) continue;
    const bool used_here = table_->is_local(*p.unit), owned_here = table_->is_local(*p.tied->unit);
    if (!used_here && !owned_here) continue;
    const size_t b = table_->at(p).bucket;
    // the stage of the place of use sends its sum to this stage
    if (!used_here) partner_[b] = table_->stage_of(*p.unit);
    if (!owned_here) partner_[b] = table_->stage_of(*p.tied->unit);
    if (!used_here) continue;
    targets_[p.index] = {.wanted = true, .accumulator = accumulators_.size()};
    Accumulator& a = accumulators_.emplace_back();
    a.bucket = b;
    a.tied = &p;
    a.unit = p.unit;
  }
}

void FlatGrads::open_grads(Ctx& c, const Unit& unit) {
  for (Accumulator& a : accumulators_) {
    if (a.unit != &unit || a.leaf) continue;
    a.leaf = empty(c, a, a.sources * bucket_of(a).count);
    if (a.tied)
      targets_[a.tied->index].written = false;
    else
      for (const Bucket::Span& s : bucket_of(a).spans) targets_[s.param->index].written = false;
  }
}

TensorView FlatGrads::add_to_grad(const Param& p, bool& accumulate) {
  Target& target = targets_[p.index];
  if (!target.wanted) return {};
  const Accumulator& a = accumulators_[target.accumulator];
  require(static_cast<bool>(a.leaf), "store: gradients of '{}' are not open", p.name);
  target.ever = true;
  accumulate = std::exchange(target.written, true);
  const FlatTable::Location& at = table_->at(p);
  return slice(a.leaf, at.begin, at.shape);
}

TensorView FlatGrads::grad_of_source(const Param& p, const TensorView& first, int source) {
  const Accumulator& a = accumulators_[targets_[p.index].accumulator];
  require(source < a.sources, "store: '{}' meets tokens of {} ranks, not of rank {}", p.name, a.sources, source);
  return slice(a.leaf, source * bucket_of(a).count + table_->at(p).begin, first.shape);
}

// Fills padding, unwritten and frozen elements with zero, so that sums over leaves and ranks read numbers only.
void FlatGrads::clear_unwritten(Ctx& c, Accumulator& a) {
  const Bucket& bucket = bucket_of(a);
  auto clear = [&](int64_t begin, int64_t end) {
    for (int64_t s = 0; begin < end && s < a.sources; ++s)
      c.call(Fill{slice(a.leaf, s * bucket.count + begin, {end - begin}), 0});
  };
  int64_t end = 0;
  for (const Bucket::Span& s : bucket.spans) {
    bool written = a.tied ? s.param == a.tied->tied && targets_[a.tied->index].written : targets_[s.param->index].written;
    if (!written || !s.param->policy.trainable) continue;
    clear(end, s.begin);
    end = s.begin + s.shape.count();
  }
  clear(end, bucket.count);
}

// Returns the sum over sources, neighbours first, as over the ranks of a group (engine/ops/collectives.h).
Tensor FlatGrads::join_sources(Ctx& c, const Accumulator& a, Tensor sums) const {
  if (a.sources == 1) return sums;
  const int64_t count = bucket_of(a).count;
  Tensor out = empty(c, a, count);
  for (int64_t stride = 1; stride < a.sources; stride *= 2)
    for (int64_t i = 0; i + stride < a.sources; i += 2 * stride) {
      const TensorView to = slice(sums, i * count, {count}), other = slice(sums, (i + stride) * count, {count});
      c.call(Add{to, other, 2 * stride >= a.sources ? out.view() : to});
    }
  return out;
}

void FlatGrads::end_leaf_of(Ctx& c, Accumulator& a) {
  clear_unwritten(c, a);
  a.leaves.add(c, std::exchange(a.leaf, {}));
}

// Reductions of the previous unit are in flight while a unit is computed.
void FlatGrads::close_grads(Ctx& c, const Unit& unit) {
  size_t before = moving_.size();
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    Accumulator& a = accumulators_[i];
    if (a.unit != &unit || !a.leaf) continue;
    if (summed_early(*table_, a.bucket)) {
      const Group& group = table_->group(a.bucket);
      clear_unwritten(c, a);
      Tensor all = join_sources(c, a, std::exchange(a.leaf, {}));
      if (bucket_of(a).divided()) {
        Tensor shard = empty(c, a, bucket_of(a).shard);
        Reduction r = Reduction::scatter(c, group, all.view(), shard.view());
        moving_.push_back({i, std::move(all), std::move(shard), leaf_ends_, std::move(r)});
      } else {
        Reduction r = Reduction::whole(c, group, all.view());
        moving_.push_back({i, {}, std::move(all), leaf_ends_, std::move(r)});
      }
    } else {
      if (leaf_ends_) end_leaf_of(c, a);
      if (step_ends_ && !local_) reduce(c, a);
    }
  }
  advance(c, before);
}

// Advances the first `count` reductions in flight by one step, and removes the finished ones.
void FlatGrads::advance(Ctx& c, size_t count) {
  std::deque<Moving> still;
  for (; count > 0; --count) {
    Moving m = std::move(moving_.front());
    moving_.pop_front();
    if (!m.reduction.step(c)) {
      still.push_back(std::move(m));
      continue;
    }
    m.from = Tensor();
    Accumulator& a = accumulators_[m.accumulator];
    if (summed_early(*table_, a.bucket)) add_micro(c, a, std::move(m.to), m.leaf_ends);
  }
  for (; !still.empty(); still.pop_back()) moving_.push_front(std::move(still.back()));
}

void FlatGrads::wait_reduced(Ctx& c) {
  while (!moving_.empty()) advance(c, moving_.size());
}

// Adds the reduced gradient of one micro batch.
void FlatGrads::add_micro(Ctx& c, Accumulator& a, Tensor micro, bool leaf_ends) {
  if (!a.leaf_sum)
    a.leaf_sum = std::move(micro);
  else
    c.call(Add{a.leaf_sum.view(), micro.view(), a.leaf_sum.view()});
  if (leaf_ends) a.leaves.add(c, std::exchange(a.leaf_sum, {}));
}

// Sums the leaves of this rank. Returns false if there are none.
bool FlatGrads::sum_leaves(Ctx& c, Accumulator& a) {
  if (a.sum) return true;
  if (a.leaf) end_leaf_of(c, a);
  if (a.leaf_sum) a.leaves.add(c, std::exchange(a.leaf_sum, {}));
  Tensor total = a.leaves.total(c);
  if (!total) return false;
  // Sources were joined before, if every micro batch is reduced.
  a.sum = summed_early(*table_, a.bucket) ? std::move(total) : join_sources(c, a, std::move(total));
  if (table_->sequence && !bucket_of(a).cut) all_reduce(c, table_->ranks->along(Axis::tensor), a.sum.view());
  return true;
}

// Sums the leaves of this rank, then starts the reduction over ranks, which wait_reduced() ends.
void FlatGrads::reduce(Ctx& c, Accumulator& a) {
  if (a.reduced || !sum_leaves(c, a)) return;
  a.reduced = true;
  const Group& group = table_->group(a.bucket);
  if (group.size() == 1 || summed_early(*table_, a.bucket) || keep_local_) return;
  Reduction r = bucket_of(a).divided() ? Reduction::scatter(c, group, a.sum.view(), owned_sum(a))
                                       : Reduction::whole(c, group, a.sum.view());
  moving_.push_back({static_cast<size_t>(&a - accumulators_.data()), {}, {}, false, std::move(r)});
}

TensorView FlatGrads::owned_sum(const Accumulator& a) const {
  const Range& owned = bucket_of(a).owned;
  return a.sum ? slice(a.sum, summed_early(*table_, a.bucket) ? 0 : owned.begin, {owned.count}) : TensorView{};
}

// Adds squares of gradients to *local_. The places of use of a tied parameter on this stage are one gradient.
void FlatGrads::note_local(Ctx& c, bool early) {
  for (size_t b = 0; b < table_->buckets.size(); ++b) {
    if (summed_early(*table_, b) != early) continue;
    std::vector<TensorView> sums;
    Tensor both;
    for (const Accumulator& a : accumulators_) {
      if (a.bucket != b || !a.sum) continue;
      sums.push_back(early ? owned_sum(a) : a.sum.view());
      if (sums.size() == 1) continue;
      const bool second = !both;
      if (second) both = empty(c, a, sums[0].count(), MemoryKind::workspace);
      c.call(Add{.a = second ? sums[0] : both.view(), .b = sums.back(), .out = both.view()});
    }
    if (sums.empty()) continue;
    const TensorView all = both ? both.view() : sums[0];
    const Range range = early ? table_->buckets[b].owned : Range{0, table_->buckets[b].count};
    for (const Bucket::Span& s : table_->buckets[b].spans) {
      const int64_t begin = std::max(s.begin, range.begin),
                    end = std::min(s.begin + s.shape.count(), range.begin + range.count);
      if (begin < end && s.param->policy.trainable)
        c.call(SumSquares{.x = slice(all.data, all.dtype, begin - range.begin, {end - begin}, all.device),
                          .result = &(*local_)[s.param->index]});
    }
  }
}

void FlatGrads::finish_grads(Ctx& c) {
  wait_reduced(c);
  if (local_) {
    for (Accumulator& a : accumulators_)
      if (!summed_early(*table_, a.bucket)) sum_leaves(c, a);
    note_local(c, false);
  }
  for (Accumulator& a : accumulators_) {
    size_t before = moving_.size();
    reduce(c, a);
    advance(c, before);
  }
  wait_reduced(c);
  for (Accumulator& a : accumulators_)
    sum_replicas(c, table_->ranks->along(Axis::tensor), bucket_of(a), bucket_of(a).owned, owned_sum(a));
  if (local_) note_local(c, true);
  add_tied(c);
}

// Adds the sum of the tied place of use to the sum of the owner. If they are on two stages, both stages exchange their
// sums, and add in the same order.
void FlatGrads::add_tied(Ctx& c) {
  for (Accumulator& a : accumulators_) {
    if (!a.tied || !a.sum || partner_[a.bucket] != kNone) continue;
    Accumulator& owner = own(a.bucket);
    if (!owner.sum) {
      owner.sum = std::move(a.sum);
      continue;
    }
    TensorView to = owned_sum(owner);
    c.call(Add{to, owned_sum(a), to});
    a.sum = Tensor();
  }
  for (size_t b = 0; b < partner_.size(); ++b) {
    if (partner_[b] == kNone) continue;
    Accumulator &owner = own(b), *local = &owner;  // local: the accumulator of this stage
    for (Accumulator& a : accumulators_)
      if (a.tied && a.bucket == b) local = &a;
    require(static_cast<bool>(local->sum), "store: a tied parameter has no gradient");
    TensorView ours = owned_sum(*local);
    Tensor theirs = empty(c, *local, ours.count());
    const Group& stages = table_->ranks->along(Axis::pipeline);
    Pending sent = stages.send(ours.data, ours.bytes(), partner_[b]);
    stages.receive(theirs.view().data, ours.bytes(), partner_[b]).wait();
    sent.wait();
    const bool owned_here = local == &owner;
    c.call(Add{owned_here ? ours : theirs.view(), owned_here ? theirs.view() : ours, ours});
    if (!owned_here) owner.sum = std::move(local->sum);
  }
}

void FlatGrads::end_step() {
  for (Accumulator& a : accumulators_) {
    a.leaf = a.leaf_sum = a.sum = Tensor();
    a.leaves.clear();
    a.reduced = false;
  }
  for (Target& t : targets_) t.written = t.ever = false;
  leaf_ends_ = step_ends_ = false;
}

TensorView FlatGrads::owned_grad(size_t b) const {
  return own_[b] == kNone ? TensorView{} : owned_sum(accumulators_[static_cast<size_t>(own_[b])]);
}

TensorView FlatGrads::grad(const Param& p) const {
  const FlatTable::Location& at = table_->at(p);
  const int own = own_[at.bucket];
  if (own == kNone || !accumulators_[static_cast<size_t>(own)].sum) return {};
  require(!table_->buckets[at.bucket].divided(), "store: of the gradient of '{}' only a shard is owned", p.name);
  return slice(accumulators_[static_cast<size_t>(own)].sum, at.begin, at.shape);
}

std::vector<const Param*> FlatGrads::grads_in(const TensorView& v) const {
  std::vector<const Param*> out;
  for (const Accumulator& a : accumulators_) {
    const int64_t shard = bucket_of(a).owned.begin;
    std::vector<const Param*> found;
    auto look_at = [&](const TensorView& t, int64_t first) {
      find_params(bucket_of(a), t.data, t.bytes(), t.dtype, first, v, found);
    };
    auto look = [&](const Tensor& t, int64_t first) {
      if (t) look_at(t.view(), first);
    };
    for (int64_t s = 0; a.leaf && s < a.sources; ++s) look_at(slice(a.leaf, s * bucket_of(a).count, {bucket_of(a).count}), 0);
    look(a.leaf_sum, shard);
    look(a.sum, summed_early(*table_, a.bucket) ? shard : 0);
    if (a.tied && !found.empty()) found = {a.tied};
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

}  // namespace ravine
