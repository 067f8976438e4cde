#include "probe/tensor_figures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "probe/lanes.h"

namespace ravine {
namespace {

constexpr int64_t kFigureBlock = 512;               // elements that are read twice while they are in the L1 cache
constexpr int64_t kFigureChunk = int64_t{1} << 16;  // elements of one task
constexpr size_t kCacheLine = 64;

constexpr uint64_t mixed(uint64_t x) {
  constexpr uint64_t k = 0xd6e8feb86659fd93;
  x ^= x >> 32;
  x *= k;
  x ^= x >> 32;
  x *= k;
  return x ^ (x >> 32);
}

// Figures of a part of a tensor. `spread`: sum of squared distances from the mean.
struct PartFigures {
  TensorFigures f;
  double sum = 0, squares = 0, spread = 0;
};

// Adds a part (Chan, Golub, LeVeque 1983, for the spread of two parts).
void join(PartFigures& a, const PartFigures& b) {
  if (b.f.finite > 0) {
    const auto na = static_cast<double>(a.f.finite), nb = static_cast<double>(b.f.finite);
    const double d = b.sum / nb - (a.f.finite > 0 ? a.sum / na : 0);
    a.spread += b.spread + (a.f.finite > 0 ? d * d * na * nb / (na + nb) : 0);
    a.f.min = a.f.finite > 0 ? std::min(a.f.min, b.f.min) : b.f.min;
    a.f.max = a.f.finite > 0 ? std::max(a.f.max, b.f.max) : b.f.max;
  }
  a.sum += b.sum, a.squares += b.squares, a.f.l1 += b.f.l1;
  a.f.abs_max = std::max(a.f.abs_max, b.f.abs_max);
  a.f.count += b.f.count, a.f.finite += b.f.finite, a.f.nan += b.f.nan, a.f.zero += b.f.zero;
  a.f.plus_inf += b.f.plus_inf, a.f.minus_inf += b.f.minus_inf;
  a.f.order_free += b.f.order_free, a.f.positional += b.f.positional;
}

template <class T>
uint64_t bits_of(T x) {
  if constexpr (requires { x.bits; })
    return x.bits;
  else if constexpr (sizeof(T) == 8)
    return std::bit_cast<uint64_t>(x);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<uint32_t>(x);
  else
    return static_cast<std::make_unsigned_t<T>>(x);
}

// Adds the checksums of n elements; the first has index `first`.
template <class T>
RAVINE_CLONES void add_checksums(const T* v, int64_t n, int64_t first, TensorFigures& f) {
  constexpr uint64_t c = 0x243f6a8885a308d3, g = 0x9e3779b97f4a7c15;
  uint64_t order_free = 0, positional = 0, position = static_cast<uint64_t>(first + 1) * g;
  for (int64_t i = 0; i < n; ++i, position += g) {
    const uint64_t b = bits_of(v[i]) + c;
    order_free += mixed(b);
    positional += mixed(b + position);
  }
  f.order_free += order_free, f.positional += positional;
}

// A type that holds all numbers of T; for i64, f64 with 53 bits.
template <class T>
using Number = std::conditional_t<sizeof(T) <= 2 || std::is_same_v<T, float>, float, double>;

// `scale`: a power of two for f64; 1 for other types.
template <class T>
RAVINE_CLONES void to_numbers(const T* v, int64_t n, double scale, Number<T>* to) {
  for (int64_t i = 0; i < n; ++i)
    if constexpr (std::is_same_v<T, double>)
      to[i] = v[i] * scale;
    else
      to[i] = static_cast<Number<T>>(v[i]);
}

// True if all numbers are finite. Counts the zeros.
template <class N>
RAVINE_CLONES bool all_finite(const N* x, int64_t n, int64_t& zeros) {
  using Bits = std::conditional_t<sizeof(N) == 4, uint32_t, uint64_t>;
  constexpr Bits infinity = std::bit_cast<Bits>(std::numeric_limits<N>::infinity());
  Bits largest = 0, zero = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Bits magnitude = std::bit_cast<Bits>(x[i]) << 1 >> 1;
    largest = magnitude > largest ? magnitude : largest;
    zero += magnitude == 0;
  }
  zeros = static_cast<int64_t>(zero);
  return largest < infinity;
}

// Computes statistics of n finite numbers, n a multiple of the lanes.
template <class N>
RAVINE_CLONES void finite_statistics(const N* x, int64_t n, PartFigures& p) {
  typedef N Few __attribute__((vector_size(kLanes * sizeof(N))));  // NOLINT(modernize-use-using): of a dependent type
  Few few;
  std::memcpy(&few, x, sizeof few);
  Few low = few, high = few;
  Lanes sum{}, l1{}, squares{}, spread{};
  for (int64_t i = 0; i < n; i += kLanes) {
    std::memcpy(&few, x + i, sizeof few);
    low = few < low ? few : low, high = few > high ? few : high;
    const Lanes y = __builtin_convertvector(few, Lanes);
    sum += y, l1 += y < 0 ? -y : y, squares += y * y;
  }
  p.sum = lane_sum(sum), p.f.l1 = lane_sum(l1), p.squares = lane_sum(squares);
  p.f.min = p.f.max = static_cast<double>(low[0]);
  for (int k = 0; k < kLanes; ++k) {
    p.f.min = std::min(p.f.min, static_cast<double>(low[k]));
    p.f.max = std::max(p.f.max, static_cast<double>(high[k]));
  }
  const double mean = p.sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; i += kLanes) {
    std::memcpy(&few, x + i, sizeof few);
    const Lanes d = __builtin_convertvector(few, Lanes) - mean;
    spread += d * d;
  }
  p.spread = lane_sum(spread);
}

