#include "files/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ravine {
namespace {

template <class T>
constexpr bool kHalf = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

// Returns x rounded to odd: the last bit is set if bits were cut off. A second rounding, to nearest in a type at least
// two bits shorter, then equals one rounding of x (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded
// sums").
float to_odd_float(double x) {
  float f = static_cast<float>(x);
  double back = static_cast<double>(f);
  if (back == x || x != x || std::isinf(x)) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::fabs(back) > std::fabs(x)) --bits;  // towards zero; from infinity to the largest number
  return std::bit_cast<float>(bits | 1u);
}

double to_odd_double(int64_t v) {
  uint64_t m = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  if (m >> 53) m = (m & ~uint64_t{0xfff}) | ((m & 0xfff) ? 0x800u : 0u);
  double d = static_cast<double>(m);
  return v < 0 ? -d : d;
}

template <class To, class From>
To element(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kHalf<From>) {
    return element<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (kHalf<To>) {
    if constexpr (std::is_same_v<From, float>)
      return To(x);
    else if constexpr (std::is_same_v<From, double>)
      return To(to_odd_float(x));
    else if constexpr (sizeof(From) < 4)
      return To(static_cast<float>(x));
    else
      return To(to_odd_float(to_odd_double(x)));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
    // max + 1, exact
    constexpr double past = 2 * static_cast<double>(uint64_t{1} << (std::numeric_limits<To>::digits - 1));
    const double r = std::nearbyint(static_cast<double>(x));
    if (r != r) return 0;
    return r < low ? std::numeric_limits<To>::min() : r >= past ? std::numeric_limits<To>::max() : static_cast<To>(r);
  } else {
    const int64_t v = x;  // NOLINT(bugprone-signed-char-misuse): a number
    if (v < static_cast<int64_t>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (v > static_cast<int64_t>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  }
}

template <class T>
T load(const std::byte* p) {
  if constexpr (std::is_same_v<T, bool>) {
    return *p != std::byte{0};
  } else {
    T x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
}

template <class From, class To>
void run(const std::byte* source, std::byte* target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const To y = element<To>(load<From>(source + i * static_cast<int64_t>(sizeof(From))));
    std::memcpy(target + i * static_cast<int64_t>(sizeof(To)), &y, sizeof y);
  }
}

template <class F>
void visit(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
  fail("convert: unknown type {}", static_cast<int>(t));
}

}  // namespace

void convert(DType from, const void* source, DType to, void* target, int64_t count) {
  require(count >= 0, "convert: count is not negative, got {}", count);
  if (count == 0) return;
  const auto* s = static_cast<const std::byte*>(source);
  auto* d = static_cast<std::byte*>(target);
  if (from == to && from != DType::boolean) {
    std::memcpy(d, s, static_cast<size_t>(count * size_of(from)));
    return;
  }
  visit(from, [&](auto x) { visit(to, [&](auto y) { run<decltype(x), decltype(y)>(s, d, count); }); });
}

}  // namespace ravine
