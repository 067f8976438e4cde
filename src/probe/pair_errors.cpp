#include "probe/pair_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "files/convert.h"
#include "probe/lanes.h"

namespace ravine {
namespace {

constexpr int64_t kPairBlock = 1024, kPairChunk = 64 * kPairBlock;  // elements converted at once; elements of one task
constexpr int64_t kFarthest = std::numeric_limits<int64_t>::max();

// Returns the index of a number in the order of its type: neighbours are 1 apart, as are the smallest numbers of both
// signs.
template <class Bits, class Number>
int64_t order_of(Number x) {
  const auto bits = std::bit_cast<Bits>(x);
  constexpr Bits sign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const auto magnitude = static_cast<int64_t>(bits & ~sign);
  return bits & sign ? -magnitude : magnitude;
}

int64_t order_of_value(DType type, double x) {
  switch (type) {
    case DType::f64:
      return order_of<uint64_t>(x);
    case DType::f32:
      return order_of<uint32_t>(static_cast<float>(x));
    case DType::bf16:
      return order_of<uint16_t>(bf16(static_cast<float>(x)));
    default:
      return order_of<uint16_t>(f16(static_cast<float>(x)));
  }
}

// `type`: the type with fewer bits; an integer type if both sides are integers.
template <class Real>
int64_t steps_between(DType type, Real a, Real b) {
  if (!is_float(type)) {
    const Real d = std::abs(b - a);
    return d < static_cast<Real>(kFarthest) ? static_cast<int64_t>(d) : kFarthest;
  }
  const int64_t x = order_of_value(type, static_cast<double>(a)), y = order_of_value(type, static_cast<double>(b));
  int64_t d = 0;
  if (__builtin_sub_overflow(std::max(x, y), std::min(x, y), &d)) return kFarthest;
  return d;
}

// Sums over a range of elements. Products are summed over elements that are finite on both sides.
template <class Real>
struct PairSums {
  PairErrors e;
  Real aa = 0, bb = 0, ab = 0, dd = 0, d = 0;
};

template <class Real>
void note_pair(PairSums<Real>& s, DType type, Real a, Real b, int64_t at) {
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    ++s.e.ulps[0];
    if (std::isfinite(a)) s.aa += a * a, s.bb += b * b, s.ab += a * b;
    return;
  }
  ++s.e.differing;
  double distance = std::numeric_limits<double>::infinity();
  int64_t steps = kFarthest;
  if (std::isfinite(a) && std::isfinite(b)) {
    distance = static_cast<double>(std::abs(b - a));
    steps = steps_between(type, a, b);
    s.aa += a * a, s.bb += b * b, s.ab += a * b, s.dd += (b - a) * (b - a), s.d += b - a;
  } else {
    ++s.e.not_finite_on_one;
  }
  if (s.e.at < 0 || distance > s.e.max_abs) s.e.max_abs = distance, s.e.at = at, s.e.a_at = a, s.e.b_at = b;
  s.e.max_ulp = std::max(s.e.max_ulp, steps);
  ++s.e.ulps[static_cast<size_t>(std::lower_bound(kUlpBins.begin(), kUlpBins.end(), steps) - kUlpBins.begin())];
}

// For blocks of finite numbers in types of at most 32 bits. The result is the same as by note_pair, except for the
// order of sums.

RAVINE_CLONES bool all_finite(const double* x, int64_t n) {
  uint64_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t magnitude = std::bit_cast<uint64_t>(x[i]) << 1;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest < std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity()) << 1;
}

// Adds the sums of n elements, n a multiple of the lanes. Returns the largest difference.
RAVINE_CLONES double add_sums(PairSums<double>& s, const double* a, const double* b, int64_t n) {
  Lanes aa{}, bb{}, ab{}, dd{}, d{}, far{}, x, y;
  for (int64_t i = 0; i < n; i += kLanes) {
    std::memcpy(&x, a + i, sizeof x), std::memcpy(&y, b + i, sizeof y);
    const Lanes z = y - x, distance = z < 0 ? -z : z;
    aa += x * x, bb += y * y, ab += x * y, dd += z * z, d += z;
    far = distance > far ? distance : far;
  }
  s.aa += lane_sum(aa), s.bb += lane_sum(bb), s.ab += lane_sum(ab), s.dd += lane_sum(dd), s.d += lane_sum(d);
  double largest = 0;
  for (int k = 0; k < kLanes; ++k) largest = std::max(largest, far[k]);
  return largest;
}

