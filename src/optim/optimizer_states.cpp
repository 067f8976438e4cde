// The states of an optimizer as memory and as parts of a checkpoint.
#include <algorithm>
#include <numeric>

#include "optim/optimizer.h"

namespace ravine {

int64_t Optimizer::bytes() const {
  std::vector<int64_t> by_bucket(store_.buckets().size(), 0);
  for (const std::vector<Storage>& state : states_)
    for (size_t b = 0; b < state.size(); ++b) by_bucket[b] += state[b].bytes();
  int64_t n = disk_ ? DiskMemory::most_at_once(by_bucket) : std::accumulate(by_bucket.begin(), by_bucket.end(), int64_t{0});
  for (const Storage& s : own_) n += s.bytes();
  return n;
}

bool Optimizer::diverged() const { return ranks_with_buffers() > 1 && steps_ >= rule_->unreduced_from() && rule_->diverges(); }

std::vector<Optimizer::StatePiece> Optimizer::per_rank_states(size_t b) const {
  std::vector<StatePiece> out;
  if (ranks_with_buffers() == 1 || items_[b].empty()) return out;
  auto add = [&](const TensorView& errors, const Param* param) {
    if (!errors.absent()) out.push_back({"errors", param, errors, {errors.count()}, {0}});
  };
  if (rule_->sees() == Whole::model) {
    const bool first =
        std::all_of(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(b), [](const auto& i) { return i.empty(); });
    const DType type = store_.buckets()[b].master_type;
    if (first) add(view_of(own_[0].data(), type, {own_[0].bytes() / size_of(type)}, own_[0].device()), items_[b][0].param);
  } else {
    for (const SpanItems& items : items_[b]) add(own(b, items), items.param);
  }
  if (!diverged()) return out;
  for (StatePiece& piece : states(b, Of::kept))
    for (const StateDeclaration& s : declared_)
      if (s.per_rank && s.name == piece.state) out.push_back(std::move(piece));
  return out;
}

std::vector<Optimizer::StatePiece> Optimizer::states(size_t b, Of of) const {
  using Per = StateDeclaration::Per;
  const Bucket& bucket = store_.buckets()[b];
  std::vector<StatePiece> out;
  if (!bucket.trainable) return out;
  const bool primary = of == Of::primary;
  const Range wanted = primary ? bucket.primary : bucket.owned;
  const auto items =
      rule_->sees() == Whole::element ? std::vector<SpanItems>() : items_in(bucket, wanted, rule_->sees(), tensor_size_);
  for (size_t s = 0; s < declared_.size(); ++s) {
    const StateDeclaration& state = declared_[s];
    const DType type = state_type(state, bucket.master_type);
    auto box = [&](const Bucket::Span& span, TensorView values, int64_t from, const Shape& shape,
                   const std::vector<int64_t>& begin) {
      const TensorView view =
          view_of(values.data ? values.as<std::byte>() + from * size_of(type) : nullptr, type, shape, values.device);
      out.push_back({state.name, span.param, view, state_shape(state, span.param->shape), begin});
    };
    // For a state shaped like the parameter: adds elements `range`; `values` holds the elements from `first` on.
    auto like = [&](const TensorView& values, int64_t first, Range range) {
      for (const Piece& piece : pieces_of(bucket, range)) {
        const Bucket::Span& span = *std::find_if(bucket.spans.begin(), bucket.spans.end(),
                                                 [&](const Bucket::Span& x) { return x.param == piece.param; });
        if (piece.param->policy.trainable && !(primary && span.replica))
          box(span, values, piece.from - first, piece.shape, piece.begin);
      }
    };
    if (rule_->sees() == Whole::element) {
      const Storage& storage = states_[s][b];
      like(view_of(storage.data(), type, {bucket.owned.count}, storage.device()), bucket.owned.begin, wanted);
      continue;
    }
    for (const SpanItems& i : items) {
      const Bucket::Span& span = bucket.spans[i.span];
      if (!state.is_of(*span.param)) continue;
      if (state.per == Per::element) {
        like(kept(b, s, i), i.range(bucket).begin, i.range(bucket));
      } else if (!primary || (i.cut ? tensor_rank_ == 0 : !span.replica)) {
        for (const StateBox& at : state_boxes(state, bucket, i)) box(span, kept(b, s, i), at.from, at.shape, at.begin);
      }
    }
  }
  return out;
}

}  // namespace ravine
