#include "io/slices.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ravine {
namespace {

constexpr int64_t kMaxPairs = 100'000'000;  // comparisons per tensor; limits the time for a malicious manifest

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.shape.rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (a.begin[i] >= b.begin[i] + b.shape[d] || b.begin[i] >= a.begin[i] + a.shape[d]) return false;
  }
  return true;
}

}  // namespace

std::string Box::text() const {
  std::string s = "[";
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t from = begin[static_cast<size_t>(d)];
    s += fmt::format("{}{}:{}", d ? ", " : "", from, from + shape[d]);
  }
  return s + "]";
}

// Boxes cover the tensor if they are inside it, do not overlap, and have as many elements as the tensor.
std::string cover_fault(const Shape& global, const std::vector<Box>& boxes) {
  std::vector<const Box*> filled;
  for (const Box& b : boxes) {
    if (b.shape.rank() != global.rank() || static_cast<int>(b.begin.size()) != global.rank())
      return fmt::format("slice {} has another number of dims than {}", b.shape.text(), global.text());
    for (int d = 0; d < global.rank(); ++d) {
      const int64_t from = b.begin[static_cast<size_t>(d)];
      if (from < 0 || from > global[d] || b.shape[d] > global[d] - from)
        return fmt::format("slice {} lies outside {}", b.text(), global.text());
    }
    if (b.shape.count() > 0) filled.push_back(&b);
  }
  if (global.rank() > 0)
    std::sort(filled.begin(), filled.end(), [](const Box* a, const Box* b) { return a->begin < b->begin; });
  int64_t pairs = 0;
  for (size_t i = 0; i < filled.size(); ++i) {
    for (size_t j = i + 1; j < filled.size(); ++j) {
      if (global.rank() > 0 && filled[j]->begin[0] >= filled[i]->begin[0] + filled[i]->shape[0]) break;
      if (overlap(*filled[i], *filled[j])) return fmt::format("slices {} and {} overlap", filled[i]->text(), filled[j]->text());
      if (++pairs > kMaxPairs) return "it has too many slices";
    }
  }
  int64_t sum = 0;  // cannot overflow: without overlaps it is at most the size of the tensor
  for (const Box* b : filled) sum += b->shape.count();
  const int64_t all = global.count();
  return sum == all ? "" : fmt::format("slices hold {} of the {} elements of {}", sum, all, global.text());
}

void each_shared_run(const Box& from, const Box& to, const std::function<void(const Run&)>& f) {
  const int rank = from.shape.rank();
  std::array<int64_t, 5> low{}, size{};
  int64_t all = 1;
  for (int d = 0; d < rank; ++d) {
    const auto i = static_cast<size_t>(d);
    low[i] = std::max(from.begin[i], to.begin[i]);
    size[i] = std::min(from.begin[i] + from.shape[d], to.begin[i] + to.shape[d]) - low[i];
    if (size[i] <= 0) return;
    all *= size[i];
  }
  int inner = rank;  // dims [inner, rank) are whole in both boxes
  int64_t run = 1;
  while (inner > 0) {
    const int d = --inner;
    run *= size[static_cast<size_t>(d)];
    if (size[static_cast<size_t>(d)] != from.shape[d] || size[static_cast<size_t>(d)] != to.shape[d]) break;
  }
  std::array<int64_t, 5> at{};
  for (int64_t done = 0; done < all; done += run) {
    Run r{0, 0, run};
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<size_t>(d);
      r.from = r.from * from.shape[d] + low[i] + at[i] - from.begin[i];
      r.to = r.to * to.shape[d] + low[i] + at[i] - to.begin[i];
    }
    f(r);
    for (int d = inner - 1; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < size[static_cast<size_t>(d)]) break;
      at[static_cast<size_t>(d)] = 0;
    }
  }
}

}  // namespace ravine
