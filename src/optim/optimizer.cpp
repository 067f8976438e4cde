#include "optim/optimizer.h"
#include "optim/make_update_rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "files/convert.h"

namespace ravine {

UpdateSpan Optimizer::span_of(const Param& p, int64_t begin, int64_t count) const {
  return {begin, count, p.policy.lr_mult,
          p.decay || options_.decay == DecayOf::all ? options_.weight_decay * p.policy.wd_mult : 0.0};
}

Optimizer::Optimizer(const OptimizerOptions& options, GradStore& store, DeviceKind device, int tensor_rank, int tensor_size,
                     std::unique_ptr<UpdateRule> rule, int group_size, int group_rank, DiskMemory* disk)
    : options_(options),
      store_(store),
      tensor_rank_(tensor_rank),
      tensor_size_(tensor_size),
      rule_(rule ? std::move(rule) : make_update_rule(options_)),
      declared_(rule_->states()),
      states_(declared_.size()),
      group_size_(group_size),
      group_rank_(group_rank),
      disk_(disk) {
  using Per = StateDeclaration::Per;
  if (disk && rule_->sees() == Whole::model)
    throw UserError("offload.optimizer is disk", "offload.optimizer",
                    fmt::format("{} updates all weights at once, with all their states", name(options.type)),
                    "use cpu, or another optimizer.type");
  for (const StateDeclaration& s : declared_) {
    require(s.per != Per::block || s.block > 0, "optimizer: state '{}' is of blocks of {}", s.name, s.block);
    const Whole least = s.per == Per::element  ? Whole::element
                        : s.per == Per::tensor ? Whole::tensor
                        : s.per == Per::column ? Whole::matrix
                                               : Whole::row;
    require(rule_->sees() >= least, "optimizer: state '{}' has one value for what the rule does not see whole", s.name);
    require(!s.of || rule_->sees() > Whole::element,
            "optimizer: state '{}' is not of all parameters, and the rule sees elements", s.name);
  }
  int64_t elements = 0;
  for (const Bucket& b : store.buckets()) {
    require(rule_->unreduced_from() == 0 || (!b.divided() && tensor_size == 1),
            "optimizer: {} knows neither ZeRO nor tensor ranks", name(options.type));
    std::vector<Spans> all;
    for (const Bucket::Span& s : b.spans) {
      if (!s.param->policy.trainable) continue;
      const int64_t from = s.param->policy.from_step;
      require(from == 1 || rule_->sees() != Whole::model, "optimizer: {} sees the model, and '{}' joins it later",
              name(options.type), s.param->name);
      if (from > 1) unfreezing_.push_back(from);
      int64_t begin = std::max(s.begin, b.owned.begin),
              end = std::min(s.begin + s.shape.count(), b.owned.begin + b.owned.count);
      if (begin >= end) continue;
      const UpdateSpan u = span_of(*s.param, begin - b.owned.begin, end - begin);
      auto of_step = std::find_if(all.begin(), all.end(), [&](const Spans& x) { return x.from_step == from; });
      if (of_step == all.end()) of_step = all.insert(all.end(), Spans{from, {}});
      std::vector<UpdateSpan>& spans = of_step->spans;
      bool joins = !spans.empty() && spans.back().begin + spans.back().count == u.begin && spans.back().lr_mult == u.lr_mult &&
                   spans.back().weight_decay == u.weight_decay;
      if (joins)
        spans.back().count += u.count;
      else
        spans.push_back(u);
    }
    spans_.push_back(std::move(all));
    items_.push_back(b.trainable && rule_->sees() != Whole::element ? items_in(b, b.owned, rule_->sees(), tensor_size_)
                                                                    : std::vector<SpanItems>());
    for (size_t i = 0; i < declared_.size(); ++i) {
      int64_t count = b.trainable && rule_->sees() == Whole::element ? b.owned.count : 0;
      for (const SpanItems& items : items_.back()) count += state_count(declared_[i], items);
      states_[i].emplace_back(device, count * size_of(state_type(declared_[i], b.master_type)));
      if (disk_) disk_->take(states_[i].back());
    }
    int64_t own = 0;
    for (const SpanItems& items : items_.back()) {
      own += items.count * rule_->own_count(items.size, group_size_);
      elements += items.count * items.size;
    }
    if (rule_->sees() != Whole::model) own_.emplace_back(device, own * size_of(b.master_type));
  }
  if (rule_->sees() == Whole::model && !store.buckets().empty())
    own_.emplace_back(device, rule_->own_count(elements, group_size_) * size_of(store.buckets()[0].master_type));
  std::sort(unfreezing_.begin(), unfreezing_.end());
  unfreezing_.erase(std::unique(unfreezing_.begin(), unfreezing_.end()), unfreezing_.end());
}

int64_t Optimizer::last_unfrozen() const {
  const auto behind = std::upper_bound(unfreezing_.begin(), unfreezing_.end(), steps_ + 1);
  return behind == unfreezing_.begin() ? 0 : *std::prev(behind);
}

bool Optimizer::frozen_at(size_t bucket, int64_t step) const {
  const std::vector<Bucket::Span>& spans = store_.buckets()[bucket].spans;
  return std::all_of(spans.begin(), spans.end(),
                     [&](const Bucket::Span& s) { return !s.param->policy.trainable || own_step(*s.param, step) < 1; });
}

// Calls f for runs of gradient elements counted on this rank: over all ranks, each element of the gradients is in
// exactly one.
void Optimizer::each_counted_grad(const std::function<void(const TensorView&)>& f) const {
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    Bucket bucket = store_.buckets()[b];
    const TensorView g = store_.owned_grad(b);
    if (g.absent()) continue;
    if (wants_unreduced()) bucket.primary = bucket.owned;
    // Frozen parameters are left out, like those that another rank counts.
    for (Bucket::Span& s : bucket.spans) s.replica = s.replica || own_step(*s.param, steps_ + 1) < 1;
    for (const Range& r : counted_ranges(bucket)) {
      TensorView run = g;
      if (g.data) run.data = static_cast<std::byte*>(g.data) + (r.begin - bucket.owned.begin) * size_of(g.dtype);
      run.shape = {r.count};
      f(run);
    }
  }
}

