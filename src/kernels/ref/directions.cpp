#include <algorithm>
#include <cmath>

#include "kernels/ref/optimizer.h"

namespace ravine::ref {
namespace {

void check_like(const char* op, const TensorView& x, std::initializer_list<std::pair<const char*, const TensorView*>> others) {
  for (auto [what, v] : others) check_vector(op, what, flat(*v), x.count());
}

void run(const WeightedSum& a, void*) {
  check_like(a.name, a.y, {{"x", &a.x}});
  const TensorView ys = flat(a.y), xs = flat(a.x);
  const UpdateSpan all{0, a.y.count()};
  each_piece(a.name, {&all, 1}, a.y.count(), [&](const UpdateSpan&, int64_t from, int64_t n) {
    std::vector<double> y = load_piece(ys, from, n);
    const std::vector<double> x = load_piece(xs, from, n);
    for (int64_t i = 0; i < n; ++i) y[i] = a.keep * y[i] + a.take * x[i];
    store(y.data(), ys, 0, from, n);
  });
}

void run(const AdamDirection& a, void*) {
  check_like(a.name, a.param, {{"grad", &a.grad}, {"m", &a.m}, {"v", &a.v}, {"out", &a.out}});
  const TensorView param = flat(a.param), grad = flat(a.grad), ms = flat(a.m), vs = flat(a.v);
  const UpdateSpan all{0, a.param.count()};
  each_piece(a.name, {&all, 1}, a.param.count(), [&](const UpdateSpan&, int64_t from, int64_t n) {
    const std::vector<double> p = load_piece(param, from, n), g = load_piece(grad, from, n);
    std::vector<double> m = load_piece(ms, from, n), v = load_piece(vs, from, n), out(n);
    for (int64_t i = 0; i < n; ++i) {
      const double x = g[i] * a.grad_scale;
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * x;
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * x * x;
      out[i] = m[i] / (std::sqrt(v[i]) + a.eps) + a.weight_decay * p[i];
    }
    store(m.data(), ms, 0, from, n), store(v.data(), vs, 0, from, n);
    store(out.data(), flat(a.out), 0, from, n);
  });
}

// The matrices of a view; their sizes are the lengths of `row` and `col`.
struct Matrices {
  Matrices(const char* op, const TensorView& x, const TensorView& row, const TensorView& col)
      : columns(x.shape[-1]), rows(x.shape[-2]), count(x.count() / (rows * columns)) {
    check_vector(op, "row", flat(row), count * rows);
    check_vector(op, "col", flat(col), count * columns);
  }
  int64_t columns, rows, count;
};

void run(const FactoredMoments& a, void*) {
  const Matrices all(a.name, a.x, a.row, a.col);
  if (!a.minus.absent()) check_like(a.name, a.x, {{"minus", &a.minus}});
  each_row(all.count, all.rows * all.columns, [&](int64_t i) {
    std::vector<double> row = load_piece(flat(a.row), i * all.rows, all.rows),
                        col = load_piece(flat(a.col), i * all.columns, all.columns), sums(all.columns);
    for (int64_t r = 0; r < all.rows; ++r) {
      const int64_t from = (i * all.rows + r) * all.columns;
      const std::vector<double> x = load_piece(flat(a.x), from, all.columns);
      std::vector<double> less(x.size());
      if (!a.minus.absent()) less = load_piece(flat(a.minus), from, all.columns);
      double sum = 0;
      for (int64_t c = 0; c < all.columns; ++c) {
        const double d = a.scale * x[c] - less[c], square = d * d + a.eps;
        sum += square, sums[c] += square;
      }
      row[r] = a.decay * row[r] + (1 - a.decay) * (sum / all.columns);
    }
    for (int64_t c = 0; c < all.columns; ++c) col[c] = a.decay * col[c] + (1 - a.decay) * (sums[c] / all.rows);
    store(row.data(), flat(a.row), 0, i * all.rows, all.rows);
    store(col.data(), flat(a.col), 0, i * all.columns, all.columns);
  });
}

void run(const FactoredScale& a, void*) {
  const Matrices all(a.name, a.x, a.row, a.col);
  check_like(a.name, a.x, {{"out", &a.out}});
  for (int64_t i = 0; i < all.count; ++i) {
    const std::vector<double> row = load_piece(flat(a.row), i * all.rows, all.rows),
                              col = load_piece(flat(a.col), i * all.columns, all.columns);
    double mean = 0;
    for (double r : row) mean += r / all.rows;
    each_row(all.rows, all.columns, [&](int64_t r) {
      const int64_t from = (i * all.rows + r) * all.columns;
      std::vector<double> x = load_piece(flat(a.x), from, all.columns);
      for (int64_t c = 0; c < all.columns; ++c) x[c] *= a.scale / std::sqrt(row[r] / mean) / std::sqrt(col[c]);
      store(x.data(), flat(a.out), 0, from, all.columns);
    });
  }
}

void run(const RootScale& a, void*) {
  check_like(a.name, a.x, {{"square", &a.square}, {"out", &a.out}});
  const UpdateSpan all{0, a.x.count()};
  each_piece(a.name, {&all, 1}, a.x.count(), [&](const UpdateSpan&, int64_t from, int64_t n) {
    std::vector<double> x = load_piece(flat(a.x), from, n), square = load_piece(flat(a.square), from, n);
    for (int64_t i = 0; i < n; ++i) {
      x[i] *= a.scale;
      square[i] = a.decay * square[i] + (1 - a.decay) * (x[i] * x[i] + a.eps);
      x[i] /= std::sqrt(square[i]);
    }
    store(square.data(), flat(a.square), 0, from, n);
    store(x.data(), flat(a.out), 0, from, n);
  });
}

void run(const Cadam& a, void*) {
  const int64_t columns = a.param.shape[-1], rows = a.param.count() / columns;
  check_like(a.name, a.param, {{"grad", &a.grad}, {"q", &a.q}});
  check_vector(a.name, "s", flat(a.s), rows);
  constexpr double kLargest = 65503, kEps = 1e-8;
  each_row(rows, columns, [&](int64_t r) {
    const int64_t from = r * columns;
    std::vector<double> p = load_piece(flat(a.param), from, columns), m = load_piece(flat(a.q), from, columns),
                        s = load_piece(flat(a.s), r, 1);
    const std::vector<double> g = load_piece(flat(a.grad), from, columns);
    double largest = 0;  // as it is stored
    for (int64_t i = 0; i < columns; ++i) {
      m[i] = a.beta * (m[i] * s[0]) + (1 - a.beta) * (g[i] * a.grad_scale);
      largest = std::max(largest, std::abs(m[i]));
      p[i] = p[i] * (1 - a.lr * a.weight_decay) - a.lr * static_cast<double>((m[i] > 0) - (m[i] < 0));
    }
    s[0] = largest / kLargest + kEps;
    store(s.data(), flat(a.s), 0, r, 1);
    s = load_piece(flat(a.s), r, 1);  // as it is kept
    for (double& x : m) x = std::clamp(x / s[0], -kLargest, kLargest);
    store(m.data(), flat(a.q), 0, from, columns);
    store(p.data(), flat(a.param), 0, from, columns);
  });
}

void run(const TimesRoot& a, void*) {
  check_like(a.name, a.x, {{"v", &a.v}});
  const UpdateSpan all{0, a.x.count()};
  each_piece(a.name, {&all, 1}, a.x.count(), [&](const UpdateSpan&, int64_t from, int64_t n) {
    std::vector<double> x = load_piece(flat(a.x), from, n);
    const std::vector<double> v = load_piece(flat(a.v), from, n);
    for (int64_t i = 0; i < n; ++i) x[i] *= std::sqrt(v[i]) + a.eps;
    store(x.data(), flat(a.x), 0, from, n);
  });
}

void run(const LargestRatio& a, void*) {
  check_like(a.name, a.v, {{"fresh", &a.fresh}});
  const std::vector<double> v = load_piece(flat(a.v), 0, a.v.count()), fresh = load_piece(flat(a.fresh), 0, a.v.count());
  double largest = 0;
  for (size_t i = 0; i < v.size(); ++i) largest = std::max(largest, (std::sqrt(v[i]) + a.eps) / (std::sqrt(fresh[i]) + a.eps));
  a.largest.as<double>()[0] = largest;
}

void check_bits(const char* op, const TensorView& bits, int64_t count) {
  require(bits.dtype == DType::u8 && 8 * bits.count() >= count && bits.contiguous(), "{}: {} bytes of bits for {} numbers", op,
          bits.count(), count);
}

void run(const PackSigns& a, void*) {
  const int64_t count = a.x.count();
  check_vector(a.name, "x", flat(a.x), count);
  check_bits(a.name, a.bits, count);
  parallel_for(ceil_div(count, int64_t{8}), [&](int64_t b) {
    const int64_t n = std::min<int64_t>(8, count - 8 * b);
    std::vector<double> x = load_piece(flat(a.x), 8 * b, n);
    unsigned byte = 0;
    for (int64_t i = 0; i < n; ++i) {
      byte |= (x[i] >= 0 ? 0x80u : 0u) >> i;
      x[i] -= x[i] >= 0 ? a.scale : -a.scale;
    }
    a.bits.as<uint8_t>()[b] = static_cast<uint8_t>(byte);
    store(x.data(), flat(a.x), 0, 8 * b, n);
  });
}

void run(const UnpackSigns& a, void*) {
  const int64_t count = a.out.count();
  check_vector(a.name, "out", flat(a.out), count);
  check_bits(a.name, a.bits, count);
  parallel_for(ceil_div(count, int64_t{8}), [&](int64_t b) {
    const int64_t n = std::min<int64_t>(8, count - 8 * b);
    std::vector<double> out(n);
    if (a.accumulate) out = load_piece(flat(a.out), 8 * b, n);
    for (int64_t i = 0; i < n; ++i) out[i] += a.bits.as<uint8_t>()[b] & (0x80u >> i) ? a.scale : -a.scale;
    store(out.data(), flat(a.out), 0, 8 * b, n);
  });
}

}  // namespace

template <>
Kernel<WeightedSum> kernel_of() {
  return entry<WeightedSum>(run);
}
template <>
Kernel<AdamDirection> kernel_of() {
  return entry<AdamDirection>(run);
}
template <>
Kernel<FactoredMoments> kernel_of() {
  return entry<FactoredMoments>(run);
}
template <>
Kernel<FactoredScale> kernel_of() {
  return entry<FactoredScale>(run);
}
template <>
Kernel<RootScale> kernel_of() {
  return entry<RootScale>(run);
}
template <>
Kernel<Cadam> kernel_of() {
  return entry<Cadam>(run);
}
template <>
Kernel<TimesRoot> kernel_of() {
  return entry<TimesRoot>(run);
}
template <>
Kernel<LargestRatio> kernel_of() {
  return entry<LargestRatio>(run);
}
template <>
Kernel<PackSigns> kernel_of() {
  return entry<PackSigns>(run);
}
template <>
Kernel<UnpackSigns> kernel_of() {
  return entry<UnpackSigns>(run);
}

}  // namespace ravine::ref
