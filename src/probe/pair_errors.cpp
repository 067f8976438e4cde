#include "probe/pair_errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "files/convert.h"

namespace ravine {
namespace {

constexpr int64_t kPairBlock = 1024, kPairChunk = 64 * kPairBlock;  // elements converted at once; of one task
constexpr int64_t kFarthest = std::numeric_limits<int64_t>::max();

// Numbers of a type in their order: neighbours are 1 apart, and so are the smallest of either sign.
template <class Bits, class Number>
int64_t place_in_order(Number x) {
  const auto bits = std::bit_cast<Bits>(x);
  constexpr Bits sign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const auto magnitude = static_cast<int64_t>(bits & ~sign);
  return bits & sign ? -magnitude : magnitude;
}

int64_t place_of(DType type, double x) {
  switch (type) {
    case DType::f64:
      return place_in_order<uint64_t>(x);
    case DType::f32:
      return place_in_order<uint32_t>(static_cast<float>(x));
    case DType::bf16:
      return place_in_order<uint16_t>(bf16(static_cast<float>(x)));
    case DType::f16:
      return place_in_order<uint16_t>(f16(static_cast<float>(x)));
    default:
      return static_cast<int64_t>(x);
  }
}

int64_t steps_between(DType type, double a, double b) {
  const int64_t x = place_of(type, a), y = place_of(type, b);
  int64_t d = 0;
  if (__builtin_sub_overflow(std::max(x, y), std::min(x, y), &d)) return kFarthest;
  return d;
}

// Of a run of elements. Sums are of elements that are finite on both sides.
struct PairSums {
  PairErrors e;
  double aa = 0, bb = 0, ab = 0, dd = 0, d = 0;
};

void note_pair(PairSums& s, DType type, double a, double b, int64_t at) {
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    ++s.e.ulps[0];
    if (std::isfinite(a)) s.aa += a * a, s.bb += b * b, s.ab += a * b;
    return;
  }
  ++s.e.differing;
  double distance = std::numeric_limits<double>::infinity();
  int64_t steps = kFarthest;
  if (std::isfinite(a) && std::isfinite(b)) {
    distance = std::abs(b - a);
    steps = steps_between(type, a, b);
    s.aa += a * a, s.bb += b * b, s.ab += a * b, s.dd += (b - a) * (b - a), s.d += b - a;
  } else {
    ++s.e.not_finite_on_one;
  }
  if (s.e.at < 0 || distance > s.e.max_abs) s.e.max_abs = distance, s.e.at = at, s.e.a_at = a, s.e.b_at = b;
  s.e.max_ulp = std::max(s.e.max_ulp, steps);
  ++s.e.ulps[static_cast<size_t>(std::lower_bound(kUlpBins.begin(), kUlpBins.end(), steps) - kUlpBins.begin())];
}

void join(PairSums& all, const PairSums& part) {
  all.aa += part.aa, all.bb += part.bb, all.ab += part.ab, all.dd += part.dd, all.d += part.d;
  all.e.differing += part.e.differing, all.e.not_finite_on_one += part.e.not_finite_on_one;
  if (part.e.at >= 0 && (all.e.at < 0 || part.e.max_abs > all.e.max_abs))
    all.e.max_abs = part.e.max_abs, all.e.at = part.e.at, all.e.a_at = part.e.a_at, all.e.b_at = part.e.b_at;
  all.e.max_ulp = std::max(all.e.max_ulp, part.e.max_ulp);
  for (size_t i = 0; i < all.e.ulps.size(); ++i) all.e.ulps[i] += part.e.ulps[i];
}

}  // namespace

PairErrors errors_between(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b) {
  const auto count = static_cast<int64_t>(a.size()) / size_of(a_type);
  require(count == static_cast<int64_t>(b.size()) / size_of(b_type), "compare: {} bytes of {} and {} of {}", a.size(),
          name(a_type), b.size(), name(b_type));
  const DType type = !is_float(a_type) || (is_float(b_type) && epsilon(b_type) > epsilon(a_type)) ? b_type : a_type;
  const int64_t chunks = (count + kPairChunk - 1) / kPairChunk;
  std::vector<PairSums> parts(static_cast<size_t>(chunks));
  parallel_for(chunks, [&](int64_t chunk) {
    double x[kPairBlock], y[kPairBlock];
    PairSums& sums = parts[static_cast<size_t>(chunk)];
    const int64_t end = std::min(count, (chunk + 1) * kPairChunk);
    for (int64_t from = chunk * kPairChunk; from < end; from += kPairBlock) {
      const int64_t n = std::min(kPairBlock, end - from);
      convert(a_type, a.data() + from * size_of(a_type), DType::f64, x, n);
      convert(b_type, b.data() + from * size_of(b_type), DType::f64, y, n);
      for (int64_t i = 0; i < n; ++i) note_pair(sums, type, x[i], y[i], from + i);
    }
  });
  PairSums all;
  for (const PairSums& p : parts) join(all, p);
  PairErrors& e = all.e;
  e.count = count;
  e.norm_a = std::sqrt(all.aa), e.norm_b = std::sqrt(all.bb);
  const int64_t finite = count - e.not_finite_on_one;
  e.bias = finite > 0 ? all.d / static_cast<double>(finite) : 0;
  if (e.norm_a > 0 && e.norm_b > 0)
    e.cosine = all.ab / (e.norm_a * e.norm_b);
  else
    e.cosine = e.norm_a == e.norm_b ? 1 : 0;
  e.relative = e.not_finite_on_one > 0 ? std::numeric_limits<double>::infinity()
               : e.differing == 0      ? 0
                                       : std::sqrt(all.dd) / e.norm_a;
  return e;
}

}  // namespace ravine