double Optimizer::grad_norm(Ctx& c, const Group& all) const {
  ExactSum squares;
  each_counted_grad([&](const TensorView& run) { c.call(SumSquares{run, &squares}); });
  return std::sqrt(sum(all, squares).value() * (wants_unreduced() ? group_size_ : 1));
}

int64_t Optimizer::zeros_in_grads() const {
  constexpr int64_t kPiece = 4096;
  std::vector<double> piece(kPiece);
  int64_t zeros = 0;
  each_counted_grad([&](const TensorView& run) {
    if (!run.data) return;  // a plan has no data
    for (int64_t at = 0; at < run.count(); at += kPiece) {
      const int64_t n = std::min(kPiece, run.count() - at);
      convert(run.dtype, static_cast<const std::byte*>(run.data) + at * size_of(run.dtype), DType::f64, piece.data(), n);
      zeros += std::count(piece.begin(), piece.begin() + n, 0.0);
    }
  });
  return zeros;
}

namespace {

// Returns elements of a flat view.
TensorView part_of(const TensorView& v, int64_t begin, int64_t count) {
  return view_of(v.data ? v.as<std::byte>() + begin * size_of(v.dtype) : nullptr, v.dtype, {count}, v.device);
}

Range overlap(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin), end = std::min(a.begin + a.count, b.begin + b.count);
  return {begin, std::max<int64_t>(0, end - begin)};
}

// Moves elements of a bucket within its group: rank r has elements from[r] and needs elements to[r]. `have` and `want`
// are this rank's buffers.
void move_ranges(Ctx& c, const Group& group, const std::vector<Range>& from, const std::vector<Range>& to,
                 const TensorView& have, const TensorView& want) {
  const auto me = static_cast<size_t>(group.rank());
  const int64_t size = size_of(have.absent() ? want.dtype : have.dtype);
  auto at = [](const TensorView& v, const Range& of, const Range& r) { return part_of(v, r.begin - of.begin, r.count); };
  std::vector<Pending> moves;
  for (size_t r = 0; r < from.size(); ++r) {
    if (r == me) continue;
    if (const Range out = overlap(from[me], to[r]); out.count > 0)
      moves.push_back(group.send(at(have, from[me], out).data, out.count * size, static_cast<int>(r)));
    if (const Range in = overlap(from[r], to[me]); in.count > 0)
      moves.push_back(group.receive(at(want, to[me], in).data, in.count * size, static_cast<int>(r)));
  }
  if (const Range both = overlap(from[me], to[me]); both.count > 0)
    c.call(Cast{at(have, from[me], both), at(want, to[me], both)});
}  // the moves are awaited here

