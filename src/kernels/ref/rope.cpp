#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// (a, b) <- (a cos - b sin, b cos + a sin) for each pair of rotated dims; the inverse has -sin.
void run(const Rope& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols(), r = a.table.cols(), half = r / 2;
  check(a.name, "x", a.x, n, c);
  check(a.name, "table", a.table, a.table.rows(), r);
  check_integers(a.name, "positions", a.positions, DType::i32, n);
  require(a.heads > 0 && c % a.heads == 0, "rope: columns must be a multiple of heads, got {} and {}", c, a.heads);
  int64_t d = c / a.heads;
  require(r % 2 == 0 && a.begin >= 0 && a.begin + r <= d,
          "rope: rotated dims must be even and in the head, got {} from {} of {}", r, a.begin, d);
  const int64_t first = a.interleaved ? 2 : 1, second = a.interleaved ? 1 : half;  // dims between pairs, and in a pair
  for (int64_t i = 0; i < n; ++i) {
    int32_t p = a.positions.as<int32_t>()[i];
    require(p >= 0 && p < a.table.rows(), "rope: positions must be in [0, {}), got {} at {}", a.table.rows(), p, i);
  }
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i), angles = load_row(a.table, a.positions.as<int32_t>()[i]);
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t j = 0; j < half; ++j) {
        double &lo = x[h * d + a.begin + j * first], &hi = (&lo)[second];
        double cos = angles[j], sin = a.inverse ? -angles[half + j] : angles[half + j];
        double rotated = lo * cos - hi * sin;
        hi = hi * cos + lo * sin;
        lo = rotated;
      }
    // other dims do not change
    for (int64_t h = 0; h < a.heads; ++h) store(&x[h * d + a.begin], a.x, i, h * d + a.begin, r);
  });
}

}  // namespace

template <>
Kernel<Rope> kernel_of() {
  return entry<Rope>(run);
}

}  // namespace ravine::ref
