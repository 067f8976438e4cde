// Integer arithmetic that throws Error on overflow, on a remainder or on a value that does not fit.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/error.h"

namespace ravine {

inline int64_t div_exact(int64_t a, int64_t b) {
  require(b != 0 && a % b == 0, "div_exact: {} is not a multiple of {}", a, b);
  return a / b;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

template <class To, class From>
To narrow(From value) {
  To result = static_cast<To>(value);
  require(static_cast<From>(result) == value && ((result < To{}) == (value < From{})), "narrow: {} does not fit", value);
  return result;
}

inline int64_t mul_checked(int64_t a, int64_t b) {
  int64_t r;
  require(!__builtin_mul_overflow(a, b, &r), "mul_checked: {} * {} overflows", a, b);
  return r;
}

inline int64_t add_checked(int64_t a, int64_t b) {
  int64_t r;
  require(!__builtin_add_overflow(a, b, &r), "add_checked: {} + {} overflows", a, b);
  return r;
}

}  // namespace ravine
