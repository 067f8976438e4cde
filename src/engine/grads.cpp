#include "engine/grads.h"

#include <algorithm>

#include "base/error.h"

namespace ravine {

bool Grads::has(const TensorRef& ref) const { return entries_.count(ref.id) != 0; }

Tensor Grads::get(const TensorRef& ref) const {
  auto it = entries_.find(ref.id);
  require(it != entries_.end(), "grads: tensor {} has no gradient", ref.id);
  int64_t covered = 0;
  for (auto [from, n] : it->second.written)
    covered += std::max<int64_t>(0, std::min(from + n, ref.column + ref.columns) - std::max(from, ref.column));
  require(covered == ref.columns, "grads: only {} of {} columns of tensor {} were written", covered, ref.columns, ref.id);
  return ref.whole() ? it->second.tensor : it->second.tensor.columns(ref.column, ref.columns);
}

Tensor Grads::take(const TensorRef& ref) {
  Tensor t = get(ref);
  entries_.erase(ref.id);
  return t;
}

Tensor Grads::add_to(const TensorRef& ref, bool& accumulate) {
  auto it = entries_.find(ref.id);
  if (it == entries_.end())
    it = entries_.emplace(ref.id, Entry{Tensor::make(arena_, ref.shape, ref.dtype, MemoryKind::activations), {}}).first;
  auto& written = it->second.written;
  std::pair<int64_t, int64_t> range{ref.column, ref.columns};
  accumulate = std::find(written.begin(), written.end(), range) != written.end();
  if (!accumulate) written.push_back(range);
  return ref.whole() ? it->second.tensor : it->second.tensor.columns(ref.column, ref.columns);
}

void Grads::put(const TensorRef& ref, Tensor t) {
  require(ref.whole() && !has(ref), "grads: tensor {} already has a gradient", ref.id);
  entries_.emplace(ref.id, Entry{std::move(t), {{0, ref.columns}}});
}

bool Grads::only(const std::vector<TensorRef>& refs) const {
  return std::all_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return std::any_of(refs.begin(), refs.end(), [&](const TensorRef& r) { return r.id == entry.first; });
  });
}

void Grads::rename(const TensorRef& from, const TensorRef& to) {
  auto it = entries_.find(from.id);
  if (it == entries_.end() || from.id == to.id) return;
  Entry e = std::move(it->second);
  entries_.erase(it);
  entries_.emplace(to.id, std::move(e));
}

}  // namespace ravine
