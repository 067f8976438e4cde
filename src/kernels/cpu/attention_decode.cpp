#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_decode.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/pack.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Prefetches the head's part of the row that is `rows` rows ahead. The part is short and rows are far apart, so the
// hardware does not predict it.
template <class T>
HWY_INLINE void prefetch_row(const T* row, int64_t stride, int64_t size, int64_t rows = 12) {
  const char* at = reinterpret_cast<const char*>(row + rows * stride);
  for (int64_t i = 0; i < size * static_cast<int64_t>(sizeof(T)); i += 64) __builtin_prefetch(at + i);
}

// Attention of one query to keys [0, n) in rows of k and v: out[values] = sum e^(score - top) v, also top and the sum
// of the exponentials. q is scaled; scores has room for n. With a cap (0: none) scores become cap * tanh(score). ALiBi
// adds slope * (distance + j) to the score of key j.
template <class T>
void one_query(const float* q, const T* k, int64_t ldk, const T* v, int64_t ldv, int64_t n, int64_t size, int64_t values,
               float cap, float slope, int64_t distance, float* scores, float* out, float* top_and_sum) {
  float top = -std::numeric_limits<float>::infinity();
  // Several keys at once, so that their sums over lanes overlap. The order of each sum does not depend on the other
  // keys.
  auto keys = [&](int64_t j, auto count) RAVINE_LANES {
    constexpr int kCount = decltype(count)::value;
    Lanes sum[kCount];
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
      sum[c] = zero();
      prefetch_row(k + (j + c) * ldk, ldk, size);
    }
    auto step = [&](int64_t i, auto part) RAVINE_LANES {
      const Lanes query = Row<float>(const_cast<float*>(q)).load(i, part);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c)
        sum[c] = hn::MulAdd(query, Row<T>(const_cast<T*>(k) + (j + c) * ldk).load(i, part), sum[c]);
    };
    each_vector(size, step);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
      scores[j + c] = hn::GetLane(hn::SumOfLanes(f32s, sum[c]));
      if (slope != 0) scores[j + c] += slope * static_cast<float>(distance + j + c);
      top = scores[j + c] > top ? scores[j + c] : top;
    }
  };
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) keys(j, std::integral_constant<int, 4>());
  for (; j < n; ++j) keys(j, std::integral_constant<int, 1>());
  const Row<float> p(scores);
  if (cap != 0) {
    const Lanes tops = fold(
        n, all(-std::numeric_limits<float>::infinity()),
        [&](Lanes m, int64_t i, auto part) RAVINE_LANES {
          const Lanes s = hn::Mul(
              // -cap after the end of the row
              all(cap), tanh_of(p.load(i, part, -std::numeric_limits<float>::infinity())));
          p.store(s, i, part);
          return hn::Max(m, s);
        },
        [](Lanes x, Lanes y) RAVINE_LANES { return hn::Max(x, y); });
    top = hn::GetLane(hn::MaxOfLanes(f32s, tops));
  }
  const Lanes base = all(top);
  const float sum = sum_of(n, [&](Lanes s, int64_t i, auto part) RAVINE_LANES {
    Lanes e = exp_or_zero(hn::Sub(p.load(i, part), base));
    if constexpr (!std::is_same_v<decltype(part), Full>) e = hn::IfThenElseZero(hn::FirstN(f32s, part.n), e);
    if constexpr (std::is_same_v<T, float>) {
      p.store(e, i, part);
    } else {
      HWY_ALIGN T t[kLanes];
      store_lanes(e, t);
      p.store(load_lanes(t), i, part);
    }
    return hn::Add(s, e);
  });
  top_and_sum[0] = top, top_and_sum[1] = sum;
  int64_t i = 0;
  auto columns = [&](auto count) RAVINE_LANES {
    constexpr int kCount = decltype(count)::value;
    Lanes acc[kCount];
#pragma GCC unroll 4
    for (Lanes& x : acc) x = zero();
    for (int64_t j = 0; j < n; ++j) {
      if (kCount > 1) prefetch_row(v + j * ldv + i, ldv, kCount * kLanes);
      const Lanes w = all(scores[j]);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) acc[c] = hn::MulAdd(w, load_lanes(v + j * ldv + i + c * kLanes), acc[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) store_lanes(acc[c], out + i + c * kLanes);
    i += kCount * kLanes;
  };
  while (i + 4 * kLanes <= values) columns(std::integral_constant<int, 4>());
  while (i + kLanes <= values) columns(std::integral_constant<int, 1>());
  if (i < values) {
    const Part part{values - i};
    Lanes acc = zero();
    for (int64_t j = 0; j < n; ++j) acc = hn::MulAdd(all(scores[j]), Row<T>(const_cast<T*>(v) + j * ldv).load(i, part), acc);
    Row<float>(out).store(acc, i, part);
  }
}

