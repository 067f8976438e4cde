// Error bounds of attention, element by element, for arithmetic with unit roundoff u.
#pragma once
#include "tests/unit/harness.h"

namespace ravine {

// The visible pairs of one query row and head, in double: s = scale q.k (+ ALiBi, or capped), its magnitude, p =
// softmax(s), and the factor of dropout on p.
struct VisibleRow {
  std::vector<int64_t> keys;
  std::vector<double> s, magnitude, p, kept;
  double top = 0;  // largest |s|
};

inline VisibleRow visible(const std::vector<double>& q, const std::vector<double>& k, const AttentionShape& at,
                          const Segment& seg, int64_t i, int64_t h) {
  VisibleRow r;
  int64_t d = at.head_size, g = h / (at.heads / at.kv_heads), position = seg.k_count - seg.q_count + i;
  double sum = 0, largest = -INFINITY;
  const double* from = &q[(seg.q_begin + i) * at.heads * d + h * d];
  for (int64_t j = 0; j < seg.k_count; ++j) {
    if ((at.causal && j > position) || (at.window > 0 && position - j >= at.window)) continue;
    double s = 0, m = 0;
    for (int64_t e = 0; e < d; ++e) {
      double product = from[e] * k[(seg.k_begin + j) * at.kv_heads * d + g * d + e];
      s += product, m += std::fabs(product);
    }
    double bias = at.slopes.empty() ? 0 : at.slopes[static_cast<size_t>(h)] * static_cast<double>(j - position);
    if (at.cap != 0) s = at.cap * std::tanh(at.scale * s / at.cap) / at.scale;
    double kept = 1;
    if (at.dropout.p != 0) {
      auto token_index = static_cast<uint32_t>(get(at.dropout.token_index, 0, seg.q_begin + i));
      auto sequence = static_cast<uint32_t>(at.dropout.sequences.as<int64_t>()[seg.q_begin + i]);
      auto words = philox(at.dropout.head_key(h), {static_cast<uint32_t>(j / 4), token_index, sequence, at.dropout.step});
      kept = uniform24(words[static_cast<size_t>(j % 4)]) >= at.dropout.p ? 1 / (1 - at.dropout.p) : 0;
    }
    r.kept.push_back(kept);
    r.keys.push_back(seg.k_begin + j), r.s.push_back(at.scale * s + bias),
        r.magnitude.push_back(at.scale * m + std::fabs(bias));
    largest = std::max(largest, r.s.back()), r.top = std::max(r.top, std::fabs(r.s.back()));
  }
  for (double s : r.s) r.p.push_back(std::exp(s - largest)), sum += r.p.back();
  for (double& p : r.p) p /= sum;
  return r;
}

// Returns the number of roundings of a score: D products and sums, scale and one more. A cap adds 1 / cap, 3 ulp of
// tanh and cap; the error of tanh's argument has a slope of at most 1.
inline double score_roundings(const AttentionShape& at) {
  return static_cast<double>(at.head_size) + 2 + (at.cap != 0 ? 9 : 0);
}

// Error bounds of the forward pass. A score has the error gamma(score_roundings) times its magnitude. The exponent of a
// probability has twice the largest error of a score, and a few roundings of |s|. An online softmax rescales at most
// once per 8 keys, each time with one exp and one product. Numerator and sum both have this error. 16-bit: ref and cpu
// round each probability to the type of q.
struct ForwardErrors {
  std::vector<double> out, lse;
};
inline ForwardErrors forward_errors(const AttentionForward& a, double u = kU32) {
  auto gamma = [u](double roundings) { return gamma_of(roundings, u); };
  const AttentionShape& at = a.at;
  int64_t n = a.q.rows(), d = at.values();
  auto q = values(a.q), k = values(a.k), v = values(a.v);
  ForwardErrors errors{std::vector<double>(n * at.heads * d), std::vector<double>(at.heads * n)};
  double u16 = size_of(a.q.dtype) > 2 ? 0 : unit(a.q.dtype), lost = a.q.dtype == DType::f16 ? 2 * smallest(a.q.dtype) : 0;
  for (const Segment& seg : at.segments)
    for (int64_t i = 0; i < seg.q_count; ++i)
      for (int64_t h = 0; h < at.heads; ++h) {
        VisibleRow r = visible(q, k, at, seg, i, h);
        auto keys = static_cast<double>(r.keys.size());
        double score = 0;
        for (double m : r.magnitude) score = std::max(score, gamma(score_roundings(at)) * m);
        double argument = 2 * score + 8 * u * r.top;
        double p_error = std::expm1(argument) + gamma(kFunction + (1 + keys / 8) * (kFunction + 2));
        errors.lse[h * n + seg.q_begin + i] = p_error + gamma(keys + kFunction) + 2 * u * (r.top + std::log(keys + 1));
        for (int64_t e = 0; e < d; ++e) {
          double weighted = 0, plain = 0;
          for (size_t j = 0; j < r.keys.size(); ++j) {
            double x = std::fabs(v[(r.keys[j] * at.kv_heads + h / (at.heads / at.kv_heads)) * d + e]);
            weighted += r.p[j] * r.kept[j] * x, plain += r.kept[j] * x;
          }
          errors.out[(seg.q_begin + i) * at.heads * d + h * d + e] =
              (2 * p_error + gamma(2 * keys + kFunction + 3) + 2 * u16) * weighted + lost * plain;
        }
      }
  return errors;
}

// Error bounds of the backward pass. p = exp(s - lse) has the error of s and the rounding of s and lse. dp = dout v^T
// and delta = dout . out have gamma(D). ds = p (dp - delta) has all of these errors. Then come sums over keys (dq) or
// over queries and heads (dk, dv). 16-bit: ref and cpu round p and ds to the type of q; p possibly before ds is
// computed from it. A p below e^-55 < 2^-79 may become 0. cpu rounds ds with the scale in it: an underflow there counts
// 1 / scale times.
struct BackwardErrors {
  std::vector<double> dq, dk, dv;
};
inline BackwardErrors backward_errors(const AttentionBackward& a, double u = kU32) {
  auto gamma = [u](double roundings) { return gamma_of(roundings, u); };
  const AttentionShape& at = a.at;
  int64_t n = a.q.rows(), m = a.k.rows(), d = at.head_size, w = at.values(), wide = at.heads * d, narrow = at.kv_heads * d;
  auto q = values(a.q), k = values(a.k), v = values(a.v), out = values(a.out), dout = values(a.dout);
  BackwardErrors errors{std::vector<double>(n * wide), std::vector<double>(m * narrow),
                        std::vector<double>(m * at.kv_heads * w)};
  double u16 = size_of(a.q.dtype) > 2 ? 0 : unit(a.q.dtype), lost = a.q.dtype == DType::f16 ? 2 * smallest(a.q.dtype) : 0;
  for (const Segment& seg : at.segments) {
    double terms = gamma(static_cast<double>(seg.k_count + seg.q_count * (at.heads / at.kv_heads)) + 4);
    for (int64_t i = 0; i < seg.q_count; ++i)
      for (int64_t h = 0; h < at.heads; ++h) {
        VisibleRow r = visible(q, k, at, seg, i, h);
        int64_t row = seg.q_begin + i, g = h / (at.heads / at.kv_heads);
        double lse = std::fabs(get(a.lse, h, row)), delta = 0;
        const int64_t from = (row * at.heads + h) * w;  // offset in out and its gradient
        for (int64_t e = 0; e < w; ++e) delta += std::fabs(dout[from + e] * out[from + e]);
        for (size_t j = 0; j < r.keys.size(); ++j) {
          int64_t key = r.keys[j];
          double p = std::exp(r.s[j] - get(a.lse, h, row)), dp = 0;
          const int64_t value = (key * at.kv_heads + g) * w;
          for (int64_t e = 0; e < w; ++e) dp += r.kept[j] * std::fabs(dout[from + e] * v[value + e]);
          // The slope of a cap, 1 - (s / cap)^2, is at most 1; its error is twice the error of s / cap.
          double slope_error = at.cap == 0 ? 0 : 2 * gamma(score_roundings(at)) * r.magnitude[j] / at.cap + gamma(6);
          double p_error =
              std::expm1(gamma(score_roundings(at)) * r.magnitude[j] + 4 * u * (std::fabs(r.s[j]) + lse)) + gamma(kFunction);
          constexpr double kFlushed = 0x1p-79;
          double ds = p * (dp + delta), ds_error = ds * (p_error + slope_error + gamma(std::max(d, w) + 6) + 3 * u16 + terms) +
                                                   lost / std::min(1.0, at.scale) + kFlushed * (dp + delta);
          for (int64_t e = 0; e < d; ++e) {
            errors.dq[row * wide + h * d + e] += at.scale * ds_error * std::fabs(k[key * narrow + g * d + e]);
            errors.dk[key * narrow + g * d + e] += at.scale * ds_error * std::fabs(q[row * wide + h * d + e]);
          }
          for (int64_t e = 0; e < w; ++e)
            errors.dv[value + e] += (r.kept[j] * p * (p_error + gamma(2) + 2 * u16 + terms) + lost + r.kept[j] * kFlushed) *
                                    std::fabs(dout[from + e]);
        }
      }
  }
  return errors;
}

}  // namespace ravine