// Computes statistics of any numbers, element by element in the same lanes.
template <class N>
void any_statistics(const N* x, int64_t n, PartFigures& p) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Lanes sum{}, l1{}, squares{}, spread{};
  p.f.min = kInfinite, p.f.max = -kInfinite;
  for (int64_t i = 0; i < n; ++i) {
    const auto y = static_cast<double>(x[i]);
    if (std::abs(y) < kInfinite) {
      ++p.f.finite;
      sum[i % kLanes] += y, l1[i % kLanes] += std::abs(y), squares[i % kLanes] += y * y;
      p.f.min = std::min(p.f.min, y), p.f.max = std::max(p.f.max, y);
    } else {
      y != y ? ++p.f.nan : y > 0 ? ++p.f.plus_inf : ++p.f.minus_inf;
    }
  }
  if (p.f.finite == 0) return void(p.f.min = p.f.max = 0);
  p.sum = lane_sum(sum), p.f.l1 = lane_sum(l1), p.squares = lane_sum(squares);
  const double mean = p.sum / static_cast<double>(p.f.finite);
  for (int64_t i = 0; i < n; ++i)
    if (const auto y = static_cast<double>(x[i]); std::abs(y) < kInfinite) spread[i % kLanes] += (y - mean) * (y - mean);
  p.spread = lane_sum(spread);
}

// Computes statistics of n <= kFigureBlock elements.
template <class T>
void block_statistics(const T* v, int64_t n, double scale, PartFigures& p) {
  Number<T> numbers[kFigureBlock];
  const Number<T>* x = numbers;
  if constexpr (std::is_same_v<T, float>)
    x = v;
  else
    to_numbers(v, n, scale, numbers);
  if (all_finite(x, n, p.f.zero) && n % kLanes == 0) {
    p.f.finite = n;
    finite_statistics(x, n, p);
  } else {
    any_statistics(x, n, p);
  }
  p.f.abs_max = std::max(std::abs(p.f.min), std::abs(p.f.max));
}