// Adds the ULP distances of n elements. T: the type with fewer bits. Indices and unsigned distances fit 32 bits.
template <class T>
RAVINE_CLONES void add_steps(PairErrors& e, const double* a, const double* b, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  uint32_t steps[kPairBlock];
  uint32_t differing = 0, most = 0;
  for (int64_t i = 0; i < n; ++i) differing += a[i] != b[i];
  for (int64_t i = 0; i < n; ++i) {
    const auto x = std::bit_cast<Bits>(T(static_cast<float>(a[i]))), y = std::bit_cast<Bits>(T(static_cast<float>(b[i])));
    constexpr auto sign = static_cast<uint32_t>(1) << (sizeof(Bits) * 8 - 1);
    const auto mx = static_cast<int32_t>(x & ~sign), my = static_cast<int32_t>(y & ~sign);
    const int32_t p = x & sign ? -mx : mx, q = y & sign ? -my : my;
    steps[i] =
        p > q ? static_cast<uint32_t>(p) - static_cast<uint32_t>(q) : static_cast<uint32_t>(q) - static_cast<uint32_t>(p);
  }
  for (int64_t i = 0; i < n; ++i) most = steps[i] > most ? steps[i] : most;
  uint32_t below = 0;
  for (size_t bin = 0; bin < kUlpBins.size(); ++bin) {
    const auto end = static_cast<uint32_t>(kUlpBins[bin]);
    uint32_t within = 0;
    for (int64_t i = 0; i < n; ++i) within += steps[i] <= end;
    e.ulps[bin] += within - below;
    below = within;
  }
  e.ulps.back() += n - below;
  e.differing += differing;
  e.max_ulp = std::max<int64_t>(e.max_ulp, most);
}

void note_finite(PairSums<double>& s, DType type, const double* a, const double* b, int64_t n, int64_t first) {
  const double largest = add_sums(s, a, b, n);
  if (type == DType::f32)
    add_steps<float>(s.e, a, b, n);
  else if (type == DType::bf16)
    add_steps<bf16>(s.e, a, b, n);
  else
    add_steps<f16>(s.e, a, b, n);
  if (largest == 0 || largest <= s.e.max_abs) return;
  int64_t i = 0;
  while (std::abs(b[i] - a[i]) != largest) ++i;
  s.e.max_abs = largest, s.e.at = first + i, s.e.a_at = a[i], s.e.b_at = b[i];
}

template <class Real>
void join(PairSums<Real>& all, const PairSums<Real>& part) {
  all.aa += part.aa, all.bb += part.bb, all.ab += part.ab, all.dd += part.dd, all.d += part.d;
  all.e.differing += part.e.differing, all.e.not_finite_on_one += part.e.not_finite_on_one;
  if (part.e.at >= 0 && (all.e.at < 0 || part.e.max_abs > all.e.max_abs))
    all.e.max_abs = part.e.max_abs, all.e.at = part.e.at, all.e.a_at = part.e.a_at, all.e.b_at = part.e.b_at;
  all.e.max_ulp = std::max(all.e.max_ulp, part.e.max_ulp);
  for (size_t i = 0; i < all.e.ulps.size(); ++i) all.e.ulps[i] += part.e.ulps[i];
}

struct Side {
  DType type;
  const std::byte* bytes;
};

// Reads elements that need not be aligned.
template <class T>
RAVINE_CLONES void load_floats(const std::byte* from, int64_t n, double* to) {
  T block[kPairBlock];
  std::memcpy(block, from, static_cast<size_t>(n) * sizeof(T));
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(static_cast<float>(block[i]));
}