// Copies between local parts of items and whole items: a tensor rank has a part of the rows of each item's last dim.
class CutItems {
 public:
  CutItems(const Bucket::Span& span, const SpanItems& items, int tensor_size)
      : param_(*span.param), items_(items), size_(tensor_size) {}
  int64_t whole_count() const { return items_.count * items_.whole.count(); }
  // local: items of tensor rank `rank`, one after another.
  void put(int rank, const TensorView& local, const TensorView& whole) const { copy(rank, local, whole, true); }
  void take(int rank, const TensorView& whole, const TensorView& local) const { copy(rank, local, whole, false); }

 private:
  void copy(int rank, const TensorView& local, const TensorView& whole, bool put) const {
    if (!local.data || !whole.data) return;  // on meta
    const Shape here = local_shape(param_, size_);
    const std::vector<int64_t> origin = local_begin(param_, rank, size_);
    const int dims = items_.whole.rank(), outer = param_.shape.rank() - dims;
    const int64_t bytes = size_of(local.dtype), width = here[-1];
    const int64_t last = std::clamp<int64_t>(items_.whole[-1] - origin.back(), 0, width);
    for (int64_t row = 0; row < items_.count * (items_.size / width); ++row) {
      int64_t rest = row % (items_.size / width), at = 0, scale = items_.whole[-1];
      bool real = last > 0;
      for (int d = dims - 2; d >= 0; --d) {
        const int dim = outer + d;
        const int64_t i = origin[static_cast<size_t>(dim)] + rest % here[dim];
        rest /= here[dim];
        real = real && i < items_.whole[d];
        at += i * scale;
        scale *= items_.whole[d];
      }
      if (!real) continue;
      std::byte* const one = local.as<std::byte>() + row * width * bytes;
      std::byte* const other =
          whole.as<std::byte>() + (row / (items_.size / width) * items_.whole.count() + at + origin.back()) * bytes;
      std::memcpy(put ? other : one, put ? one : other, static_cast<size_t>(last * bytes));
    }
  }
  const Param& param_;
  const SpanItems& items_;
  int size_;
};

}  // namespace

void Optimizer::update(Ctx& c, const UpdateRates& rates, double norm, const std::function<void(const Unit&)>& before_unit,
                       double loss_scale) {
  const double lr = rates.lr;
  if (rates.betas) options_.betas.assign(rates.betas->begin(), rates.betas->end());
  double scale = options_.clip_norm > 0 ? std::min(1.0, options_.clip_norm / (norm + 1e-6)) : 1.0;
  scale /= loss_scale;
  if (wants_unreduced()) scale *= group_size_;
  ++steps_;
  if (rule_->sees() == Whole::model) {
    for (size_t b = 0; b < store_.buckets().size(); ++b)
      if (before_unit && !store_.owned_grad(b).absent()) before_unit(*store_.buckets()[b].unit);
    update_model(c, lr, scale);
    return;
  }
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    if (store_.owned_grad(b).absent() || frozen_at(b, steps_)) continue;
    const Unit& unit = *store_.buckets()[b].unit;
    if (before_unit) before_unit(unit);
    if (disk_ && b + 1 < store_.buckets().size())
      for (const std::vector<Storage>& state : states_) disk_->fetch(state[b + 1]);
    Ctx::Scope scope(c, unit.name);
    if (rule_->sees() == Whole::element)
      update_elements(c, b, lr, scale);
    else
      update_items(c, b, lr, scale);
    store_.publish(c, b);
    if (disk_)
      for (const std::vector<Storage>& state : states_) disk_->drop(state[b]);
  }
}

void Optimizer::update_elements(Ctx& c, size_t b, double lr, double scale) {
  UpdateViews views{
      .param = store_.owned_master(b), .grad = store_.owned_grad(b), .copy = store_.owned_copy(b), .states = {}, .spans = {}};
  for (const std::vector<Storage>& state : states_) {
    const DType type = state_type(declared_[views.states.size()], store_.buckets()[b].master_type);
    views.states.push_back(view_of(state[b].data(), type, {state[b].bytes() / size_of(type)}, state[b].device()));
  }
  for (const Spans& s : spans_[b]) {
    views.spans = s.spans;
    if (steps_ >= s.from_step) rule_->update(c, views, steps_ - s.from_step + 1, lr, scale);
  }
}

