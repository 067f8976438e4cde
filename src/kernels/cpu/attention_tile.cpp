#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_tile.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Number of vectors in a group of 16 lanes.
inline constexpr int64_t kGroupOf16 = kLanes >= 16 ? 1 : 16 / kLanes;

// row[c] = -inf for c < from and to <= c < n; n is rounded up to whole vectors.
HWY_INLINE void hide(float* row, int64_t from, int64_t to, int64_t n) {
  const hn::RebindToSigned<F32> whole;
  const auto first = hn::Set(whole, static_cast<int32_t>(from)), last = hn::Set(whole, static_cast<int32_t>(to));
  for (int64_t c = 0; c < n; c += kLanes) {
    const auto lane = hn::Iota(whole, static_cast<int32_t>(c));
    const auto hidden = hn::RebindMask(f32s, hn::Or(hn::Lt(lane, first), hn::Not(hn::Lt(lane, last))));
    hn::StoreU(hn::IfThenElse(hidden, all(kMinusInfinity), hn::LoadU(f32s, row + c)), f32s, row + c);
  }
}

void do_mask(const AttentionShape& at, const QueryBlock& q, int64_t key, int64_t keys, int64_t lanes, float* scores) {
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t ahead = key + j - q.position;  // the query at this key's position
    const int64_t from = at.causal ? std::clamp<int64_t>(ahead, 0, lanes) : 0;
    const int64_t to = at.window > 0 ? std::clamp<int64_t>(ahead + at.window, 0, lanes) : lanes;
    if (from > 0 || to < lanes) hide(scores + j * kQueries, from, to, lanes);
  }
}

void do_mask_rows(const AttentionShape& at, const QueryBlock& q, int64_t key, int64_t keys, float* scores) {
  for (int64_t i = 0; i < q.count; ++i) {
    const int64_t self = q.position + i - key;  // the key at this query's position
    const int64_t from = at.window > 0 ? std::clamp<int64_t>(self - at.window + 1, 0, keys) : 0;
    const int64_t to = at.causal ? std::clamp<int64_t>(self + 1, 0, keys) : keys;
    if (from > 0 || to < keys) hide(scores + i * kKeys, from, to, keys);
  }
}

// Distances are integers and exact in f32; each product and each sum has one rounding.
void do_alibi(float slope, const QueryBlock& q, int64_t key, int64_t keys, int64_t lanes, float* scores) {
  const hn::RebindToSigned<F32> whole;
  const Lanes by = all(slope);
  for (int64_t j = 0; j < keys; ++j) {
    const auto ahead = hn::Set(whole, static_cast<int32_t>(key + j - q.position));
    float* row = scores + j * kQueries;
    for (int64_t c = 0; c < lanes; c += kLanes) {
      const Lanes distance = hn::ConvertTo(f32s, hn::Sub(ahead, hn::Iota(whole, static_cast<int32_t>(c))));
      hn::StoreU(hn::MulAdd(by, distance, hn::LoadU(f32s, row + c)), f32s, row + c);
    }
  }
}

void do_alibi_rows(float slope, const QueryBlock& q, int64_t key, int64_t keys, float* scores) {
  const hn::RebindToSigned<F32> whole;
  const Lanes by = all(slope);
  for (int64_t i = 0; i < q.count; ++i) {
    float* row = scores + i * kKeys;
    for (int64_t c = 0; c < round_up(keys, 16); c += kLanes) {
      const Lanes distance = hn::ConvertTo(f32s, hn::Iota(whole, static_cast<int32_t>(key + c - q.position - i)));
      hn::StoreU(hn::MulAdd(by, distance, hn::LoadU(f32s, row + c)), f32s, row + c);
    }
  }
}

void do_cap(float cap, int64_t rows, int64_t pitch, int64_t n, float* scores) {
  const Lanes by = all(cap);
  for (int64_t j = 0; j < rows; ++j) {
    float* row = scores + j * pitch;
    for (int64_t c = 0; c < n; c += kLanes) hn::StoreU(hn::Mul(by, tanh_of(hn::LoadU(f32s, row + c))), f32s, row + c);
  }
}

