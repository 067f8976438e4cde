#include "probe/compare_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ravine {
namespace {

// Statistics give the least error. A difference d with random signs changes mean and L1 norm by |d| times a normal
// number of size 1. Both are below 1/32 once in 1600 times.
constexpr double kOfLeast = 32;

// Returns the tensor for error_bound: the type with fewer bits, and the figures of A if they are known.
CallTensor tensor_of(const ComparedPair& p) {
  const bool coarser = rounding_of(p.b.dtype) > rounding_of(p.a.dtype);
  CallTensor t{.name = p.a.tensor, .output = p.a.output, .type = coarser ? p.b.dtype : p.a.dtype, .count = p.a.figures.count};
  t.columns = p.a.shape.rank() ? std::max<int64_t>(1, p.a.shape[-1]) : 1;
  t.values = p.a.values;
  if (p.a.figures.has_statistics)
    t.norm = p.a.figures.l2, t.largest = p.a.figures.abs_max;
  else
    t.norm = p.exact ? p.exact->norm_a : std::sqrt(static_cast<double>(t.count)), t.largest = std::min(1.0, t.norm);
  const double other = p.b.figures.has_statistics ? p.b.figures.l2 : std::numeric_limits<double>::infinity();
  if (!p.a.output && p.error > 0) t.off = t.norm > 0 ? p.error * t.norm : other;
  if (p.by == ComparedBy::statistics) t.off *= kOfLeast;
  return t;
}

}  // namespace

double least_error(const TensorFigures& a, const TensorFigures& b) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const bool rough = a.rough || b.rough;
  if (rough && !a.all_finite() && !b.all_finite()) return 0;  // the counts are unknown
  if (a.nan != b.nan || a.plus_inf != b.plus_inf || a.minus_inf != b.minus_inf) return kAny;
  for (const TensorFigures* f : {&a, &b})  // a log may lack a value, and sums may be infinite
    for (const double x : {f->min, f->max, f->abs_max, f->mean, f->l1, f->l2})
      if (!std::isfinite(x)) return kAny;
  const double n = std::sqrt(static_cast<double>(std::max<int64_t>(1, a.finite)));
  // By the triangle inequality in L2, and |sum d| <= sqrt(n) |d|, | |a|_1 - |b|_1 | <= sqrt(n) |d|, largest element <=
  // |d|.
  double least = a.no_l2 || b.no_l2 ? 0 : std::abs(a.l2 - b.l2);
  if (!a.no_mean && !b.no_mean) least = std::max(least, std::abs(a.mean - b.mean) * n);
  if (!rough) least = std::max(least, std::abs(a.l1 - b.l1) / n);
  for (const double d : {a.min - b.min, a.max - b.max, a.abs_max - b.abs_max}) least = std::max(least, std::abs(d));
  if (least == 0) return 0;
  return a.l2 > 0 ? least / a.l2 : kAny;
}

ErrorBound bounds_of(std::span<const ComparedPair> call, const ComparedPair& written) {
  std::vector<CallTensor> tensors;
  size_t at = 0;
  for (const ComparedPair& p : call) {
    if (&p == &written) at = tensors.size();
    tensors.push_back(tensor_of(p));
  }
  ErrorBound bound = error_bound(written.a.op, tensors, tensors[at]);
  const double size = tensors[at].norm;
  if (size == 0) {  // relative to 0: either all is allowed or nothing
    const double other = written.b.figures.has_statistics ? written.b.figures.l2 : std::numeric_limits<double>::infinity();
    return {other <= 2 * bound.own + bound.inherited ? std::numeric_limits<double>::infinity() : 0, 0};
  }
  return {2 * bound.own / size, bound.inherited / size};
}

}  // namespace ravine
