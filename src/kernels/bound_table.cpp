#include "kernels/error_bounds.h"

#include <algorithm>
#include <cmath>

#include "kernels/bound_rules.h"

namespace ravine::bound_rules {
namespace {

// --- tables by id ---

ErrorBound embedding(const Call& c) {
  return {c.stored() + 2 * c.v * c.out.norm, kUnnormalised * relative(c.in("weight")) * c.out.norm};
}

ErrorBound embedding_backward(const Call& c) {
  const CallTensor& d = c.in("dout");
  const double tokens = rows(d), scale = d.norm > 0 ? std::max(1.0, c.out.norm / d.norm) : 1;
  return {c.stored() + c.v * (summed_tokens(tokens) * scale * root(tokens) * d.norm + c.old().norm),
          off(2 * scale, d) + c.old().off};
}

// --- norms: xhat = (x - mean) rstd in rows of `length` ---

struct Norm {
  double length, rows, rstd, weight, xhat;
  const CallTensor& x;
};
Norm norm_of(const Call& c, bool backward, double offset) {
  const CallTensor &x = c.in("x"), &stored = backward ? c.in("rstd") : c.find("rstd", true), &w = c.in("weight");
  const CallTensor& sum = backward ? x : c.find("sum", true).count > 0 ? c.find("sum", true) : x;
  const double length = stored.count > 0 ? n(x) / n(stored) : columns(x),
               mean = backward ? c.in("mean").largest : c.find("mean", true).largest;
  const double rstd = stored.count > 0 ? stored.largest : x.norm > 0 ? 2 / rms(x) : 0;
  return {
      length, n(x) / length, rstd, w.count > 0 ? w.largest + offset : 1, std::min(root(length), rstd * (sum.largest + mean)),
      sum};
}

ErrorBound norm(const Call& c, double offset, bool centred) {
  const Norm a = norm_of(c, false, offset);
  const CallTensor &x = c.in("x"), &branch = c.in("branch"), &sum = c.find("sum", true), &w = c.in("weight");
  const double input = x.off + branch.off, read = sum.count > 0 ? sum.norm : x.norm + branch.norm;
  // The sum is rounded before it is normalised if it is stored; then the mean, and the deviations of a row from it.
  const double before = rounding_of(sum.type) * sum.norm * (sum.count > 0) + c.v * (branch.count > 0) * read +
                        centred * c.v * summed(a.length) * read;
  if (c.is("sum")) return {c.stored() + c.v * c.out.norm, input};
  if (c.is("mean")) return {c.stored() + before / root(a.length) + c.v * c.out.norm, input / root(a.length)};
  const double slope = a.rstd * a.rstd / root(a.length);  // of rstd
  if (c.is("rstd")) return {c.stored() + c.v * (kFew + summed(a.length)) * c.out.norm + slope * before, slope * input};
  return {c.stored() + c.v * (kFew + summed(a.length)) * c.out.norm + a.rstd * a.weight * before +
              c.v * root(a.rows) * c.in("bias").norm,
          std::min(a.rstd * a.weight * input, 2 * a.weight * root(n(c.out))) + off(root(a.rows) * a.xhat, w) +
              off(root(a.rows), c.in("bias"))};
}

ErrorBound norm_backward(const Call& c, double offset, bool centred) {
  const Norm a = norm_of(c, true, offset);
  const CallTensor &d = c.in("dout"), &x = c.in("x"), &w = c.in("weight"), &rstd = c.in("rstd"), &mean = c.in("mean"),
                   &dsum = c.in("dsum");
  const double of_rows = root(a.rows), row = root(a.length);
  const double centre = centred ? 2 * c.v * x.norm : 0;  // x - mean
  if (c.is("dbias"))
    return {c.stored() + c.v * (summed_tokens(a.rows) * of_rows * d.norm + c.old().norm), off(of_rows, d) + c.old().off};
  if (c.is("dweight")) {
    const double of_x = a.rstd * of_rows * d.largest,
                 terms = std::min(a.xhat * d.norm, d.largest * root(n(x)));  // |dout xhat|, |xhat|^2 is n
    return {c.stored() + c.v * ((kFew + summed_tokens(a.rows) * of_rows) * terms + c.old().norm) + of_x * centre,
            off(of_rows * a.xhat, d) + off(of_x, x) + off(of_x * row, mean) + off(x.largest * d.norm, rstd) + c.old().off};
  }
  const double of_x = 2 * a.rstd * a.rstd * a.weight * d.largest,
               again = c.is("dbranch") ? rounding_of(c.find("dx", true).type) * c.out.norm : 0;
  return {c.stored() + again + c.v * (dsum.norm + (kFew + summed(a.length)) * a.rstd * a.weight * d.norm) + of_x * centre,
          dsum.off + off(a.rstd * a.weight, d) + off(of_x, x) + off(of_x * row, mean) + off(a.rstd * of_rows * d.largest, w) +
              off(2 * row * a.weight * d.largest, rstd)};
}

ErrorBound row_dot(const Call& c) {
  const CallTensor &x = c.in("x"), &y = c.in("y"), &w = c.in("weight");
  const double length = columns(x), weight = or_one(w), of_x = weight * longest_row(y, length),
               of_y = weight * longest_row(x, length);
  return {c.stored() + c.v * (kFew * product(x, y) * weight + summed(length) * std::min(of_x * x.norm, of_y * y.norm)),
          off(of_x, x) + off(of_y, y) + off(product(x, y), w)};
}

ErrorBound part_norm(const Call& c) {
  const CallTensor &x = c.in("x"), &w = c.in("weight"), &rstd = c.find("rstd", true), &squares = c.in("squares");
  const double length = columns(x),
               r = rstd.count > 0 ? rstd.largest
                   : x.norm > 0   ? 2 / rms(x)
                                  : 0,
               slope = r * r * r / (2 * length);
  const double own = c.stored() + kFew * c.v * c.out.norm;
  if (c.is("rstd")) return {own, off(slope, squares)};
  return {own, off(r * or_one(w), x) + off(r * root(rows(x)) * x.largest, w) +
                   off(slope * or_one(w) * longest_row(x, length), squares)};
}

ErrorBound part_norm_backward(const Call& c) {
  const CallTensor &d = c.in("dout"), &x = c.in("x"), &w = c.in("weight"), &rstd = c.in("rstd"), &dots = c.in("dots");
  if (c.is("dweight")) return norm_backward(c, 0, false);
  const double r = rstd.largest, weight = or_one(w), cube = r * r * r / columns(x), row = longest_row(x, columns(x));
  return {c.stored() + kFew * c.v * (r * weight * d.norm + cube * row * dots.norm),
          off(r * weight, d) + off(r * root(rows(d)) * d.largest, w) + off(cube * dots.largest, x) + off(cube * row, dots) +
              off(weight * longest_row(d, columns(d)) + 3 * r * r * row * dots.largest / columns(x), rstd)};
}

ErrorBound unit_rows(const Call& c) {
  const CallTensor& x = c.in("x");
  return {c.stored() + c.v * (kFew + summed(columns(x))) * c.out.norm, x.norm > 0 ? off(2 * root(rows(x)) / x.norm, x) : 0};
}

ErrorBound unit_rows_backward(const Call& c) {
  const CallTensor &x = c.in("x"), &d = c.in("dout");
  const double r = x.norm > 0 ? 2 * root(rows(x)) / x.norm : 0;
  return {c.stored() + c.v * ((kFew + summed(columns(x))) * r * d.norm + c.old().norm),
          off(r, d) + off(2 * r * r * longest_row(d, columns(d)), x) + c.old().off};
}

// --- products and sums ---

ErrorBound of_product(const Call& c, double terms) {
  const CallTensor &a = c.in("a"), &b = c.in("b"), &bias = c.in("bias");
  return {c.stored() + c.v * (summed(terms) * a.norm * b.norm + root(rows(c.out)) * bias.norm + c.old().norm),
          off(b.norm, a) + off(a.norm, b) + off(a.off, b) + off(root(rows(c.out)), bias) + c.old().off};
}
ErrorBound matmul(const Call& c) { return of_product(c, root(n(c.in("a")) * n(c.in("b")) / std::max(1.0, n(c.out)))); }
ErrorBound grouped_matmul(const Call& c) {
  const CallTensor &a = c.in("a"), &b = c.in("b");
  return of_product(c, rows(a) == rows(b) ? std::max(rows(a), columns(a)) : columns(a));
}
ErrorBound nf4_matmul(const Call& c) {
  const CallTensor& a = c.in("a");
  const double k = columns(a), size = root(k) * (c.out.norm + c.old().norm);
  const double values = rounding_of(a.type) > c.v ? rounding_of(a.type) : 0;  // w, rounded to the type of a
  return {c.stored() + c.v * (kFew + summed(k)) * size + values * c.out.norm + c.v * root(rows(c.out)) * c.in("bias").norm,
          2 * relative(a) * size + off(root(rows(c.out)), c.in("bias")) + c.old().off};
}
ErrorBound sum_rows(const Call& c) {
  const CallTensor& x = c.in("x");
  return {c.stored() + c.v * (summed_tokens(rows(x)) * root(rows(x)) * x.norm + c.old().norm),
          off(root(rows(x)), x) + c.old().off};
}

// --- mixtures of experts ---

const double kRouter = rounding_of(DType::f64);  // routers compute in this type for any input type

ErrorBound router_choice(const Call& c) {
  if (!c.is("weights")) return {};
  const CallTensor &z = c.in("logits"), &chosen = c.find("chosen", true);
  return {c.stored() + kRouter * (kFunction + 2 * z.largest) * c.out.norm, off(4 * c.out.largest * root(columns(chosen)), z)};
}
ErrorBound router_sums(const Call& c) {
  const CallTensor& z = c.in("logits");
  const double tokens = rows(z), lse = z.largest + std::log(columns(z)), of_lse = kFunction + lse;
  if (c.is("z"))
    return {c.stored() + kRouter * (2 * lse * of_lse * root(tokens) + summed(tokens) * c.out.norm),
            off(2 * lse * root(tokens), z)};
  if (c.is("scores")) return {c.stored() + kRouter * (of_lse + summed(tokens)) * c.out.norm, off(root(tokens) / 2, z)};
  return {c.stored(), 0};
}
ErrorBound router_backward(const Call& c) {
  const CallTensor &z = c.in("logits"), &dw = c.in("dweights"), &slopes = c.in("slopes");
  const double experts = columns(z), tokens = rows(z), k = columns(c.in("chosen"));
  return {c.stored() + kRouter * (kFunction + 2 * z.largest + summed(experts)) *
                           (c.out.norm + 2 * dw.norm + 2 * root(tokens) * slopes.largest),
          off(kUnnormalised, dw) + off(2 * root(tokens), slopes) +
              off(2 * (root(k) * dw.largest + root(experts) * slopes.largest + c.out.largest), z)};
}
ErrorBound gather_rows(const Call& c) { return {0, off(1 + root(rows(c.out) / std::max(1.0, rows(c.in("x")))), c.in("x"))}; }
ErrorBound combine_rows(const Call& c) {
  const CallTensor& y = c.in("y");
  const double k = columns(c.in("slots"));
  return {c.stored() + c.v * (summed(k) * root(k) * y.norm + c.old().norm), off(root(k), y) + c.old().off};
}
ErrorBound scale_rows(const Call& c) {
  const CallTensor &x = c.in("x"), &s = c.in("scale");
  return {c.stored() + c.v * c.out.norm, off(s.largest, x) + off(longest_row(x, columns(x)), s)};
}

// --- positions and attention ---

ErrorBound rope(const Call& c) {
  const CallTensor &x = c.in("x"), &table = c.in("table");
  const double most = std::sqrt(2.0) * std::max(1.0, table.largest);
  return {c.stored() + 2 * c.v * most * x.norm,
          off(most, x) + off(std::sqrt(2.0) * x.norm * spread(table) / root(std::max(1.0, n(table))), table)};
}

double heads_of(const CallTensor& keys, const CallTensor& values, const CallTensor& kv, const CallTensor& shared) {
  return std::max(1.0, (columns(keys) + columns(values) - columns(kv)) / columns(shared));
}
ErrorBound latent_keys(const Call& c) {
  const CallTensor &kv = c.in("kv"), &shared = c.in("rope");
  const double heads = heads_of(c.find("keys", true), c.find("values", true), kv, shared);
  return {0, kv.off + (c.is("keys") ? off(root(heads), shared) : 0)};
}
ErrorBound latent_keys_backward(const Call& c) {
  const CallTensor &dk = c.in("dkeys"), &dv = c.in("dvalues");
  if (c.is("dkv")) return {0, dk.off + dv.off};
  const double heads = heads_of(dk, dv, c.find("dkv", true), c.out);
  return {c.stored() + c.v * summed(heads) * root(heads) * dk.norm, off(root(heads), dk)};
}

// The shapes of attention, from lse [H, N]. Without lse a head has 64 columns.
struct Heads {
  // Width of a head of q; of v; query heads per key head; scale of the scores; norm of the longest row of k in a head.
  double size, values, group, scale, keys;
};
Heads heads_of(const Call& c, const CallTensor& lse, const CallTensor& out) {
  const CallTensor &q = c.in("q"), &k = c.in("k");
  const double heads = lse.count > 0 ? std::max(1.0, n(lse) / std::max(1.0, rows(q))) : std::max(1.0, columns(q) / 64);
  const double size = columns(q) / heads;
  return {size, columns(out) / heads, std::max(1.0, columns(q) / columns(k)), 1 / root(size), longest_row(k, size)};
}

// Scores of a row have an error of at most e. Then each probability has a relative error of 2 e, and out has an error
// of e times the spread of v.
ErrorBound attention(const Call& c) {
  const CallTensor &q = c.in("q"), &k = c.in("k"), &v = c.in("v"), &lse = c.find("lse", true);
  const Heads h = heads_of(c, lse, c.find("out", true));
  const double scores = c.v * summed(h.size) * h.scale * h.keys * q.norm;
  const double of_q = h.scale * h.keys, of_k = h.scale * longest_row(q, h.size) * spread(k) * root(h.group);
  if (c.is("lse")) return {c.stored() + c.v * (kFew * root(n(lse)) + c.out.norm) + scores, off(of_q, q) + off(of_k, k)};
  const double value = longest_row(v, h.values), elements = root(n(c.out)) * v.largest;
  // probabilities, rounded to the type of q
  const double rounded = rounding_of(q.type) > c.v ? rounding_of(q.type) : 0;
  return {c.stored() + scores * value + (c.v * kFew + rounded) * elements,
          off(of_q * value, q) + off(of_k * value, k) + off(root(h.group) * spread(v), v)};
}

// dP = dout v^T, dS = P (dP - dout . out):  dq = scale dS k, dk = scale dS^T q, dv = P^T dout. The relative error of P
// is the error of its score. Errors in sums over queries are taken as independent.
ErrorBound attention_backward(const Call& c) {
  const CallTensor &q = c.in("q"), &k = c.in("k"), &v = c.in("v"), &d = c.in("dout"), &o = c.in("out"), &lse = c.in("lse");
  const Heads h = heads_of(c, lse, d);
  const double value = longest_row(v, h.values), query = longest_row(q, h.size), slope = longest_row(d, h.values),
               group = root(h.group);
  const double queries = rows(q) * h.group, scores = summed(h.size) * h.scale * std::min(query, q.norm) * h.keys;
  const double rounded = rounding_of(q.type) > c.v ? 2 * rounding_of(q.type) : 0, of_lse = rounding_of(lse.type) * lse.largest;
  const double part = rounded + of_lse + c.v * (kFew + scores);
  const double off_p = off(h.scale * h.keys, q) + off(h.scale * query * spread(k) * group, k) + lse.off;
  if (c.is("dv"))
    return {c.stored() + part * d.norm + c.v * summed_tokens(queries) * (d.norm + c.out.norm), 2 * (d.off + slope * off_p)};
  const double row = 2 * value * slope;  // of dS
  const double off_s = off(2 * value, d) + off(2 * slope * spread(v) * group, v) + off(slope, o) + row * off_p;
  const bool of_q = c.is("dq");
  const double other = h.scale * (of_q ? h.keys : query), terms = of_q ? summed(rows(k)) : summed_tokens(queries);
  return {c.stored() + (part + c.v * (summed(h.values) + terms)) * other * value * d.norm,
          other * off_s + (of_q ? off(h.scale * row * spread(k) * group, k) : off(h.scale * row, q))};
}

ErrorBound softmax(const Call& c) {
  const CallTensor& s = c.in("scores");
  return {c.stored() + c.v * (kFew + summed(columns(s)) + 2 * s.largest) * c.out.norm, off(1, s)};
}
ErrorBound softmax_backward(const Call& c) {
  const CallTensor &p = c.in("probs"), &d = c.in("dprobs");
  const double most = std::min(1.0, p.largest);
  return {c.stored() + c.v * (kFew + summed(columns(p))) * most * d.norm,
          off(2 * most, d) + off(2 * d.largest + root(most) * longest_row(d, columns(d)), p)};
}

// --- activations: their derivative is at most `slope`, and the derivative of `slope` at most `curve` ---

struct Activation {
  double slope, curve;
};
constexpr Activation kSilu{1.1, 0.5}, kGelu{1.13, 0.8};

ErrorBound gated(const Call& c, Activation f, const char* of = "gate") {
  const CallTensor &g = c.in(of), &up = c.in("up");
  const double whole = up.count > 0 ? product(g, up) : g.norm;
  return {c.stored() + kFew * c.v * whole, off(f.slope * or_one(up), g) + off(g.largest, up)};
}
ErrorBound gated_backward(const Call& c, Activation f, const char* of = "gate") {
  const CallTensor &g = c.in(of), &up = c.in("up"), &d = c.in("dout");
  if (c.is("dup")) return {c.stored() + kFew * c.v * product(g, d), off(g.largest, d) + off(f.slope * d.largest, g)};
  const double whole = up.count > 0 ? product(up, d) : d.norm;
  return {c.stored() + kFunction * c.v * f.slope * whole,
          off(f.slope * or_one(up), d) + off(f.slope * d.largest, up) + off(f.curve * or_one(up) * d.largest, g)};
}
ErrorBound sigmoid(const Call& c) { return {c.stored() + kFew * c.v * c.out.norm, off(0.25, c.in("x"))}; }
ErrorBound sigmoid_backward(const Call& c) {
  return {c.stored() + kFew * c.v * c.out.norm, off(0.25, c.in("dout")) + off(c.in("dout").largest, c.in("y"))};
}
ErrorBound dropout(const Call& c) {
  const CallTensor& x = c.in("x");
  const double scale = x.norm > 0 ? c.out.norm / x.norm : 1;
  return {c.stored() + 2 * c.v * c.out.norm, off(std::max(1.0, 2 * scale * scale), x)};
}
ErrorBound soft_cap(const Call& c) {
  const CallTensor& x = c.in("x");
  return {c.stored() + kFew * c.v * c.out.norm, off(x.norm > 0 ? std::max(1.0, 2 * c.out.norm / x.norm) : 1, x)};
}
ErrorBound soft_cap_backward(const Call& c) {
  const CallTensor &y = c.in("y"), &d = c.in("dy");
  const double scale = d.norm > 0 ? std::max(1.0, 2 * c.out.norm / d.norm) : 1;
  return {c.stored() + kFew * c.v * scale * d.norm,
          off(scale, d) + (y.largest > 0 ? off(2 * scale * d.largest / y.largest, y) : 0)};
}

// --- losses ---

ErrorBound loss_head(const Call& c) {
  const CallTensor &x = c.in("x"), &w = c.in("weight");
  const double length = columns(x), row = longest_row(w, length), tokens = rows(x), vocabulary = rows(w);
  const double logits = c.v * summed(length) * row * x.norm;  // L2 norm over tokens
  const double of_w = w.count > 0 ? x.norm * spread(w) / root(vocabulary) : 0;
  if (c.is("losses"))
    return {c.stored() + 1.5 * logits + c.v * (kFew * root(tokens) + 2 * c.out.norm), off(2 * row, x) + off(2 * of_w, w)};
  // relative error of a probability
  const double moved = (off(2 * row, x) + off(2 * of_w, w)) / root(std::max(1.0, tokens));
  const double part = c.v * (kFew + (c.is("dx") ? summed(vocabulary) : summed_tokens(tokens))) +
                      2 * logits / root(std::max(1.0, tokens)) + (rounding_of(x.type) > c.v ? rounding_of(x.type) : 0);
  const double read = c.is("dx") ? relative(w) : relative(x);
  return {c.stored() + part * (c.out.norm + c.old().norm),
          kUnnormalised * (moved + read + relative(c.in("row_weights"))) * (c.out.norm + c.old().norm) + c.old().off};
}
ErrorBound log_sum_exp(const Call& c) {
  const CallTensor& z = c.in("logits");
  return {c.stored() + c.v * (kFew + summed(columns(z))) * root(rows(z)) + c.v * c.out.norm, off(1, z)};
}
ErrorBound cross_entropy(const Call& c) {
  const CallTensor &z = c.in("logits"), &sums = c.in("sums");
  const double few = kFew + summed(columns(z)) + z.largest;
  if (c.is("losses")) return {c.stored() + c.v * few * root(rows(z)), off(2, z) + sums.off};
  return {c.stored() + c.v * few * 2 * c.out.norm, off(2 * c.out.largest, z) + off(2 * c.out.largest, sums) +
                                                       kUnnormalised * relative(c.in("row_weights")) * c.out.norm};
}

// --- elementwise ---

ErrorBound add(const Call& c) { return {c.stored() + c.v * c.out.norm, c.in("a").off + c.in("b").off}; }
ErrorBound multiply(const Call& c) {
  const CallTensor &a = c.in("a"), &b = c.in("b");
  const double whole = b.count > 0 ? product(a, b) : a.norm, scale = whole > 0 ? c.out.norm / whole : 1;
  const double most = b.count > 0 ? std::max(1.0, scale) : scale;
  return {c.stored() + 2 * c.v * c.out.norm, off(most * or_one(b), a) + off(most * a.largest, b)};
}
ErrorBound cast(const Call& c) { return {c.stored(), c.in("x").off}; }
ErrorBound fill(const Call& c) { return {c.stored(), 0}; }

const RuleTable& rules() {
  static const RuleTable table = [] {
    RuleTable all{
        {"embedding", embedding},
        {"embedding_backward", embedding_backward},
        {"rms_norm", [](const Call& c) { return norm(c, 1, false); }},
        {"rms_norm_backward", [](const Call& c) { return norm_backward(c, 1, false); }},
        {"layer_norm", [](const Call& c) { return norm(c, 0, true); }},
        {"layer_norm_backward", [](const Call& c) { return norm_backward(c, 0, true); }},
        {"head_norm", [](const Call& c) { return norm(c, 0, false); }},
        {"head_norm_backward", [](const Call& c) { return norm_backward(c, 0, false); }},
        {"row_dot", row_dot},
        {"part_norm", part_norm},
        {"part_norm_backward", part_norm_backward},
        {"unit_rows", unit_rows},
        {"unit_rows_backward", unit_rows_backward},
        {"matmul", matmul},
        {"nf4_matmul", nf4_matmul},
        {"sum_rows", sum_rows},
        {"grouped_matmul", grouped_matmul},
        {"router_choice", router_choice},
        {"router_sums", router_sums},
        {"router_backward", router_backward},
        {"gather_rows", gather_rows},
        {"combine_rows", combine_rows},
        {"scale_rows", scale_rows},
        {"sigmoid", sigmoid},
        {"sigmoid_backward", sigmoid_backward},
        {"rope", rope},
        {"latent_keys", latent_keys},
        {"latent_keys_backward", latent_keys_backward},
        {"attention", attention},
        {"attention_backward", attention_backward},
        {"softmax", softmax},
        {"softmax_backward", softmax_backward},
        {"soft_cap", soft_cap},
        {"soft_cap_backward", soft_cap_backward},
        {"swiglu", [](const Call& c) { return gated(c, kSilu); }},
        {"swiglu_backward", [](const Call& c) { return gated_backward(c, kSilu); }},
        {"geglu", [](const Call& c) { return gated(c, kGelu); }},
        {"geglu_backward", [](const Call& c) { return gated_backward(c, kGelu); }},
        {"gelu", [](const Call& c) { return gated(c, kGelu, "x"); }},
        {"gelu_backward", [](const Call& c) { return gated_backward(c, kGelu, "x"); }},
        {"dropout", dropout},
        {"loss_head", loss_head},
        {"log_sum_exp", log_sum_exp},
        {"cross_entropy", cross_entropy},
        {"add", add},
        {"multiply", multiply},
        {"cast", cast},
        {"fill", fill},
        {"sum_squares", fill},  // no tensor is written
    };
    all.insert(update_rules().begin(), update_rules().end());
    return all;
  }();
  return table;
}

}  // namespace
}  // namespace ravine::bound_rules

namespace ravine {

double rounding_of(DType type) { return is_float(type) ? epsilon(type) / 2 : 0; }

bool has_error_bound(std::string_view kernel) { return bound_rules::rules().contains(kernel); }

ErrorBound error_bound(std::string_view kernel, std::span<const CallTensor> call, const CallTensor& written) {
  using namespace bound_rules;
  const Call c(call, written);
  const bool reads = std::any_of(call.begin(), call.end(), [](const CallTensor& t) { return !t.output; });
  if (const auto rule = rules().find(kernel); rule != rules().end() && (reads || rule->second == fill)) return rule->second(c);
  double most = 0;
  for (const CallTensor& t : call)
    if (!t.output) most = std::max(most, relative(t));
  return {kUnknownCall * rounding_of(written.type) * written.norm, most > 0 ? kInherited * most * written.norm : 0};
}

}  // namespace ravine
