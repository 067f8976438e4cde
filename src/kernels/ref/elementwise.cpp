#include <cstring>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

void add(const Add& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "a", a.a, n, c);
  check(a.name, "b", a.b, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.a, i), y = load_row(a.b, i);
    for (int64_t j = 0; j < c; ++j) x[j] += y[j];
    store_row(x, a.out, i);
  });
}

void multiply(const Multiply& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "a", a.a, n, c);
  check_optional(a.name, "b", a.b, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.a, i), y = a.b.absent() ? std::vector<double>(c, 1.0) : load_row(a.b, i);
    for (int64_t j = 0; j < c; ++j) x[j] *= a.scale * y[j];
    store_row(x, a.out, i);
  });
}

void cast(const Cast& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "out", a.out, n, c);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    if (a.round_to != DType::f64)
      for (double& v : x) v = round_to(a.round_to, v);
    store_row(x, a.out, i);
  });
}

// Integers can only be set to zero.
void fill(const Fill& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  require(a.value == 0 || is_float(a.out.dtype), "fill: {} elements can only be set to 0, got {}", name(a.out.dtype), a.value);
  std::vector<double> row(c, a.value);
  each_row(n, c, [&](int64_t i) {
    if (is_float(a.out.dtype)) return store_row(row, a.out, i);
    int64_t size = size_of(a.out.dtype);
    std::memset(a.out.as<char>() + i * a.out.stride * size, 0, c * size);
  });
}

}  // namespace

template <>
Kernel<Add> kernel_of() {
  return entry<Add>(add);
}
template <>
Kernel<Multiply> kernel_of() {
  return entry<Multiply>(multiply);
}
template <>
Kernel<Cast> kernel_of() {
  return entry<Cast>(cast);
}
template <>
Kernel<Fill> kernel_of() {
  return entry<Fill>(fill);
}

}  // namespace ravine::ref
