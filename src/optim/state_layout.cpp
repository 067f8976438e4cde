#include "optim/state_layout.h"

#include <algorithm>

namespace ravine {
namespace {

// Returns the number of last dims that form an item.
int item_dims(Whole whole, const Shape& shape) {
  const int dims = whole == Whole::element ? 0 : whole == Whole::row ? 1 : whole == Whole::matrix ? 2 : shape.rank();
  return std::min(dims, shape.rank());
}

Shape last_dims(const Shape& shape, int dims) {
  Shape out;
  for (int d = shape.rank() - dims; d < shape.rank(); ++d) out.push_back(shape[d]);
  return out;
}

}  // namespace

std::vector<SpanItems> items_in(const Bucket& bucket, Range shard, Whole whole, int tensor_size) {
  std::vector<SpanItems> out;
  for (size_t i = 0; i < bucket.spans.size(); ++i) {
    const Bucket::Span& s = bucket.spans[i];
    if (!s.param->policy.trainable || s.shape.count() == 0) continue;
    const int dims = item_dims(whole, s.shape), outer = s.shape.rank() - dims;
    SpanItems items{
        .span = i, .param = s.param, .size = last_dims(s.shape, dims).count(), .whole = last_dims(s.param->shape, dims)};
    for (const Cut& cut : s.param->cuts)
      items.cut = items.cut || (cut.axis == Axis::tensor && tensor_size > 1 && cut.dim >= outer);
    int64_t there = s.shape.count() / items.size;
    if (outer > 0)
      there = there / s.shape[0] *
              std::clamp<int64_t>(s.param->shape[0] - s.origin[0], 0, s.shape[0]);  // rows beyond the end are padding
    auto first_from = [&](int64_t element) {
      return std::clamp<int64_t>(ceil_div(std::max<int64_t>(0, element - s.begin), items.size), 0, there);
    };
    items.first = first_from(shard.begin);
    items.count = first_from(shard.begin + shard.count) - items.first;
    if (items.count > 0) out.push_back(items);
  }
  return out;
}

Shape state_shape(const StateDeclaration& state, const Shape& shape) {
  if (state.per == StateDeclaration::Per::element) return shape;
  Shape out;
  if (state.per == StateDeclaration::Per::tensor || shape.rank() == 0) return out;
  const bool column = state.per == StateDeclaration::Per::column;
  for (int d = 0; d + (column ? 2 : 1) < shape.rank(); ++d) out.push_back(shape[d]);
  if (column) out.push_back(shape[-1]);
  if (state.per == StateDeclaration::Per::block) out.push_back(ceil_div(shape[-1], state.block));
  return out;
}

DType state_type(const StateDeclaration& state, DType master) { return state.type.value_or(master); }

int64_t state_count(const StateDeclaration& state, const SpanItems& items) {
  if (!state.is_of(*items.param)) return 0;
  return items.count * (state.per == StateDeclaration::Per::element ? items.size : state_shape(state, items.whole).count());
}

int64_t state_bytes(const UpdateRule& rule, const Param& param, DType master) {
  int64_t n = 0;
  for (const StateDeclaration& s : rule.states())
    if (s.is_of(param)) n += state_shape(s, param.shape).count() * size_of(state_type(s, master));
  return n;
}

int64_t local_state_bytes(const UpdateRule& rule, const Param& param, DType master) {
  int64_t n = 0;
  for (const StateDeclaration& s : rule.states())
    if (s.per_rank && s.is_of(param)) n += state_shape(s, param.shape).count() * size_of(state_type(s, master));
  return n;
}

int64_t state_bytes(const UpdateRule& rule, const Bucket& bucket, int tensor_size) {
  int64_t n = 0;
  if (!bucket.trainable) return 0;
  for (const StateDeclaration& s : rule.states()) {
    int64_t count = rule.sees() == Whole::element ? bucket.owned.count : 0;
    if (rule.sees() != Whole::element)
      for (const SpanItems& items : items_in(bucket, bucket.owned, rule.sees(), tensor_size)) count += state_count(s, items);
    n += count * size_of(state_type(s, bucket.master_type));
  }
  return n;
}

std::vector<StateBox> state_boxes(const StateDeclaration& state, const Bucket& bucket, const SpanItems& items) {
  const Bucket::Span& span = bucket.spans[items.span];
  const Shape inner = state_shape(state, items.whole);
  const int outer = span.shape.rank() - items.whole.rank();
  std::vector<StateBox> out;
  // Consecutive items along one outer dim are one box, others one each.
  const int64_t step = outer == 1 ? items.count : 1;
  for (int64_t i = 0; i < items.count; i += step) {
    StateBox box{
        .from = i * inner.count(), .shape = {}, .begin = std::vector<int64_t>(static_cast<size_t>(outer + inner.rank()))};
    int64_t rest = items.first + i;
    for (int d = outer - 1; d >= 0; --d) {
      box.begin[static_cast<size_t>(d)] = span.origin[static_cast<size_t>(d)] + rest % span.shape[d];
      rest /= span.shape[d];
    }
    for (int d = 0; d < outer; ++d) box.shape.push_back(outer == 1 ? step : 1);
    for (int d = 0; d < inner.rank(); ++d) box.shape.push_back(inner[d]);
    out.push_back(std::move(box));
  }
  return out;
}

}  // namespace ravine