// Reads elements [from, from + n), n <= kPairBlock, as numbers. i64 is not converted through f64, which has 53 bits.
template <class Real>
void load_block(const Side& side, int64_t from, int64_t n, Real* to) {
  const std::byte* at = side.bytes + from * size_of(side.type);
  if constexpr (std::is_same_v<Real, double>) {
    if (side.type == DType::f32)
      load_floats<float>(at, n, to);
    else if (side.type == DType::bf16)
      load_floats<bf16>(at, n, to);
    else if (side.type == DType::f16)
      load_floats<f16>(at, n, to);
    else
      convert(side.type, at, DType::f64, to, n);
  } else if (side.type == DType::i64) {
    int64_t block[kPairBlock];
    convert(side.type, at, DType::i64, block, n);
    std::copy_n(block, n, to);
  } else {
    double block[kPairBlock];
    convert(side.type, at, DType::f64, block, n);
    std::copy_n(block, n, to);
  }
}

template <class Real>
PairErrors errors_as(DType type, const Side& a, const Side& b, int64_t count) {
  const int64_t chunks = (count + kPairChunk - 1) / kPairChunk;
  std::vector<PairSums<Real>> parts(static_cast<size_t>(chunks));
  parallel_for(chunks, [&](int64_t chunk) {
    Real x[kPairBlock], y[kPairBlock];
    PairSums<Real>& sums = parts[static_cast<size_t>(chunk)];
    const int64_t end = std::min(count, (chunk + 1) * kPairChunk);
    for (int64_t from = chunk * kPairChunk; from < end; from += kPairBlock) {
      const int64_t n = std::min(kPairBlock, end - from);
      load_block(a, from, n, x), load_block(b, from, n, y);
      if constexpr (std::is_same_v<Real, double>)
        if (is_float(type) && n % kLanes == 0 && all_finite(x, n) && all_finite(y, n)) {
          note_finite(sums, type, x, y, n, from);
          continue;
        }
      for (int64_t i = 0; i < n; ++i) note_pair(sums, type, x[i], y[i], from + i);
    }
  });
  PairSums<Real> all;
  for (const PairSums<Real>& p : parts) join(all, p);
  PairErrors& e = all.e;
  e.count = count;
  const Real norm_a = std::sqrt(all.aa), norm_b = std::sqrt(all.bb);
  e.norm_a = static_cast<double>(norm_a), e.norm_b = static_cast<double>(norm_b);
  const int64_t finite = count - e.not_finite_on_one;
  e.bias = finite > 0 ? static_cast<double>(all.d / static_cast<Real>(finite)) : 0;
  if (norm_a > 0 && norm_b > 0)
    e.cosine = static_cast<double>(all.ab / (norm_a * norm_b));
  else
    e.cosine = norm_a == norm_b ? 1 : 0;
  e.relative = e.not_finite_on_one > 0 ? std::numeric_limits<double>::infinity()
               : e.differing == 0      ? 0
                                       : static_cast<double>(std::sqrt(all.dd) / norm_a);
  return e;
}

}  // namespace

PairErrors errors_between(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b) {
  // Holds every i64 and every f64, and the squares of the largest and the smallest.
  using Wide = long double;
  static_assert(std::numeric_limits<Wide>::digits >= 64 && std::numeric_limits<Wide>::min_exponent < -2200);
  const auto count = static_cast<int64_t>(a.size()) / size_of(a_type);
  require(count == static_cast<int64_t>(b.size()) / size_of(b_type), "compare: {} bytes of {} and {} of {}", a.size(),
          name(a_type), b.size(), name(b_type));
  const DType type = !is_float(a_type) || (is_float(b_type) && epsilon(b_type) > epsilon(a_type)) ? b_type : a_type;
  const Side x{a_type, a.data()}, y{b_type, b.data()};
  const bool wide = size_of(a_type) == 8 || size_of(b_type) == 8;
  return wide ? errors_as<Wide>(type, x, y, count) : errors_as<double>(type, x, y, count);
}

std::string element_text(DType type, long double value, int digits) {
  return is_float(type) ? fmt::format("{:.{}g}", static_cast<double>(value), digits) : fmt::format("{:.0f}", value);
}

}  // namespace ravine
