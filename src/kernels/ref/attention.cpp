#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

constexpr double kNoKeys = -std::numeric_limits<double>::infinity();

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* to, double factor, const double* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

void check_shape(const char* op, const AttentionShape& at, const TensorView& q, const TensorView& k, const TensorView& v) {
  require(at.heads > 0 && at.kv_heads > 0 && at.heads % at.kv_heads == 0,
          "{}: heads must be a multiple of kv_heads, got {} and {}", op, at.heads, at.kv_heads);
  check(op, "q", q, q.rows(), at.heads * at.head_size);
  check(op, "k", k, k.rows(), at.kv_heads * at.head_size);
  check(op, "v", v, k.rows(), at.kv_heads * at.values());
  require(at.cap >= 0 && (at.cap == 0 || at.slopes.empty()), "{}: cap must be 0 or above, and not beside slopes, got {}", op,
          at.cap);
  if (at.dropout.p != 0) {
    require(at.dropout.p > 0 && at.dropout.p < 1, "{}: p of dropout must be in [0, 1), got {}", op, at.dropout.p);
    check_integers(op, "places", at.dropout.token_index, DType::i32, q.rows());
    check_integers(op, "sequences", at.dropout.sequences, DType::i64, q.rows());
  }
  require(at.slopes.empty() || static_cast<int64_t>(at.slopes.size()) == at.heads, "{}: slopes are one per head, got {} for {}",
          op, at.slopes.size(), at.heads);
  for (const Segment& s : at.segments)
    require(s.q_begin >= 0 && s.q_count >= 0 && s.q_begin <= q.rows() - s.q_count && s.k_begin >= 0 && s.k_count >= 0 &&
                s.k_begin <= k.rows() - s.k_count,
            "{}: segments must lie inside q ({} rows) and k ({} rows), got q {}+{}, k {}+{}", op, q.rows(), k.rows(), s.q_begin,
            s.q_count, s.k_begin, s.k_count);
}

// Returns the segment of each row of q; null outside of segments.
std::vector<const Segment*> segments_of_rows(const char* op, const AttentionShape& at, int64_t n) {
  std::vector<const Segment*> rows(n, nullptr);
  for (const Segment& s : at.segments)
    for (int64_t i = s.q_begin; i < s.q_begin + s.q_count; ++i) {
      require(!rows[i], "{}: segments must not overlap in q, got two at row {}", op, i);
      rows[i] = &s;
    }
  return rows;
}

// Returns the ALiBi term of the score of query i and key j of a segment.
double alibi(const AttentionShape& at, int64_t head, const Segment& s, int64_t i, int64_t j) {
  return at.slopes.empty() ? 0 : at.slopes[static_cast<size_t>(head)] * static_cast<double>(j - (s.k_count - s.q_count + i));
}

// The dropout factors of the probabilities of a row of q and the keys of its segment.
class Drop {
 public:
  Drop(const AttentionShape& at, int64_t row, int64_t head) : drop_(at.dropout) {
    if (drop_.p == 0) return;
    key_ = drop_.head_key(head);
    token_index_ = static_cast<uint32_t>(drop_.token_index.as<int32_t>()[row]),
    sequence_ = static_cast<uint32_t>(drop_.sequences.as<int64_t>()[row]);
  }
  double operator()(int64_t j) const {
    if (drop_.p == 0) return 1;
    auto words = philox(key_, {static_cast<uint32_t>(j / 4), token_index_, sequence_, drop_.step});
    return uniform24(words[static_cast<size_t>(j % 4)]) >= drop_.p ? 1 / (1 - drop_.p) : 0;
  }

 private:
  const AttentionDropout& drop_;
  uint64_t key_ = 0;
  uint32_t token_index_ = 0, sequence_ = 0;
};

// Per query row and head: s = scale q k^T (capped, or + alibi) over unmasked keys, lse = logsumexp(s), p = exp(s -
// lse), out = dropout(p) v.
void forward(const AttentionForward& a, void*) {
  const AttentionShape& at = a.at;
  int64_t n = a.q.rows(), d = at.head_size, e = at.values(), group = at.heads / std::max<int64_t>(1, at.kv_heads);
  check_shape(a.name, at, a.q, a.k, a.v);
  check(a.name, "out", a.out, n, at.heads * e);
  check_optional(a.name, "lse", a.lse, at.heads, n);
  std::vector<const Segment*> segment_of = segments_of_rows(a.name, at, n);
  Doubles q(a.q), k(a.k), v(a.v);
  parallel_for(n, [&](int64_t row) {
    std::vector<double> out(at.heads * e), p;
    for (int64_t h = 0; h < at.heads; ++h) {
      double lse = kNoKeys;
      if (const Segment* s = segment_of[row]) {
        Mask mask{s->q_count, s->k_count, at.causal, at.window};
        int64_t i = row - s->q_begin, first = mask.first(i), last = std::max(first, mask.last(i)), kv = h / group;
        p.resize(last - first);
        for (int64_t j = first; j < last; ++j)
          p[j - first] =
              soft_cap(at.scale * dot(q.row(row) + h * d, k.row(s->k_begin + j) + kv * d, d), at.cap) + alibi(at, h, *s, i, j);
        lse = log_sum_exp(p.data(), last - first);
        const Drop drop(at, row, h);
        for (int64_t j = first; j < last; ++j)
          add_scaled(&out[h * e], round_factor(a.q.dtype, drop(j) * std::exp(p[j - first] - lse)),
                     v.row(s->k_begin + j) + kv * e, e);
      }
      if (!a.lse.absent()) store(&lse, a.lse, h, row, 1);
    }
    store_row(out, a.out, row);
  });
}