void do_scale_tile(float factor, int64_t rows, int64_t pitch, int64_t n, float* scores) {
  const Lanes by = all(factor);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < n; c += kLanes)
      hn::StoreU(hn::Mul(by, hn::LoadU(f32s, scores + i * pitch + c)), f32s, scores + i * pitch + c);
}

void do_drop(const DroppedRows& rows, int64_t key, int64_t keys, int64_t lanes, float* probs) {
  const Randoms random(rows.key);
  const Keeping keeping(rows.p);
  for (int64_t c = 0; c < lanes; c += kLanes) {
    for (int64_t from = key / 4 * 4; from < key + keys; from += 4) {
      hn::Vec<Bits32> words[4];
      random.across(static_cast<uint32_t>(from / 4), rows.token_index + c, rows.sequences + c, rows.step, words);
#pragma GCC unroll 4
      for (int64_t w = 0; w < 4; ++w) {
        if (from + w < key || from + w >= key + keys) continue;
        float* p = probs + (from + w - key) * kQueries + c;
        hn::StoreU(hn::IfThenElseZero(keeping.keeps(words[w]), hn::LoadU(f32s, p)), f32s, p);
      }
    }
  }
}

template <class T>
HWY_INLINE Lanes rounded(Lanes v) {
  if constexpr (std::is_same_v<T, bf16>) return hn::BitCast(f32s, hn::ShiftLeft<16>(bf16_bits(v)));
  if constexpr (std::is_same_v<T, f16>) {
    HWY_ALIGN f16 t[kLanes];
    store_lanes(v, t);
    return load_lanes(t);
  }
  return v;
}

template <class T>
bool softmax_lanes(int64_t keys, int64_t lanes, float* scores, float* top, float* sum, float* factor) {
  bool changed = false;
  for (int64_t c = 0; c < lanes; c += 2 * kLanes) {
    // Two vectors of queries at a time, with two chains each. The second vector may be beyond `lanes`, but is inside
    // the tile.
    const int64_t d = c + kLanes;
    const bool two = d < lanes;
    auto column_max = [&](int64_t at) RAVINE_LANES {
      Lanes m0 = hn::Load(f32s, top + at), m1 = m0, m2 = m0, m3 = m0;
      int64_t j = 0;
      for (; j + 4 <= keys; j += 4) {
        const float* row = scores + j * kQueries + at;
        m0 = hn::Max(m0, hn::LoadU(f32s, row)), m1 = hn::Max(m1, hn::LoadU(f32s, row + kQueries));
        m2 = hn::Max(m2, hn::LoadU(f32s, row + 2 * kQueries)), m3 = hn::Max(m3, hn::LoadU(f32s, row + 3 * kQueries));
      }
      for (; j < keys; ++j) m0 = hn::Max(m0, hn::LoadU(f32s, scores + j * kQueries + at));
      return hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
    };
    auto finish = [&](int64_t at, Lanes now, Lanes base) RAVINE_LANES {
      const Lanes before = hn::Load(f32s, top + at);
      const Lanes f = exp_or_zero(hn::Sub(before, base));
      hn::Store(f, f32s, factor + at);
      hn::Store(now, f32s, top + at);
      changed |= !hn::AllTrue(f32s, hn::Eq(f, all(1.0f)));
      return hn::Mul(f, hn::Load(f32s, sum + at));
    };
    // If all keys so far are masked, e^(-inf - 0) = 0.
    auto base_of = [&](Lanes m) RAVINE_LANES { return hn::IfThenElse(hn::Eq(m, all(kMinusInfinity)), zero(), m); };
    const Lanes now = column_max(c), base = base_of(now);
    const Lanes old = finish(c, now, base);
    Lanes s0 = zero(), s1 = zero();
    auto turn = [&](float* p, Lanes from, Lanes& s) RAVINE_LANES {
      const Lanes e = exp_or_zero(hn::Sub(hn::LoadU(f32s, p), from));
      s = hn::Add(s, e);
      hn::StoreU(rounded<T>(e), f32s, p);
    };
    if (two) {
      const Lanes now2 = column_max(d), base2 = base_of(now2);
      const Lanes old2 = finish(d, now2, base2);
      Lanes t0 = zero(), t1 = zero();
      int64_t j = 0;
      for (; j + 2 <= keys; j += 2) {
        float* row = scores + j * kQueries;
        turn(row + c, base, s0), turn(row + d, base2, t0);
        turn(row + kQueries + c, base, s1), turn(row + kQueries + d, base2, t1);
      }
      if (j < keys) turn(scores + j * kQueries + c, base, s0), turn(scores + j * kQueries + d, base2, t0);
      hn::Store(hn::Add(old2, hn::Add(t0, t1)), f32s, sum + d);
    } else {
      for (int64_t j = 0; j < keys; ++j) turn(scores + j * kQueries + c, base, s0);
    }
    hn::Store(hn::Add(old, hn::Add(s0, s1)), f32s, sum + c);
  }
  return changed;
}