// Host work: returns elements [from, from + n), n <= kFigureBlock. The result points into the tensor, or into `block`
// if the elements are in several rows or not aligned for T.
template <class T>
const T* block_of(const TensorView& view, int64_t from, int64_t n, T* block) {
  const int64_t cols = view.contiguous() ? view.count() : view.cols();
  int64_t row = from / cols, col = from % cols;
  const T* at = view.row<T>(row) + col;
  if (col + n <= cols && reinterpret_cast<uintptr_t>(at) % alignof(T) == 0) return at;
  for (T* to = block; n > 0; ++row, col = 0) {
    const int64_t now = std::min(n, cols - col);
    std::memcpy(to, view.row<T>(row) + col, static_cast<size_t>(now) * sizeof(T));
    to += now, n -= now;
  }
  return block;
}

template <class T>
PartFigures part_of(const TensorView& view, int64_t from, int64_t to, bool statistics, double scale) {
  PartFigures all;
  T memory[kFigureBlock];
  for (int64_t i = from; i < to; i += kFigureBlock) {
    const int64_t n = std::min(kFigureBlock, to - i);
    const T* block = block_of(view, i, n, memory);
    for (size_t k = 0; k < sizeof memory; k += kCacheLine)  // the next block, if it follows in memory
      __builtin_prefetch(reinterpret_cast<const char*>(block) + sizeof memory + k);
    add_checksums(block, n, i, all.f);
    all.f.count += n;
    if (!statistics) continue;
    PartFigures p;
    block_statistics(block, n, scale, p);
    join(all, p);
  }
  return all;
}

template <class T>
PartFigures all_of(const TensorView& view, bool statistics, double scale = 1) {
  const int64_t count = view.count(), chunks = (count + kFigureChunk - 1) / kFigureChunk;
  std::vector<PartFigures> parts(static_cast<size_t>(chunks));
  parallel_for(chunks, [&](int64_t i) {
    parts[static_cast<size_t>(i)] =
        part_of<T>(view, i * kFigureChunk, std::min(count, (i + 1) * kFigureChunk), statistics, scale);
  });
  PartFigures all;
  for (const PartFigures& p : parts) join(all, p);
  return all;
}

PartFigures figures_by_type(const TensorView& view, bool statistics) {
  switch (view.dtype) {
    case DType::i64:
      return all_of<int64_t>(view, statistics);
    case DType::i32:
      return all_of<int32_t>(view, statistics);
    case DType::i16:
      return all_of<int16_t>(view, statistics);
    case DType::i8:
      return all_of<int8_t>(view, statistics);
    case DType::u8:
    case DType::boolean:
      return all_of<uint8_t>(view, statistics);
    default:
      return visit_float(view.dtype, [&](auto zero) { return all_of<decltype(zero)>(view, statistics); });
  }
}

}  // namespace

TensorFigures figures_of(const TensorView& view, bool statistics) {
  PartFigures all = figures_by_type(view, statistics);
  TensorFigures& f = all.f;
  f.has_statistics = statistics;
  // Squares of f64 may overflow: the sums are then of scaled numbers near 1.
  double scale = 1;
  if (view.dtype == DType::f64 && f.abs_max > 0 && (f.abs_max > 1e140 || f.abs_max < 1e-140)) {
    scale = std::ldexp(1.0, std::clamp(-std::ilogb(f.abs_max), -1000, 1000));
    const PartFigures scaled = all_of<double>(view, statistics, scale);
    all.sum = scaled.sum, all.spread = scaled.spread, all.squares = scaled.squares, f.l1 = scaled.f.l1 / scale;
  }
  if (f.finite > 0) {
    const auto n = static_cast<double>(f.finite);
    f.mean = all.sum / n / scale;
    f.std = std::sqrt(all.spread / n) / scale;
    f.l2 = std::sqrt(all.squares) / scale;
  }
  return f;
}

// Host work: moves bytes.
std::vector<std::byte> packed(const TensorView& v) {
  std::vector<std::byte> out(static_cast<size_t>(v.bytes()));
  const auto row = static_cast<size_t>(v.cols() * size_of(v.dtype));
  for (int64_t r = 0; r < v.rows(); ++r)
    std::memcpy(out.data() + static_cast<size_t>(r) * row,
                static_cast<const std::byte*>(v.data) + r * v.stride * size_of(v.dtype), row);
  return out;
}

}  // namespace ravine
