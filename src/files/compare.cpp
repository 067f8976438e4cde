#include "files/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "files/convert.h"

namespace ravine {
namespace {

constexpr int64_t kChunk = 1 << 16;
constexpr int64_t kBlock = 1 << 10;  // elements that are converted at a time

struct Part : Difference {
  double dot = 0, aa = 0, bb = 0;
};

// Returns the index of x among the f32 numbers: neighbours differ by 1, both zeros have index 0.
int64_t step_of(double x) {
  const auto bits = std::bit_cast<int32_t>(static_cast<float>(x));
  return bits < 0 ? int64_t{INT32_MIN} - bits : bits;
}

// Returns |x - y| of two i64, exact before the conversion: a double may not hold them.
double exact_distance(const std::byte* x, const std::byte* y) {
  int64_t u, v;
  std::memcpy(&u, x, sizeof u);
  std::memcpy(&v, y, sizeof v);
  const auto a = static_cast<uint64_t>(u), b = static_cast<uint64_t>(v);
  return static_cast<double>(u > v ? a - b : b - a);
}

// Adds one pair of elements. `distance` is |x - y|; unused if one of them is NaN.
void add_element(Part& p, double x, double y, double distance, int64_t index) {
  const bool x_nan = x != x, y_nan = y != y;
  if (x_nan && y_nan) return;
  double abs = std::numeric_limits<double>::infinity(), rel = abs;
  if (x_nan || y_nan) {
    ++p.nan_on_one;
  } else {
    abs = distance;
    rel = abs == 0 ? 0 : std::isinf(abs) ? abs : abs / std::max(std::fabs(x), std::fabs(y));
    p.max_ulp = std::max(p.max_ulp, std::abs(step_of(x) - step_of(y)));
  }
  p.max_rel = std::max(p.max_rel, rel);
  if (p.at < 0 || abs > p.max_abs) {
    p.max_abs = abs;
    p.at = index;
  }
}

Part compare_chunk(DType a_type, const std::byte* a, DType b_type, const std::byte* b, int64_t first, int64_t last) {
  const int64_t a_size = size_of(a_type), b_size = size_of(b_type);
  std::array<double, kBlock> x, y;
  Part p;
  for (int64_t from = first; from < last; from += kBlock) {
    const int64_t n = std::min(kBlock, last - from);
    const std::byte *pa = a + from * a_size, *pb = b + from * b_size;
    convert(a_type, pa, DType::f64, x.data(), n);
    convert(b_type, pb, DType::f64, y.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const double u = x[static_cast<size_t>(i)], v = y[static_cast<size_t>(i)];
      if (std::isfinite(u) && std::isfinite(v)) p.dot += u * v, p.aa += u * u, p.bb += v * v;
      p.nan_on_both += u != u && v != v;
      const bool same = a_type == b_type ? std::memcmp(pa + i * a_size, pb + i * b_size, static_cast<size_t>(a_size)) == 0
                                         : u == v || (u != u && v != v);
      if (same) continue;
      ++p.differing;
      const bool whole = a_type == DType::i64 && b_type == DType::i64;
      const double distance = whole ? exact_distance(pa + i * a_size, pb + i * b_size) : u == v ? 0 : std::fabs(u - v);
      add_element(p, u, v, distance, from + i);
    }
  }
  return p;
}

double cosine_of(const Part& p) {
  if (p.aa == 0 && p.bb == 0) return 1;
  if (p.aa == 0 || p.bb == 0) return 0;
  return p.dot / (std::sqrt(p.aa) * std::sqrt(p.bb));
}

}  // namespace

Difference compare(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b) {
  const int64_t count = div_exact(static_cast<int64_t>(a.size()), size_of(a_type));
  require(count == div_exact(static_cast<int64_t>(b.size()), size_of(b_type)), "compare: both sides have {} elements, got {}",
          count, b.size() / static_cast<size_t>(size_of(b_type)));
  Part all;
  all.count = count;
  const int64_t chunks = ceil_div(count, kChunk);
  std::vector<Part> parts(static_cast<size_t>(chunks));
  parallel_for(chunks, [&](int64_t c) {
    parts[static_cast<size_t>(c)] =
        compare_chunk(a_type, a.data(), b_type, b.data(), c * kChunk, std::min(count, (c + 1) * kChunk));
  });
  for (const Part& p : parts) {
    all.differing += p.differing;
    all.nan_on_one += p.nan_on_one;
    all.nan_on_both += p.nan_on_both;
    all.max_rel = std::max(all.max_rel, p.max_rel);
    all.max_ulp = std::max(all.max_ulp, p.max_ulp);
    if (p.at >= 0 && (all.at < 0 || p.max_abs > all.max_abs)) {
      all.max_abs = p.max_abs;
      all.at = p.at;
    }
    all.dot += p.dot;
    all.aa += p.aa;
    all.bb += p.bb;
  }
  if (all.differing > 0) all.cosine = cosine_of(all);
  return all;
}

}  // namespace ravine