void decode(const float* q, const Corner& k, const Corner& v, int64_t n, int64_t size, int64_t values, float cap, float slope,
            int64_t distance, float* scores, float* out, float* top_and_sum) {
  auto typed = [&](auto zero) {
    using T = decltype(zero);
    one_query(q, static_cast<const T*>(k.data), k.stride, static_cast<const T*>(v.data), v.stride, n, size, values, cap, slope,
              distance, scores, out, top_and_sum);
  };
  if (k.dtype == DType::f32) return typed(float{});
  if (k.dtype == DType::bf16) return typed(bf16{});
  typed(f16{});
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/parallel.h"

namespace ravine {
HWY_EXPORT(decode);

namespace {

constexpr int64_t kChunk = 512;     // keys per task; more if a segment would need more than kSlots tasks
constexpr int64_t kSlots = 64;      // chunks in one round, over all segments
constexpr int64_t kTaskHeads = 16;  // heads per task at most, of heads that share keys

struct Slot {
  const Segment* segment;
  int64_t begin, end;  // keys
};

// A partial result of one query and head: its output, then top and sum.
int64_t partial_size(const AttentionForward& a) { return a.at.values() + 2; }

struct Memory {
  float *partials, *threads;
  int64_t per_thread, bytes;
};

Memory lay_out(const AttentionForward& a, void* workspace, int threads) {
  Scratch s(workspace);
  Memory m;
  m.partials = s.floats(kSlots * kDecodeQueries * a.at.heads * partial_size(a));
  const int64_t chunk = round_up(std::max(kChunk, ceil_div(a.k.rows(), kSlots)), 16);
  m.per_thread = chunk + round_up(std::max(a.at.head_size, a.at.values()), 16);
  m.threads = s.floats(threads * m.per_thread);
  m.bytes = s.bytes();
  return m;
}

void join(const AttentionForward& a, const Segment& s, int64_t i, int64_t head, const float* partials, int64_t count,
          int64_t pitch, float* out) {
  const int64_t size = a.at.values();
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t c = 0; c < count; ++c) top = std::max(top, partials[c * pitch + size]);
  std::fill(out, out + size, 0.0f);
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) {
    const float* p = partials + c * pitch;
    if (p[size + 1] == 0) continue;
    const float factor = std::exp(p[size] - top);
    sum += static_cast<double>(factor) * p[size + 1];
    for (int64_t j = 0; j < size; ++j) out[j] += factor * p[j];
  }
  if (!a.lse.absent()) store_log_sum(a.lse, head, s.q_begin + i, top + std::log(sum));
  for (int64_t j = 0; j < size; ++j) out[j] = sum == 0 ? 0.0f : static_cast<float>(out[j] / sum);
  unpack(out, size, 1, size, nullptr, false, Corner(a.out, s.q_begin + i, head * size));
}

void run_slots(const AttentionForward& a, const std::vector<Slot>& slots, const Memory& mem) {
  const AttentionShape& at = a.at;
  const int64_t size = at.head_size, values = at.values(), group = at.heads / at.kv_heads, one = partial_size(a),
                pitch = kDecodeQueries * at.heads * one;
  const int64_t count = static_cast<int64_t>(slots.size()), runs = ceil_div(group, kTaskHeads), tasks = at.kv_heads * runs;
  parallel_for_threads(count * tasks, [&](int64_t t, int thread) {
    const Slot& slot = slots[t / tasks];
    const Segment& s = *slot.segment;
    const int64_t kv = t % tasks / runs, first = kv * group + t % runs * kTaskHeads,
                  last = std::min(first + kTaskHeads, (kv + 1) * group);
    float* q = mem.threads + thread * mem.per_thread;
    float* scores = q + round_up(size, 16);
    for (int64_t i = 0; i < s.q_count; ++i) {
      const QueryBlock b{s.k_count - s.q_count + i, 1};
      const int64_t begin = std::max(slot.begin, b.keys_begin(at)), end = std::min(slot.end, b.keys_end(at, s));
      for (int64_t h = first; h < last; ++h) {
        float* partial = mem.partials + t / tasks * pitch + (i * at.heads + h) * one;
        if (begin >= end) {
          partial[values] = -std::numeric_limits<float>::infinity(), partial[values + 1] = 0;
          continue;
        }
        pack_transposed(Corner(a.q, s.q_begin + i, h * size), 1, size, q, 1, score_factor(at));
        HWY_DYNAMIC_DISPATCH(decode)
        (q, Corner(a.k, s.k_begin + begin, kv * size), Corner(a.v, s.k_begin + begin, kv * values), end - begin, size, values,
         static_cast<float>(at.cap), at.slopes.empty() ? 0.0f : static_cast<float>(at.slopes[h]), begin - b.position, scores,
         partial, partial + values);
      }
    }
  });
  for (int64_t c = 0; c < count;) {
    int64_t e = c;
    while (e < count && slots[e].segment == slots[c].segment) ++e;
    const Segment& s = *slots[c].segment;
    for (int64_t i = 0; i < s.q_count; ++i)
      for (int64_t h = 0; h < at.heads; ++h)
        join(a, s, i, h, mem.partials + c * pitch + (i * at.heads + h) * one, e - c, pitch, mem.threads);
    c = e;
  }
}

}  // namespace

int64_t attend_few_workspace(const AttentionForward& a, int threads) { return lay_out(a, nullptr, threads).bytes; }

void attend_few(const AttentionForward& a, const std::vector<const Segment*>& segments, void* workspace) {
  const Memory mem = lay_out(a, workspace, thread_count());
  std::vector<Slot> slots;
  for (const Segment* s : segments) {
    const QueryBlock b{s->k_count - s->q_count, s->q_count};
    const int64_t begin = b.keys_begin(a.at), end = std::max(begin, b.keys_end(a.at, *s));
    const int64_t chunk = std::max(kChunk, ceil_div(end - begin, kSlots)),
                  count = std::max<int64_t>(1, ceil_div(end - begin, chunk));
    if (static_cast<int64_t>(slots.size()) + count > kSlots) run_slots(a, slots, mem), slots.clear();
    for (int64_t c = 0; c < count; ++c) slots.push_back({s, begin + c * chunk, std::min(end, begin + (c + 1) * chunk)});
  }
  run_slots(a, slots, mem);
}

}  // namespace ravine
#endif
