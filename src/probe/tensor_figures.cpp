#include "probe/tensor_figures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"

namespace ravine {
namespace {

constexpr int64_t kFigureBlock = 512;               // elements that are looked at twice while they are in the nearest cache
constexpr int64_t kFigureChunk = int64_t{1} << 16;  // elements of one task
constexpr int kFigureLanes = 8;

// Compiled for three instruction sets, of which the machine's best runs; all give the same bits, since lanes are the same and
// nothing is contracted.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define RAVINE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RAVINE_CLONES
#endif

constexpr uint64_t mixed(uint64_t x) {
  constexpr uint64_t k = 0xd6e8feb86659fd93;
  x ^= x >> 32;
  x *= k;
  x ^= x >> 32;
  x *= k;
  return x ^ (x >> 32);
}

// Sums of a part of a tensor. `spread` is the sum of squared distances from the mean.
struct PartFigures {
  TensorFigures f;
  double sum = 0, squares = 0, spread = 0;
};

// Chan, Golub, LeVeque 1983: the spread of two parts together.
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

// `scale`: a power of two, for f64 only; that of other types is 1.
template <class T>
double number_of(T x, double scale) {
  if constexpr (requires { x.bits; })
    return static_cast<double>(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, double>)
    return x * scale;
  else
    return static_cast<double>(x);
}

// Of n <= kFigureBlock elements, of which the first is number `first`.
template <class T>
RAVINE_CLONES PartFigures block_checksums(const T* v, int64_t n, int64_t first) {
  constexpr uint64_t c = 0x243f6a8885a308d3, g = 0x9e3779b97f4a7c15;
  PartFigures p;
  p.f.count = n;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t b = bits_of(v[i]) + c;
    p.f.order_free += mixed(b);
    p.f.positional += mixed(b + static_cast<uint64_t>(first + i + 1) * g);
  }
  return p;
}

double lane_sum(const double (&lanes)[kFigureLanes]) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// Sums run in lanes, so that the compiler may take several at once; what is behind the n elements counts as left out.
template <class T>
RAVINE_CLONES void block_statistics(const T* v, int64_t n, double scale, PartFigures& p) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  alignas(64) double x[kFigureBlock], counts[kFigureBlock];  // the value, or 0; whether it is finite, 1 or 0
  int64_t finite = 0, nan = 0, plus = 0, minus = 0, zero = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double value = number_of(v[i], scale);
    const bool is_finite = std::abs(value) < kInfinite;
    x[i] = is_finite ? value : 0;
    counts[i] = is_finite ? 1 : 0;
    finite += is_finite, nan += value != value, plus += value == kInfinite, minus += value == -kInfinite, zero += value == 0;
  }
  const int64_t end = (n + kFigureLanes - 1) / kFigureLanes * kFigureLanes;
  for (int64_t i = n; i < end; ++i) x[i] = counts[i] = 0;
  p.f.finite = finite, p.f.nan = nan, p.f.plus_inf = plus, p.f.minus_inf = minus, p.f.zero = zero;
  if (finite == 0) return;
  double sum[kFigureLanes] = {}, l1[kFigureLanes] = {}, squares[kFigureLanes] = {}, low[kFigureLanes], high[kFigureLanes];
  std::fill_n(low, kFigureLanes, kInfinite), std::fill_n(high, kFigureLanes, -kInfinite);
  for (int64_t i = 0; i < end; i += kFigureLanes)
    for (int k = 0; k < kFigureLanes; ++k) {
      const double y = x[i + k];
      sum[k] += y, l1[k] += std::abs(y), squares[k] += y * y;
      const double from = counts[i + k] > 0 ? y : kInfinite, to = counts[i + k] > 0 ? y : -kInfinite;
      low[k] = from < low[k] ? from : low[k];
      high[k] = to > high[k] ? to : high[k];
    }
  p.sum = lane_sum(sum), p.f.l1 = lane_sum(l1), p.squares = lane_sum(squares);
  p.f.min = *std::min_element(low, low + kFigureLanes), p.f.max = *std::max_element(high, high + kFigureLanes);
  p.f.abs_max = std::max(std::abs(p.f.min), std::abs(p.f.max));
  const double mean = p.sum / static_cast<double>(finite);
  double spread[kFigureLanes] = {};
  for (int64_t i = 0; i < end; i += kFigureLanes)
    for (int k = 0; k < kFigureLanes; ++k) {
      const double d = (x[i + k] - mean) * counts[i + k];
      spread[k] += d * d;
    }
  p.spread = lane_sum(spread);
}

// Host work: elements [from, from + n) of the tensor, side by side.
template <class T>
void gather(const TensorView& view, int64_t from, int64_t n, T* to) {
  const int64_t cols = view.cols();
  while (n > 0) {
    const int64_t row = from / cols, col = from % cols, now = std::min(n, cols - col);
    std::memcpy(to, view.row<T>(row) + col, static_cast<size_t>(now) * sizeof(T));
    from += now, to += now, n -= now;
  }
}

template <class T>
PartFigures part_of(const TensorView& view, int64_t from, int64_t to, bool statistics, double scale) {
  PartFigures all;
  T block[kFigureBlock];
  for (int64_t i = from; i < to; i += kFigureBlock) {
    const int64_t n = std::min(kFigureBlock, to - i);
    gather(view, i, n, block);
    PartFigures p = block_checksums(block, n, i);
    if (statistics) block_statistics(block, n, scale, p);
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
  // Squares of f64 may be beyond f64: then sums are taken of numbers near 1.
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

}  // namespace ravine