TensorView Optimizer::kept(size_t b, size_t s, const SpanItems& items) const {
  const DType type = state_type(declared_[s], store_.buckets()[b].master_type);
  int64_t from = 0;
  for (const SpanItems& i : items_[b]) {
    if (i.span == items.span) {
      const int64_t each = state_count(declared_[s], i) / i.count;
      require(items.first >= i.first && items.first + items.count <= i.first + i.count,
              "optimizer: items of '{}' that are not kept here", store_.buckets()[b].spans[i.span].param->name);
      const Storage& storage = states_[s][b];
      return view_of(storage.data() ? storage.data() + (from + (items.first - i.first) * each) * size_of(type) : nullptr, type,
                     {items.count * each}, storage.device());
    }
    from += state_count(declared_[s], i);
  }
  return {};
}

TensorView Optimizer::own(size_t b, const SpanItems& items) const {
  const DType type = store_.buckets()[b].master_type;
  int64_t from = 0;
  for (const SpanItems& i : items_[b]) {
    const int64_t count = i.count * rule_->own_count(i.size, group_size_);
    if (i.span == items.span)
      return count == 0
                 ? TensorView{}
                 : view_of(own_[b].data() ? own_[b].data() + from * size_of(type) : nullptr, type, {count}, own_[b].device());
    from += count;
  }
  return {};
}

// Updates all tensors in place: nothing is sharded or split.
void Optimizer::update_model(Ctx& c, double lr, double scale) {
  std::vector<std::pair<const Param*, UpdateViews>> all;
  std::deque<UpdateSpan> spans;
  const Group* group = nullptr;
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    const Bucket& bucket = store_.buckets()[b];
    const TensorView master = store_.owned_master(b), grad = store_.owned_grad(b);
    if (grad.absent()) continue;
    group = &c.group(bucket.group);
    for (const SpanItems& items : items_[b]) {
      const Bucket::Span& span = bucket.spans[items.span];
      auto shaped = [&](TensorView v, const Shape& item) {
        v.shape = {1};
        for (int d = 0; d < item.rank(); ++d) v.shape.push_back(item[d]);
        return view_of(v.data, v.dtype, v.shape, v.device);
      };
      const Range range = items.range(bucket);
      UpdateViews v{.param = shaped(part_of(master, range.begin - bucket.owned.begin, range.count), items.whole),
                    .grad = shaped(part_of(grad, range.begin - bucket.owned.begin, range.count), items.whole),
                    .copy = {},
                    .states = {},
                    .spans = {}};
      for (size_t i = 0; i < declared_.size(); ++i)
        v.states.push_back(declared_[i].is_of(*span.param) ? shaped(kept(b, i, items), state_shape(declared_[i], items.whole))
                                                           : TensorView{});
      spans.push_back(span_of(*span.param, 0, range.count));
      v.spans = {&spans.back(), 1};
      v.group = group;
      all.emplace_back(span.param, std::move(v));
    }
  }
  if (all.empty()) return;
  std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first->index < y.first->index; });
  std::vector<UpdateViews> views;
  for (auto& [param, v] : all) views.push_back(std::move(v));
  const DType type = views[0].param.dtype;
  const Storage& mine = own_.front();
  rule_->update_all(c, views, view_of(mine.data(), type, {mine.bytes() / size_of(type)}, mine.device()), *group, steps_, lr,
                    scale);
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    if (store_.owned_grad(b).absent()) continue;
    if (store_.buckets()[b].has_copy()) c.call(Cast{store_.owned_master(b), store_.owned_copy(b)});
    store_.publish(c, b);
  }
}