bool do_softmax(int64_t keys, int64_t lanes, float* scores, float* top, float* sum, float* factor, DType type) {
  if (type == DType::bf16) return softmax_lanes<bf16>(keys, lanes, scores, top, sum, factor);
  if (type == DType::f16) return softmax_lanes<f16>(keys, lanes, scores, top, sum, factor);
  return softmax_lanes<float>(keys, lanes, scores, top, sum, factor);
}

void do_scale(float* rows, int64_t count, int64_t n, const float* factor, bool divide) {
  for (int64_t i = 0; i < count; ++i) {
    const Lanes f = all(factor[i]);
    const Row<float> row(rows + i * n);
    each_vector(n, [&](int64_t j, auto part) RAVINE_LANES {
      const Lanes x = row.load(j, part);
      row.store(divide ? hn::Div(x, f) : hn::Mul(x, f), j, part);
    });
  }
}

struct Extras {  // of softmax_gradient
  float cap;
  const DroppedRows* dropped;
  int64_t key;
};

// Writes the dropout factors of keys [key, key + keys) of row i. `keys` is at most kKeys; whole runs of words are
// written.
void drop_factors(const DroppedRows& rows, const Randoms& random, int64_t i, int64_t key, int64_t keys, float* factors) {
  const Keeping keeping(rows.p);
  const Lanes scale = all(static_cast<float>(1 / (1 - rows.p)));
  HWY_ALIGN uint32_t words[4 * kLanes];
  for (int64_t c = 0; c < keys; c += 4 * kLanes) {
    random.words({static_cast<uint32_t>((key + c) / 4), rows.token_index[i], rows.sequences[i], rows.step}, words);
    for (int64_t w = 0; w < 4 * kLanes; w += kLanes)
      hn::StoreU(hn::IfThenElseZero(keeping.keeps(hn::Load(bits32, words + w)), scale), f32s, factors + c + w);
  }
}

template <class T, bool kCapped, bool kDropped>
void gradient_rows(int64_t queries, int64_t keys, float* scores, float* dp, const LogSums& sums, const float* delta,
                   const Extras& x) {
  [[maybe_unused]] const Lanes into = all(kCapped ? 1 / x.cap : 0.0f);
  [[maybe_unused]] const Randoms random(kDropped ? x.dropped->key : 0);
  HWY_ALIGN float factors[kKeys + 64];
  for (int64_t i = 0; i < queries; ++i) {
    const Lanes base = all(sums.lse[i]), rest = all(sums.rest[i]), shift = all(delta[i]);
    float *s = scores + i * kKeys, *g = dp + i * kKeys;
    if constexpr (kDropped) drop_factors(*x.dropped, random, i, x.key, keys, factors);
    auto turn = [&](int64_t c) RAVINE_LANES {
      const Lanes y = hn::LoadU(f32s, s + c), p = exp_or_zero(hn::Sub(hn::Sub(y, base), rest));
      Lanes kept = p, d = hn::LoadU(f32s, g + c);
      if constexpr (kDropped) kept = hn::Mul(p, hn::Load(f32s, factors + c)), d = hn::Mul(d, hn::Load(f32s, factors + c));
      hn::StoreU(rounded<T>(kept), f32s, s + c);
      Lanes ds = hn::Mul(p, hn::Sub(d, shift));
      if constexpr (kCapped) {
        const Lanes t = hn::Max(all(-1.0f), hn::Mul(into, y));  // -inf where masked: derivative 0
        ds = hn::Mul(ds, hn::NegMulAdd(t, t, all(1.0f)));
      }
      hn::StoreU(rounded<T>(ds), f32s, g + c);
    };
    for (int64_t c = 0; c < keys; c += 16)
#pragma GCC unroll 4
      for (int64_t d = 0; d < kGroupOf16; ++d) turn(c + d * kLanes);
  }
}

