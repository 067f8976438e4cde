#include "infer/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/parallel.h"

namespace ravine {

SlotCache::SlotCache(const std::vector<int64_t>& layers, const CacheWidths& widths, DType dtype, int64_t slots, int64_t ranks)
    : widths_(widths), ranks_(ranks), dtype_(dtype), layers_(layers.size()), lengths_(static_cast<size_t>(slots)) {
  require(widths.keys > 0 && widths.values >= 0 && slots > 0, "kv_cache: widths and slots must be above 0, got {}, {} and {}",
          widths.keys, widths.values, slots);
  for (size_t i = 0; i < layers.size(); ++i) {
    index_.resize(std::max(index_.size(), static_cast<size_t>(layers[i]) + 1), -1);
    index_[static_cast<size_t>(layers[i])] = static_cast<int64_t>(i);
  }
}

int64_t SlotCache::bytes() const { return static_cast<int64_t>(layers_.size()) * slots() * capacity_ * row_bytes(); }

void SlotCache::begin_step(int64_t tokens, int64_t most) {
  segments_.clear();
  require(tokens <= most, "kv_cache: {} tokens in a slot of at most {}", tokens, most);
  if (tokens > capacity_) grow(std::min(most, std::max(tokens, 2 * capacity_)));
}

void SlotCache::grow(int64_t capacity) {
  int64_t layers = static_cast<int64_t>(layers_.size());
  int64_t needed = mul_checked(mul_checked(layers * slots(), capacity - capacity_), row_bytes()),
          free = available_memory() / ranks_;
  if (needed > free)
    throw UserError(fmt::format("keys and values of {} sequences of {} tokens need {} more", slots(), capacity,
                                human_bytes(static_cast<double>(needed))),
                    "--max-new-tokens, --batch",
                    fmt::format("this {} has {} free", ranks_ > 1 ? "rank" : "machine", human_bytes(static_cast<double>(free))),
                    "generate fewer tokens, or fewer prompts at a time");
  for (Layer& layer : layers_)
    each_part(layer, [&](Storage& old, int64_t row) {
      Storage larger(DeviceKind::cpu, slots() * capacity * row);
      for (int64_t s = 0; s < slots(); ++s)
        if (length(s) > 0)
          std::memcpy(larger.data() + s * capacity * row, old.data() + s * capacity_ * row,
                      static_cast<size_t>(length(s) * row));
      old = std::move(larger);
    });
  capacity_ = capacity;
}

void SlotCache::extend(int64_t slot, int64_t q_begin, int64_t count) {
  int64_t& length = lengths_[static_cast<size_t>(slot)];
  require(length + count <= capacity_, "kv_cache: slot {} holds {} tokens, room is for {}", slot, length + count, capacity_);
  length += count;
  segments_.push_back({q_begin, count, slot * capacity_, length});
}

void SlotCache::copy(int64_t from, int64_t to) {
  parallel_for(static_cast<int64_t>(layers_.size()), [&](int64_t i) {
    each_part(layers_[static_cast<size_t>(i)], [&](Storage& s, int64_t row) {
      std::memcpy(s.data() + to * capacity_ * row, s.data() + from * capacity_ * row, static_cast<size_t>(length(from) * row));
    });
  });
  lengths_[static_cast<size_t>(to)] = length(from);
}

std::pair<TensorView, TensorView> SlotCache::append(int layer, const TensorView& k, const TensorView& v) {
  const int64_t of_values = v.absent() ? 0 : v.cols();
  require(k.cols() == widths_.keys && of_values == widths_.values && k.dtype == dtype_ && (v.absent() || v.dtype == dtype_),
          "kv_cache: layer {} has rows of {} and {} {}, got {} and {} {}", layer, widths_.keys, widths_.values, name(dtype_),
          k.cols(), of_values, name(k.dtype));
  const int64_t index = layer < static_cast<int>(index_.size()) ? index_[static_cast<size_t>(layer)] : -1;
  require(index >= 0, "kv_cache: layer {} is not kept here", layer);
  Layer& at = layers_[static_cast<size_t>(index)];
  const TensorView keys = view_of(at.k.data(), dtype_, {slots() * capacity_, widths_.keys}),
                   values = v.absent() ? v : view_of(at.v.data(), dtype_, {slots() * capacity_, widths_.values});
  constexpr int64_t kRows = 64;  // rows of a task
  struct Piece {
    int64_t from, to, rows;
  };
  std::vector<Piece> pieces;
  int64_t rows = 0;
  for (const Segment& s : segments_) {
    rows += s.q_count;
    for (int64_t r = 0; r < s.q_count; r += kRows)
      pieces.push_back({s.q_begin + r, s.k_begin + s.k_count - s.q_count + r, std::min(kRows, s.q_count - r)});
  }
  auto copy = [&](const Piece& p) {
    for (auto& [from, into] : {std::pair{&k, &keys}, std::pair{&v, &values}})
      for (int64_t r = 0; r < p.rows && !from->absent(); ++r)
        std::memcpy(into->row_range(p.to + r, 1).data, from->row_range(p.from + r, 1).data,
                    static_cast<size_t>(into->cols() * size_of(dtype_)));
  };
  // A decoding step copies too few rows for several threads.
  if (rows <= kRows)
    for (const Piece& p : pieces) copy(p);
  else
    parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t i) { copy(pieces[static_cast<size_t>(i)]); });
  return {keys, values};
}

}  // namespace ravine