// Updates span by span: gathers whole items, updates them, and sends them back. All ranks of the group and all tensor
// ranks call it together.
void Optimizer::update_items(Ctx& c, size_t b, double lr, double scale) {
  const Bucket& bucket = store_.buckets()[b];
  const Group &group = c.group(bucket.group), &tensor = c.group(Axis::tensor);
  const bool divided = bucket.divided();
  const auto ranks = static_cast<size_t>(divided ? group.size() : 1);
  std::vector<Range> shards(ranks, bucket.owned);
  std::vector<std::vector<SpanItems>> owners(ranks, items_[b]);
  for (size_t r = 0; r < ranks && divided; ++r) {
    shards[r] = {static_cast<int64_t>(r) * bucket.shard, bucket.shard};
    owners[r] = items_in(bucket, shards[r], rule_->sees(), tensor_size_);
  }
  const auto me = static_cast<size_t>(divided ? group.rank() : 0);
  for (size_t s = 0; s < bucket.spans.size(); ++s) {
    const int64_t step = own_step(*bucket.spans[s].param, steps_);
    if (step < 1) continue;
    std::vector<Range> wanted(ranks);
    const SpanItems* mine = nullptr;
    for (size_t r = 0; r < ranks; ++r)
      for (const SpanItems& items : owners[r])
        if (items.span == s) {
          wanted[r] = items.range(bucket);
          if (r == me) mine = &items;
        }
    if (std::all_of(wanted.begin(), wanted.end(), [](const Range& r) { return r.count == 0; })) continue;
    const TensorView master = store_.owned_master(b), grad = store_.owned_grad(b);
    auto buffer = [&](int64_t count, DType type) {
      return count > 0 ? c.empty({count}, type, MemoryKind::workspace) : Tensor();
    };
    auto view = [](const Tensor& t) { return t ? t.view() : TensorView{}; };
    Tensor params = buffer(wanted[me].count, bucket.master_type), grads = buffer(wanted[me].count, bucket.grad_type);
    if (divided) {
      move_ranges(c, group, shards, wanted, grad, view(grads));
      move_ranges(c, group, shards, wanted, master, view(params));
    } else {
      c.call(Cast{part_of(grad, wanted[0].begin, wanted[0].count), view(grads)});
      c.call(Cast{part_of(master, wanted[0].begin, wanted[0].count), view(params)});
    }
    // Rules of more than elements take masters and gradients of one type.
    if (mine && bucket.grad_type != bucket.master_type) {
      Tensor wide = buffer(wanted[me].count, bucket.master_type);
      c.call(Cast{grads.view(), wide.view()});
      grads = std::move(wide);
    }
    if (mine) {
      const Bucket::Span& span = bucket.spans[s];
      const CutItems cut(span, *mine, tensor_size_);
      // Gathers the local values of all tensor ranks into whole items.
      auto whole = [&](const TensorView& local) {
        Tensor out = c.empty({cut.whole_count()}, local.dtype, MemoryKind::workspace),
               all = c.empty({tensor_size_ * local.count()}, local.dtype, MemoryKind::workspace);
        tensor.all_gather(local.data, all.view().data, local.bytes()).wait();
        for (int r = 0; r < tensor_size_; ++r) cut.put(r, part_of(all.view(), r * local.count(), local.count()), out.view());
        return out;
      };
      auto shaped = [&](TensorView v, const Shape& item) {
        v.shape = {mine->count};
        for (int d = 0; d < item.rank(); ++d) v.shape.push_back(item[d]);
        return view_of(v.data, v.dtype, v.shape, v.device);
      };
      Tensor whole_params, whole_grads;
      std::vector<Tensor> whole_states(declared_.size());
      if (mine->cut) whole_params = whole(params.view()), whole_grads = whole(grads.view());
      UpdateViews views{.param = shaped(mine->cut ? whole_params.view() : params.view(), mine->whole),
                        .grad = shaped(mine->cut ? whole_grads.view() : grads.view(), mine->whole),
                        .copy = {},
                        .states = {},
                        .spans = {}};
      for (size_t i = 0; i < declared_.size(); ++i) {
        if (!declared_[i].is_of(*span.param)) {
          views.states.emplace_back();
          continue;
        }
        TensorView state = kept(b, i, *mine);
        if (mine->cut && declared_[i].per == StateDeclaration::Per::element)
          whole_states[i] = whole(state), state = whole_states[i].view();
        views.states.push_back(shaped(state, state_shape(declared_[i], mine->whole)));
      }
      const UpdateSpan one = span_of(*span.param, 0, views.param.count());
      views.spans = {&one, 1};
      views.own = own(b, *mine);
      views.group = &group;
      rule_->update(c, views, step, lr, scale);
      if (mine->cut) {
        cut.take(tensor_rank_, whole_params.view(), params.view());
        for (size_t i = 0; i < declared_.size(); ++i)
          if (whole_states[i]) cut.take(tensor_rank_, whole_states[i].view(), kept(b, i, *mine));
      }
    }
    if (divided)
      move_ranges(c, group, wanted, shards, view(params), master);
    else
      c.call(Cast{view(params), part_of(master, wanted[0].begin, wanted[0].count)});
  }
  if (bucket.has_copy()) c.call(Cast{store_.owned_master(b), store_.owned_copy(b)});
}

}  // namespace ravine
