#include "probe/hypothesis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/counted.h"

namespace ravine {
namespace {

constexpr double kSameShare = 1e-3;  // largest relative difference of figures with one factor

// Returns "2", "1/4", "sqrt(64)", "1/sqrt(64)", else the number.
std::string factor_text(double r) {
  const double m = std::abs(r);
  const char* sign = r < 0 ? "-" : "";
  auto near = [&](double x) { return std::abs(m / x - 1) < kSameShare; };
  for (int n = 2; n <= 65536; n *= 2) {
    if (near(n)) return fmt::format("{}{}", sign, n);
    if (near(1.0 / n)) return fmt::format("{}1/{}", sign, n);
  }
  for (int n = 2; n <= 4096; ++n) {
    if (near(std::sqrt(n))) return fmt::format("{}sqrt({})", sign, n);
    if (near(1 / std::sqrt(n))) return fmt::format("{}1/sqrt({})", sign, n);
  }
  return fmt::format("{:.6g}", r);
}

// Returns the factor between the two tensors, from all elements or from statistics; 0: there is none.
double factor_of(const ComparedPair& p) {
  const TensorFigures &a = p.a.figures, &b = p.b.figures;
  if (p.exact) {
    const double r = p.exact->norm_b / p.exact->norm_a;
    return std::abs(std::abs(p.exact->cosine) - 1) < 1e-6 && p.exact->not_finite_on_one == 0 ? std::copysign(r, p.exact->cosine)
                                                                                             : 0;
  }
  if (!a.has_statistics || !b.has_statistics || a.l2 == 0 || b.l2 == 0 || a.finite != b.finite) return 0;
  const double r = b.l2 / a.l2;
  for (const double x : {b.l1 / a.l1, b.abs_max / a.abs_max, b.std / std::max(a.std, 1e-300)})
    if (!(std::abs(x / r - 1) < kSameShare) && !((a.rough || b.rough) && x != b.abs_max / a.abs_max)) return 0;
  const bool mirrored =
      std::abs(b.max + r * a.min) < kSameShare * b.abs_max && std::abs(b.min + r * a.max) < kSameShare * b.abs_max;
  const bool same =
      std::abs(b.max - r * a.max) < kSameShare * b.abs_max && std::abs(b.min - r * a.min) < kSameShare * b.abs_max;
  return same ? r : mirrored ? -r : 0;
}

std::string not_finite_text(const TensorFigures& f) {
  return fmt::format("{} NaN, {} infinite", f.nan, f.plus_inf + f.minus_inf);
}

}  // namespace

std::string hypothesis_of(const ComparedPair& p) {
  const TensorFigures &a = p.a.figures, &b = p.b.figures;
  if (a.count == b.count && a.order_free == b.order_free && p.a.dtype == p.b.dtype)
    return p.a.shape == p.b.shape ? "the same numbers in another order" : "the same numbers, transposed or in another order";
  if (p.by == ComparedBy::nothing) return fmt::format("shapes differ: {} and {}", p.a.shape.text(), p.b.shape.text());
  if (a.has_statistics && b.has_statistics && (a.nan != b.nan || a.plus_inf != b.plus_inf || a.minus_inf != b.minus_inf))
    return fmt::format("not all of it is finite on one side: {} in A, {} in B", not_finite_text(a), not_finite_text(b));
  const double r = factor_of(p);
  if (r != 0 && std::abs(r - 1) > 1e-2)
    return r == -1 || std::abs(r + 1) < kSameShare ? "the sign is the other one" : "B is A times " + factor_text(r);
  if (p.exact && p.exact->differing == 1)
    return fmt::format("one element alone differs, number {}: {} in A, {} in B", p.exact->at,
                       element_text(p.a.dtype, p.exact->a_at, 9), element_text(p.b.dtype, p.exact->b_at, 9));
  if (p.exact && p.exact->max_ulp == 1) return "no element is more than one unit in the last place apart: another rounding";
  if (p.a.dtype != p.b.dtype) return fmt::format("types differ: {} in A, {} in B", name(p.a.dtype), name(p.b.dtype));
  return "";
}

std::string verdict_of(const Comparison& c) {
  const auto pairs = static_cast<int64_t>(c.pairs.size());
  std::string out = fmt::format(
      "Of {} {} {} bitwise equal{}{}. ", counted(pairs, "pair"), c.equal_bits, c.equal_bits == 1 ? "is" : "are",
      c.equal_figures > 0 ? fmt::format(", {} have the same figures", c.equal_figures) : "",
      c.unmatched.empty()
          ? ""
          : fmt::format(", and {} without a partner", counted(static_cast<int64_t>(c.unmatched.size()), "group or tensor")));
  if (c.layouts_differ)
    out +=
        "The layouts differ, so what ranks and micro batches hold was put together, without the order of elements among them. ";
  for (const auto& [side, damaged] : {std::pair{"A", c.damaged_a}, {"B", c.damaged_b}})
    if (damaged > 0)
      out += fmt::format("{} of {} cannot be read, and what it held is not compared. ", counted(damaged, "line"), side);
  if (const ComparedPair* nan = c.nan_in_both())
    out += fmt::format("Both sides hold NaN, first in '{}' of {} at {} (step {}, {}): {} and {} elements. ", nan->a.tensor,
                       nan->a.op, nan->a.path, nan->a.step, name(nan->a.phase), nan->a.figures.nan, nan->b.figures.nan);
  if (c.substituted > 0) {
    const auto off = static_cast<int64_t>(c.inherits.size());
    out += fmt::format("Our kernels, run on the inputs of A and of B, decide over {}{}. ", counted(c.substituted, "pair"),
                       off == 0 ? ""
                                : fmt::format(", and {} beyond other bounds only inherit{}, {} first", counted(off, "output"),
                                              off == 1 ? "s" : "", c.inherits.front()));
  }
  if (c.culprits.empty()) {
    if (!c.inherited_from.empty())
      return out +
             fmt::format(
                 "The first difference is in an input that no recorded call has made: {}. Record what comes before it, with wider paths or phases or earlier steps.",
                 c.inherited_from);
    if (!c.uncovered.empty())
      return out +
             fmt::format(
                 "Not compared, since the other dump has nothing of it: {}{}. Dump the same steps, phases and ranks of both.",
                 c.uncovered.front(), c.uncovered.size() > 1 ? fmt::format(", and {} more", c.uncovered.size() - 1) : "");
    if (c.damaged_a + c.damaged_b > 0 && !c.unmatched.empty())
      return out + "What could be compared agrees, and that is not all: dump again.";
    double worst = 0;
    for (const ComparedPair& p : c.pairs)
      if (p.judged && std::isfinite(p.ratio())) worst = std::max(worst, p.ratio());
    if (c.nan_in_both()) return out + "None of the numbers that are the same there is right: look at that call.";
    return out +
           (c.equal_bits + c.equal_figures == pairs
                ? "No number differs. Nothing is to be looked for here."
                : fmt::format(
                      "All others are within what roundings explain, at most {:.2g} of it. Nothing is to be looked for here.",
                      worst));
  }
  const Culprit& k = c.culprits.front();
  const std::string where = fmt::format("step {}{}", k.step, k.rank > 0 ? fmt::format(", rank {}", k.rank) : "");
  if (k.kind == CulpritKind::weights)
    out += fmt::format("The two begin with different weights: {} differs before {} ({}). ", k.path, where, k.tensor);
  else if (k.kind == CulpritKind::data)
    out += fmt::format("The two read different data: {} of {} in {}, micro batch {}. ", k.tensor, k.reader, where, k.micro);
  else if (!k.reader.empty())
    out += fmt::format("An input that no call has made differs: {}, which {} reads in {}. ", k.path, k.reader, where);
  else
    out += fmt::format(
        "The first call whose output differs by more than its inputs explain is {} at {} ({}), in {}, micro batch {}, by '{}'. ",
        k.op, k.path, k.phase, where, k.micro, k.tensor);
  out += k.hypothesis.empty() ? "Look at that call in both programs: what is known of its inputs is the same."
                              : fmt::format("It looks so: {}.", k.hypothesis);
  for (size_t i = 1; i < c.culprits.size(); ++i) {
    const Culprit& more = c.culprits[i];
    out += fmt::format("{} {} at {} ({}, step {}){}", i == 1 ? " Besides, and not explained by it:" : ";", more.op, more.path,
                       more.phase, more.step, more.hypothesis.empty() ? "" : ", " + more.hypothesis);
  }
  return out + (c.culprits.size() > 1 ? "." : "");
}

}  // namespace ravine
