#include "probe/compare_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace ravine {
namespace {

constexpr double kFewRoundings = 8;  // of an element that is made by a handful of operations
constexpr double kOfSum = 4;         // times sqrt(K) v
constexpr double kMostCondition = 1e6;

// The L2 norm of A's tensor where it is known, else that of as many ones.
double norm_of(const ComparedPair& p) {
  if (p.a.figures.has_statistics) return p.a.figures.l2;
  return p.exact ? p.exact->norm_a : std::sqrt(static_cast<double>(p.a.figures.count));
}

const ComparedPair* read_as(std::span<const ComparedPair> call, std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (const ComparedPair& p : call)
      if (!p.a.output && p.a.tensor == name) return &p;
  return nullptr;
}

bool all_f64(std::span<const ComparedPair> call) {
  return std::all_of(call.begin(), call.end(), [](const ComparedPair& p) {
    return !is_float(p.a.dtype) || (p.a.dtype == DType::f64 && p.b.dtype == DType::f64);
  });
}

double u_of(const ComparedPair& p) { return std::max(rounding_of(p.a.dtype), rounding_of(p.b.dtype)); }

// Of the kernel adamw (kernels/updates.h), by its own formula; g the gradient times the factor of clipping, a few roundings each:
//   m' = b1 m + (1 - b1) g        |d m'| <= |d m| + |d g|
//   v' = b2 v + (1 - b2) g^2      all of it positive, so |d v'| / |v'| <= |d v| / |v| + 2 max|g| |d g| / |g^2|, and
//                                 |g^2| >= |g|^2 / sqrt(n)
//   p' = p - lr (m' / (sqrt(v') + eps) + decay p): an element whose gradient is rounding alone may move by all of lr either way
std::optional<CallBounds> bounds_of_adamw(std::span<const ComparedPair> call, const ComparedPair& written) {
  const ComparedPair *grad = read_as(call, {"grad"}), *m = read_as(call, {"m"}), *v = read_as(call, {"v"}),
                     *param = read_as(call, {"param"}), *scalars = read_as(call, {"scalars"});
  if (!grad || !m || !v || !param) return std::nullopt;
  const auto count = static_cast<double>(written.a.figures.count);
  const double out = norm_of(written);
  if (out == 0) return std::nullopt;
  CallBounds b{.own = kFewRoundings * u_of(written), .inherited = 0};
  auto apart = [&](const ComparedPair& p) { return p.error > 0 ? p.error * norm_of(p) : 0; };  // |d|
  if (written.a.tensor == "m") {
    b.own *= std::max(1.0, (norm_of(*m) + norm_of(*grad)) / out);
    b.inherited = (apart(*m) + apart(*grad)) / out;
  } else if (written.a.tensor == "v") {
    const TensorFigures& g = grad->a.figures;
    const double largest = g.has_statistics ? g.abs_max : norm_of(*grad);
    b.inherited = v->error + (g.l2 > 0 || grad->exact ? 2 * largest * std::sqrt(count) / norm_of(*grad) * grad->error : 0);
  } else if (written.a.tensor == "param" || written.a.tensor == "copy") {
    b.own *= std::max(1.0, norm_of(*param) / out);
    b.inherited = apart(*param) / out;
    const double moved = std::max({grad->error, m->error, v->error});
    if (moved > 0 && scalars && !scalars->a.values.empty())
      b.inherited += 2 * std::abs(scalars->a.values[0]) * std::sqrt(count) / out;
    else if (moved > 0)
      b.inherited += kInherited * moved;
  }
  return b;
}

// Ops that make an element of a handful of others (of one row and place), without a sum that could cancel: of bounded derivatives,
// so their own roundings are a few u, whatever else they read.
bool is_elementwise(const std::string& op) {
  static constexpr const char* kOps[] = {"swiglu",   "geglu",   "gelu",      "sigmoid",  "rope",      "cast",
                                         "multiply", "dropout", "embedding", "soft_cap", "scale_rows"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

double of_norm(double part, double out) { return out > 0 ? std::min(part / out, kMostCondition) : kMostCondition; }

}  // namespace

double rounding_of(DType type) { return is_float(type) ? epsilon(type) / 2 : 0; }

double least_error(const TensorFigures& a, const TensorFigures& b) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  if (a.nan != b.nan || a.plus_inf != b.plus_inf || a.minus_inf != b.minus_inf) return kAny;
  for (const TensorFigures* f : {&a, &b})  // a log may lack one, and sums have no end
    for (const double x : {f->min, f->max, f->abs_max, f->mean, f->l1, f->l2})
      if (!std::isfinite(x)) return kAny;
  const double n = std::sqrt(static_cast<double>(std::max<int64_t>(1, a.finite)));
  // By the triangle inequality in L2; and |sum d| <= sqrt(n) |d|, || a |_1 - | b |_1| <= sqrt(n) |d|, the largest element.
  double least = std::max(std::abs(a.l2 - b.l2), std::abs(a.mean - b.mean) * n);
  least = std::max(least, std::abs(a.l1 - b.l1) / n);
  for (const double d : {a.min - b.min, a.max - b.max, a.abs_max - b.abs_max}) least = std::max(least, std::abs(d));
  if (least == 0) return 0;
  return a.l2 > 0 ? least / a.l2 : kAny;
}

CallBounds bounds_of(std::span<const ComparedPair> call, const ComparedPair& written) {
  if (written.a.op == "adamw")
    if (const auto b = bounds_of_adamw(call, written)) return *b;
  CallBounds bounds;
  const double u = std::max(rounding_of(written.a.dtype), rounding_of(written.b.dtype)),
               v = rounding_of(all_f64(call) ? DType::f64 : DType::f32);
  const double out = norm_of(written);
  const ComparedPair *a = read_as(call, {"a"}), *b = read_as(call, {"b", "w"});
  if (written.a.op.find("matmul") != std::string::npos && a && b && is_float(b->a.dtype) && written.a.figures.count > 0) {
    const double k = std::sqrt(static_cast<double>(a->a.figures.count) * static_cast<double>(b->a.figures.count) /
                               static_cast<double>(written.a.figures.count));
    const double condition = of_norm(norm_of(*a) * norm_of(*b), out);
    bounds.own = 2 * u + kOfSum * std::sqrt(k) * v * condition;
    const double both = a->error * b->error;
    bounds.inherited = (a->error + b->error + (std::isfinite(both) ? both : 0)) * std::max(condition, 1.0);
    for (const ComparedPair& p : call)  // a bias, or what it adds to
      if (!p.a.output && &p != a && &p != b) bounds.inherited += p.error * std::max(1.0, of_norm(norm_of(p), out));
    return bounds;
  }
  double longest = 1, condition = 1;
  for (const ComparedPair& p : call) {
    const auto count = static_cast<double>(p.a.figures.count),
               columns = static_cast<double>(p.a.shape.rank() ? p.a.shape[-1] : 1);
    longest = std::max({longest, columns, columns > 0 ? count / columns : 1});
    if (p.a.output || !is_float(p.a.dtype)) continue;
    const double part = std::max(1.0, of_norm(norm_of(p), out));
    condition = std::max(condition, part);
    bounds.inherited += kInherited * part * p.error;
  }
  bounds.own = is_elementwise(written.a.op) ? 2 * u + kFewRoundings * v : 2 * u + kOfSum * std::sqrt(longest) * v * condition;
  return bounds;
}

}  // namespace ravine
