// Error bounds of the kernels that update parameters (kernels/updates.h).
#include "kernels/bound_rules.h"

namespace ravine::bound_rules {
namespace {

struct Update {
  double lr, clip;
  bool known;
};
Update update_of(const Call& c) {
  const auto values = c.in("scalars").values;
  return values.size() >= 4 ? Update{std::abs(values[0]), std::abs(values[3]), true} : Update{0, 1, false};
}
// For a moment that is a mean of gradients, or of their squares: (1 - beta) g^2 <= v' elementwise.
ErrorBound moment(const Call& c, double clip) {
  const CallTensor& g = c.in("grad");
  return {c.stored() + 4 * c.v * (c.old().norm + clip * g.norm), c.old().off + off(clip, g)};
}
ErrorBound square(const Call& c, const CallTensor& g) {
  return {c.stored() + kFew * c.v * c.out.norm, c.old().off + (g.largest > 0 ? off(2 * c.out.largest / g.largest, g) : 0)};
}
// For param and copy, which an update moves by about lr per element.
ErrorBound moved(const Call& c, std::initializer_list<const char*> by) {
  const CallTensor& p = c.in("param");
  const Update u = update_of(c);
  const double full = 2 * u.lr * root(n(c.out));
  double most = 0;
  for (const char* name : by) most = std::max(most, relative(c.in(name)));
  const double jump = most == 0 ? 0 : u.known ? full : kInherited * most * c.out.norm;
  return {c.stored() + c.v * (2 * p.norm + kFunction * full), 2 * p.off + jump};
}
ErrorBound adamw(const Call& c) {
  if (c.is("m")) return moment(c, update_of(c).clip);
  if (c.is("v")) return square(c, c.in("grad"));
  return moved(c, {"grad", "m", "v"});
}
ErrorBound sgd(const Call& c) {
  const CallTensor &p = c.in("param"), &g = c.in("grad"), &buffer = c.in("buffer");
  const Update u = update_of(c);
  const double step = 2 * (buffer.norm + u.clip * g.norm + p.norm), inherited = 2 * (buffer.off + off(u.clip, g) + p.off);
  if (c.is("buffer")) return {c.stored() + 4 * c.v * step, inherited};
  const double lr = u.known ? u.lr : 1;
  return {c.stored() + c.v * (2 * p.norm + 4 * lr * step), p.off + lr * inherited};
}
ErrorBound lion(const Call& c) { return c.is("m") ? moment(c, update_of(c).clip) : moved(c, {"grad", "m"}); }
ErrorBound adagrad(const Call& c) {
  if (!c.is("sum")) return moved(c, {"grad", "sum"});
  const double most = 2 * root(c.out.largest);
  return {c.stored() + kFew * c.v * c.out.norm,
          c.old().off + off(most * update_of(c).clip, c.in("grad")) + off(most, c.in("param"))};
}
ErrorBound weighted_sum(const Call& c) {
  return {c.stored() + 2 * c.v * (c.in("y").norm + c.in("x").norm), c.in("y").off + c.in("x").off};
}
ErrorBound adam_direction(const Call& c) {
  if (c.is("m")) return moment(c, 1);
  if (c.is("v")) return square(c, c.in("grad"));
  const double any = relative(c.in("grad")) + relative(c.in("m")) + relative(c.in("v")) > 0 ? 2 * root(n(c.out)) : 0;
  return {c.stored() + kFew * c.v * (c.out.norm + c.in("param").norm), c.in("param").off + any};
}
// Means of (x - minus)^2 over rows or columns: |x - minus| / sqrt(length) of a row is at most the root of the mean.
ErrorBound factored_moments(const Call& c) {
  const CallTensor &x = c.in("x"), &minus = c.in("minus");
  const double length = n(x) / std::max(1.0, n(c.out)), slope = 2 * root(c.out.largest / std::max(1.0, length));
  return {
      c.stored() + c.v * (kFew + summed(length)) * c.out.norm + (minus.count > 0 ? slope * 2 * c.v * (x.norm + minus.norm) : 0),
      c.old().off + off(slope, x) + off(slope, minus)};
}
ErrorBound factored_scale(const Call& c) {
  const CallTensor& row = c.in("row");
  return {c.stored() + c.v * (kFunction + summed(n(row))) * c.out.norm,
          kUnnormalised * (relative(c.in("x")) + relative(row) + relative(c.in("col"))) * c.out.norm};
}
ErrorBound root_scale(const Call& c) {
  const CallTensor& x = c.in("x");
  if (c.is("square")) return square(c, x);
  return {c.stored() + kFew * c.v * c.out.norm, kUnnormalised * (relative(x) + relative(c.in("square"))) * c.out.norm};
}
ErrorBound cadam(const Call& c) {
  const CallTensor &q = c.in("q"), &s = c.in("s"), &g = c.in("grad"), &p = c.in("param");
  const double part = relative(q) + relative(s) + relative(g);
  if (c.is("s"))
    return {c.stored() + kFew * c.v * (c.out.norm + root(n(s)) * s.largest), kInherited * part * (c.out.norm + s.norm)};
  if (c.is("q")) return {c.stored() + kFew * c.v * (c.out.norm + q.norm), kInherited * part * (c.out.norm + q.norm)};
  return {c.stored() + 4 * c.v * p.norm, 2 * p.off + (part > 0 ? kInherited * (part + relative(p)) * p.norm : 0)};
}
ErrorBound times_root(const Call& c) {
  const CallTensor &x = c.in("x"), &v = c.in("v");
  return {c.stored() + kFew * c.v * c.out.norm, off(2 * root(v.largest) + 1e-6, x) + kUnnormalised * relative(v) * c.out.norm};
}
ErrorBound largest_ratio(const Call& c) {
  const CallTensor &v = c.in("v"), &fresh = c.in("fresh");
  return {c.stored() + kFew * c.v * c.out.norm, kInherited * (relative(v) + relative(fresh)) * c.out.norm};
}
ErrorBound pack_signs(const Call& c) {
  const CallTensor& x = c.in("x");
  const double flips = root(4 * n(x) * relative(x));
  if (c.is("bits")) return {0, 128 * flips};
  return {c.stored() + 2 * c.v * (x.norm + c.out.norm), x.off + 2 * (x.largest + c.out.largest) * flips};
}
ErrorBound unpack_signs(const Call& c) {
  return {c.stored() + c.v * (c.out.norm + c.old().norm),
          c.old().off + off(2 * (c.out.largest + c.old().largest), c.in("bits"))};
}

}  // namespace

const RuleTable& update_rules() {
  static const RuleTable table{
      {"adamw", adamw},
      {"sgd", sgd},
      {"lion", lion},
      {"adagrad", adagrad},
      {"weighted_sum", weighted_sum},
      {"adam_direction", adam_direction},
      {"factored_moments", factored_moments},
      {"factored_scale", factored_scale},
      {"root_scale", root_scale},
      {"cadam", cadam},
      {"times_root", times_root},
      {"largest_ratio", largest_ratio},
      {"pack_signs", pack_signs},
      {"unpack_signs", unpack_signs},
  };
  return table;
}

}  // namespace ravine::bound_rules