bool overlap_in_keys(std::span<const Segment> segments) {
  std::vector<Segment> s(segments.begin(), segments.end());
  std::sort(s.begin(), s.end(), [](const Segment& x, const Segment& y) { return x.k_begin < y.k_begin; });
  for (size_t i = 1; i < s.size(); ++i)
    if (s[i - 1].k_begin + s[i - 1].k_count > s[i].k_begin) return true;
  return false;
}

// With p = exp(s - lse), the dropout factor m, dp = m dout v^T, delta = dout . out:  ds = p (dp - delta), times the
// derivative of the cap;  dq = scale ds k;  dk = scale ds^T q;  dv = (m p)^T dout. (Dao et al. 2022, FlashAttention,
// algorithm 4.)
void backward(const AttentionBackward& a, void*) {
  const AttentionShape& at = a.at;
  int64_t n = a.q.rows(), m = a.k.rows(), d = at.head_size, e = at.values();
  int64_t group = at.heads / std::max<int64_t>(1, at.kv_heads), wide = at.heads * d, of_keys = at.kv_heads * d,
          of_values = at.kv_heads * e;
  check_shape(a.name, at, a.q, a.k, a.v);
  check(a.name, "dout", a.dout, n, at.heads * e);
  check(a.name, "out", a.out, n, at.heads * e);
  check(a.name, "lse", a.lse, at.heads, n);
  check(a.name, "dq", a.dq, n, wide);
  check(a.name, "dk", a.dk, m, of_keys);
  check(a.name, "dv", a.dv, m, of_values);
  segments_of_rows(a.name, at, n);
  DType t = a.q.dtype;
  Doubles q(a.q), k(a.k), v(a.v), dout(a.dout), out(a.out), lse(a.lse);
  std::vector<double> dq(n * wide), dk(m * of_keys), dv(m * of_values);
  auto segment = [&](const Segment& s, int64_t g) {
    Mask mask{s.q_count, s.k_count, at.causal, at.window};
    for (int64_t h = g * group; h < (g + 1) * group; ++h)
      for (int64_t i = 0; i < s.q_count; ++i) {
        int64_t row = s.q_begin + i, col = h * d;
        const double *dout_row = dout.row(row) + h * e, delta = dot(dout_row, out.row(row) + h * e, e);
        const Drop drop(at, row, h);
        for (int64_t j = mask.first(i); j < mask.last(i); ++j) {
          int64_t key = s.k_begin + j;
          double y = soft_cap(at.scale * dot(q.row(row) + col, k.row(key) + g * d, d), at.cap), m = drop(j);
          double p = std::exp(y + alibi(at, h, s, i, j) - lse.row(h)[row]);
          double ds = round_factor(t, p * (m * dot(dout_row, v.row(key) + g * e, e) - delta) * soft_cap_slope(y, at.cap));
          add_scaled(&dq[row * wide + col], at.scale * ds, k.row(key) + g * d, d);
          add_scaled(&dk[key * of_keys + g * d], at.scale * ds, q.row(row) + col, d);
          add_scaled(&dv[key * of_values + g * e], round_factor(t, m * p), dout_row, e);
        }
      }
  };
  if (overlap_in_keys(at.segments))  // segments share keys: their sums run in order
    parallel_for(at.kv_heads, [&](int64_t g) {
      for (const Segment& s : at.segments) segment(s, g);
    });
  else
    parallel_for(at.kv_heads * static_cast<int64_t>(at.segments.size()),
                 [&](int64_t i) { segment(at.segments[i / at.kv_heads], i % at.kv_heads); });
  each_row(n, wide, [&](int64_t i) { store(&dq[i * wide], a.dq, i, 0, wide); });
  each_row(m, of_keys, [&](int64_t i) {
    store(&dk[i * of_keys], a.dk, i, 0, of_keys);
    store(&dv[i * of_values], a.dv, i, 0, of_values);
  });
}

}  // namespace

template <>
Kernel<AttentionForward> kernel_of() {
  return entry<AttentionForward>(forward);
}
template <>
Kernel<AttentionBackward> kernel_of() {
  return entry<AttentionBackward>(backward);
}

}  // namespace ravine::ref