template <class T>
void gradient_of(int64_t queries, int64_t keys, float* scores, float* dp, const LogSums& sums, const float* delta,
                 const Extras& x) {
  if (x.dropped)
    return x.cap != 0 ? gradient_rows<T, true, true>(queries, keys, scores, dp, sums, delta, x)
                      : gradient_rows<T, false, true>(queries, keys, scores, dp, sums, delta, x);
  x.cap != 0 ? gradient_rows<T, true, false>(queries, keys, scores, dp, sums, delta, x)
             : gradient_rows<T, false, false>(queries, keys, scores, dp, sums, delta, x);
}

void do_gradient(int64_t queries, int64_t keys, float* scores, float* dp, const LogSums& sums, const float* delta, DType type,
                 float cap, const DroppedRows* dropped, int64_t key) {
  const Extras x{cap, dropped, key};
  if (type == DType::bf16) return gradient_of<bf16>(queries, keys, scores, dp, sums, delta, x);
  if (type == DType::f16) return gradient_of<f16>(queries, keys, scores, dp, sums, delta, x);
  gradient_of<float>(queries, keys, scores, dp, sums, delta, x);
}

void do_dots(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t count, int64_t n, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const Row<float> x(const_cast<float*>(a) + i * lda), y(const_cast<float*>(b) + i * ldb);
    to[i] =
        sum_of(n, [&](Lanes s, int64_t j, auto part) RAVINE_LANES { return hn::MulAdd(x.load(j, part), y.load(j, part), s); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(do_mask);
HWY_EXPORT(do_mask_rows);
HWY_EXPORT(do_alibi);
HWY_EXPORT(do_alibi_rows);
HWY_EXPORT(do_cap);
HWY_EXPORT(do_scale_tile);
HWY_EXPORT(do_drop);
HWY_EXPORT(do_softmax);
HWY_EXPORT(do_scale);
HWY_EXPORT(do_gradient);
HWY_EXPORT(do_dots);

void mask_scores(const AttentionShape& at, const QueryBlock& q, int64_t key, int64_t keys, int64_t lanes, float* scores) {
  HWY_DYNAMIC_DISPATCH(do_mask)(at, q, key, keys, lanes, scores);
}
void mask_rows(const AttentionShape& at, const QueryBlock& q, int64_t key, int64_t keys, float* scores) {
  HWY_DYNAMIC_DISPATCH(do_mask_rows)(at, q, key, keys, scores);
}
void add_alibi(float slope, const QueryBlock& q, int64_t key, int64_t keys, int64_t lanes, float* scores) {
  HWY_DYNAMIC_DISPATCH(do_alibi)(slope, q, key, keys, lanes, scores);
}
void add_alibi_rows(float slope, const QueryBlock& q, int64_t key, int64_t keys, float* scores) {
  HWY_DYNAMIC_DISPATCH(do_alibi_rows)(slope, q, key, keys, scores);
}
void cap_scores(float cap, int64_t keys, int64_t lanes, float* scores) {
  HWY_DYNAMIC_DISPATCH(do_cap)(cap, keys, kQueries, lanes, scores);
}
void cap_rows(float cap, int64_t queries, int64_t keys, float* scores) {
  HWY_DYNAMIC_DISPATCH(do_cap)(cap, queries, kKeys, round_up(keys, 16), scores);
}
void scale_tile(float factor, int64_t rows, int64_t pitch, int64_t n, float* scores) {
  if (factor != 1) HWY_DYNAMIC_DISPATCH(do_scale_tile)(factor, rows, pitch, round_up(n, 16), scores);
}
void drop_scores(const DroppedRows& rows, int64_t key, int64_t keys, int64_t lanes, float* probs) {
  HWY_DYNAMIC_DISPATCH(do_drop)(rows, key, keys, lanes, probs);
}
DroppedRows::DroppedRows(const AttentionDropout& d, int64_t row, int64_t count, int64_t head) : p(d.p), step(d.step) {
  if (p == 0) return;
  key = d.head_key(head);
  for (int64_t i = 0; i < count; ++i) {
    token_index[i] = static_cast<uint32_t>(d.token_index.as<int32_t>()[row + i]);
    sequences[i] = static_cast<uint32_t>(d.sequences.as<int64_t>()[row + i]);
  }
}
bool softmax_step(int64_t keys, int64_t lanes, float* scores, float* top, float* sum, float* factor, DType type) {
  return HWY_DYNAMIC_DISPATCH(do_softmax)(keys, lanes, scores, top, sum, factor, type);
}
void scale_rows(float* rows, int64_t count, int64_t n, const float* factor, bool divide) {
  HWY_DYNAMIC_DISPATCH(do_scale)(rows, count, n, factor, divide);
}
void softmax_gradient(int64_t queries, int64_t keys, float* scores, float* dp, const LogSums& sums, const float* delta,
                      DType type, float cap, const DroppedRows* dropped, int64_t key) {
  HWY_DYNAMIC_DISPATCH(do_gradient)(queries, keys, scores, dp, sums, delta, type, cap, dropped, key);
}
void row_dots(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t count, int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(do_dots)(a, lda, b, ldb, count, n, to);
}

void store_log_sum(const TensorView& lse, int64_t head, int64_t row, double value) {
  if (lse.dtype == DType::f64)
    lse.row<double>(head)[row] = value;
  else
    lse.row<float>(head)[row] = static_cast<float>(value);
}
double load_log_sum(const TensorView& lse, int64_t head, int64_t row) {
  return lse.dtype == DType::f64 ? lse.row<double>(head)[row] : lse.row<float>(head)[row];
}

void check_attention(const char* op, const AttentionShape& at, const TensorView& q, const TensorView& k, const TensorView& v,
                     const TensorView& lse) {
  require(at.head_size > 0 && at.kv_heads > 0 && at.heads > 0 && at.heads % at.kv_heads == 0,
          "{}: heads must be a multiple of kv_heads, got {} and {} of size {}", op, at.heads, at.kv_heads, at.head_size);
  require(q.cols() == at.heads * at.head_size && k.cols() == at.kv_heads * at.head_size &&
              v.cols() == at.kv_heads * at.values() && k.rows() == v.rows(),
          "{}: q has heads * size columns, k kv_heads * size, v kv_heads * {}, got {}, {} and {}", op, at.values(),
          q.shape.text(), k.shape.text(), v.shape.text());
  require(
      q.dtype == k.dtype && q.dtype == v.dtype && (q.dtype == DType::f32 || q.dtype == DType::bf16 || q.dtype == DType::f16),
      "{}: q, k and v have one type of f32, bf16, f16, got {}, {} and {}", op, name(q.dtype), name(k.dtype), name(v.dtype));
  require(lse.absent() ||
              (lse.rows() == at.heads && lse.cols() == q.rows() && (lse.dtype == DType::f32 || lse.dtype == DType::f64)),
          "{}: lse is f32 or f64 [heads, tokens], got {} {}", op, name(lse.dtype), lse.shape.text());
  require(at.slopes.empty() || static_cast<int64_t>(at.slopes.size()) == at.heads, "{}: slopes are one per head, got {} for {}",
          op, at.slopes.size(), at.heads);
  require(at.cap >= 0 && (at.cap == 0 || at.slopes.empty()), "{}: cap must be 0 or above, and not beside slopes, got {}", op,
          at.cap);
  if (at.dropout.p != 0) {
    require(at.dropout.p > 0 && at.dropout.p < 1, "{}: p of dropout must be in [0, 1), got {}", op, at.dropout.p);
    check_vector(op, "places", at.dropout.token_index, DType::i32, q.rows());
    check_vector(op, "sequences", at.dropout.sequences, DType::i64, q.rows());
  }
  for (const Segment& s : at.segments)
    require(s.q_begin >= 0 && s.q_count >= 0 && s.q_begin + s.q_count <= q.rows() && s.k_begin >= 0 && s.k_count >= 0 &&
                s.k_begin + s.k_count <= k.rows(),
            "{}: a segment must lie inside q and k, got queries {}+{} of {}, keys {}+{} of {}", op, s.q_begin, s.q_count,
            q.rows(), s.k_begin, s.k_count, k.rows());
}

}  // namespace ravine
#endif
