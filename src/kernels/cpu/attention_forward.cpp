// Attention in tiles with an online softmax (Dao et al.: FlashAttention, 2022). A task has up to eight blocks of
// queries, from up to four heads that share keys. A task runs over the tiles of keys that the mask lets through.
// Segments with few queries go to attention_decode.cpp. The result of a query does not depend on the other blocks of
// its task.
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/attention_pairs.h"
#include "kernels/cpu/cpu.h"

namespace ravine {
namespace {

// Blocks of queries per task, over all its heads: each tile of keys is copied once for all of them.
constexpr int64_t kBlocks = 8;
constexpr int64_t kHeads = 4;         // heads per task at most, from one group that shares keys
constexpr int64_t kTasksWanted = 24;  // with fewer tasks, tasks become smaller
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// The memory of a thread for a task. With pairs: keys and queries are paired along channels, values and probs
// (probabilities) along keys.
struct Work {
  bool pairs;
  float *scores, *keys, *values, *probs;
  struct Rows {  // one block of queries of one head
    float *q, *out, *top, *sum, *factor;
  } rows[kBlocks];
  TileRun score_product, out_product;
};

int64_t query_floats(int64_t size, bool pairs) { return pairs ? PairPanels::floats(size, kQueries) : kQueries * size; }

Work lay_out(Scratch& s, const AttentionShape& at, bool pairs) {
  const int64_t size = at.head_size, values = at.values();
  Work w{};
  w.pairs = pairs;
  w.scores = s.floats(kKeys * kQueries + 16);
  w.keys = s.floats(kKeys * (pairs ? pairs_of(size) : size));
  w.values = s.floats(pairs ? PairPanels::floats(kKeys, values) : kKeys * values);
  if (pairs) w.probs = s.floats(sixes_floats(kQueries, kKeys));
  for (auto& r : w.rows)
    r = {s.floats(query_floats(size, pairs)), s.floats(kQueries * result_pitch(values, pairs)), s.floats(kQueries),
         s.floats(kQueries), s.floats(kQueries)};
  return w;
}

// Computes scores [keys][kQueries] of queries [i, i + n) of a block, for keys [0, seen) from `skipped` of the tile on.
void score_tile(int64_t size, int64_t skipped, int64_t i, int64_t n, int64_t seen, Work& w, const Work::Rows& r) {
  if (!w.pairs)
    return w.score_product({seen, round_up(n, 16), size, size, kQueries, kQueries}, w.keys + skipped * size, r.q + i,
                           w.scores + i);
  const int64_t depth = pairs_of(size);
  const Strip s{
      .a = w.keys + skipped * depth, .a_row = depth, .c = w.scores + i, .ldc = kQueries, .rows = seen, .depth = depth};
  PairPanels(r.q, size).product(s, 0, i, n);
}

// Adds to out the products of these probabilities and the values.
void out_tile(int64_t size, int64_t skipped, int64_t i, int64_t n, int64_t seen, Work& w, const Work::Rows& r) {
  if (!w.pairs)
    return w.out_product({n, size, seen, kQueries, size, size, true, true}, w.scores + i, w.values + skipped * size,
                         r.out + i * size);
  const int64_t depth = pairs_of(kKeys), pitch = result_pitch(size, true);
  pairs_of_wide_rows_in_sixes(w.scores + i, kQueries, seen, n, w.probs, 6 * depth);
  const Strip s{.a = w.probs,
                .a_row = depth,
                .a_sixes = true,
                .c = r.out + i * pitch,
                .ldc = pitch,
                .rows = n,
                .depth = pairs_of(seen),
                .accumulate = true};
  PairPanels(w.values, kKeys).product(s, skipped, 0, size);
}

struct Task {
  const Segment* segment;
  int64_t first_block, blocks, head, heads;
};

// `row`: the first row of the block in q.
void attend_tile(const AttentionForward& a, const Segment& s, const QueryBlock& b, int64_t row, int64_t head, Work& w,
                 const Work::Rows& r, int64_t key, int64_t keys) {
  const int64_t size = a.at.head_size, values = a.at.values(), lanes = round_up(b.count, 16);
  const int64_t first = std::max(key, b.keys_begin(a.at)), end = std::min(key + keys, b.keys_end(a.at, s));
  if (first >= end) return;
  const int64_t skipped = w.pairs ? (first - key) / 2 * 2 : first - key, begin = key + skipped;
  keys = end - begin;
  each_lane_group(a.at, b, begin, keys,
                  [&](int64_t i, int64_t n, int64_t seen) { score_tile(size, skipped, i, n, seen, w, r); });
  if (w.pairs) scale_tile(score_factor(a.at), keys, kQueries, lanes, w.scores);
  if (a.at.cap != 0) cap_scores(static_cast<float>(a.at.cap), keys, lanes, w.scores);
  if (!a.at.slopes.empty()) add_alibi(static_cast<float>(a.at.slopes[head]), b, begin, keys, lanes, w.scores);
  if (!b.sees_all(a.at, begin, keys)) mask_scores(a.at, b, begin, keys, lanes, w.scores);
  if (softmax_step(keys, lanes, w.scores, r.top, r.sum, r.factor, a.q.dtype))
    scale_rows(r.out, b.count, result_pitch(values, w.pairs), r.factor, false);
  if (a.at.dropout.p != 0) drop_scores(DroppedRows(a.at.dropout, row, b.count, head), begin, keys, lanes, w.scores);
  each_lane_group(a.at, b, begin, keys,
                  [&](int64_t i, int64_t n, int64_t seen) { out_tile(values, skipped, i, n, seen, w, r); });
}

void finish(const AttentionForward& a, const Segment& s, int64_t block, int64_t head, const QueryBlock& b, bool pairs,
            const Work::Rows& r) {
  const int64_t size = a.at.values(), pitch = result_pitch(size, pairs), row = s.q_begin + block * kQueries;
  for (int64_t i = 0; i < b.count; ++i) {
    if (!a.lse.absent()) store_log_sum(a.lse, head, row + i, r.top[i] + std::log(static_cast<double>(r.sum[i])));
    if (r.sum[i] == 0) r.sum[i] = 1;  // no key was unmasked: out is zero
    if (a.at.dropout.p != 0) r.sum[i] = static_cast<float>(r.sum[i] * (1 - a.at.dropout.p));
  }
  scale_rows(r.out, b.count, pitch, r.sum, true);
  unpack(r.out, pitch, b.count, size, nullptr, false, Corner(a.out, row, head * size));
}

void attend(const AttentionForward& a, const Task& t, Work& w) {
  const AttentionShape& at = a.at;
  const Segment& s = *t.segment;
  const int64_t size = at.head_size, values = at.values(), kv = t.head / (at.heads / at.kv_heads);
  int64_t begin = s.k_count, end = 0;
  for (int64_t n = 0; n < t.blocks; ++n) {
    const QueryBlock b = query_block(s, t.first_block + n);
    begin = std::min(begin, b.keys_begin(at)), end = std::max(end, b.keys_end(at, s));
    for (int64_t h = 0; h < t.heads; ++h) {
      const Work::Rows& r = w.rows[n * t.heads + h];
      const Corner q(a.q, s.q_begin + (t.first_block + n) * kQueries, (t.head + h) * size);
      if (b.count % 16) std::fill(r.q, r.q + query_floats(size, w.pairs), 0.0f);
      if (w.pairs)
        PairPanels(r.q, size).load_transposed(q, size, b.count);
      else
        pack_transposed(q, b.count, size, r.q, kQueries, score_factor(at));
      std::fill(r.out, r.out + kQueries * result_pitch(values, w.pairs), 0.0f);
      std::fill(r.top, r.top + kQueries, kNothing);
      std::fill(r.sum, r.sum + kQueries, 0.0f);
    }
  }
  begin = begin / kKeys * kKeys;
  for (int64_t key = begin; key < end; key += kKeys) {
    const int64_t keys = std::min(kKeys, end - key);
    // Rows of the inputs may be a page apart, so tiles are copied before products read them several times.
    const Corner k(a.k, s.k_begin + key, kv * size), v(a.v, s.k_begin + key, kv * values);
    if (w.pairs) {
      pairs_along_rows(k, keys, size, w.keys, pairs_of(size));
      PairPanels(w.values, kKeys).load_rows(v, keys, values);
    } else {
      pack_copy(k, keys, size, w.keys, size), pack_copy(v, keys, values, w.values, values);
    }
    if (key + keys < end) {
      const int64_t next = s.k_begin + key + keys, count = std::min(kKeys, end - key - keys);
      prefetch(Corner(a.k, next, kv * size), count, size), prefetch(Corner(a.v, next, kv * values), count, values);
    }
    for (int64_t n = 0; n < t.blocks; ++n)
      for (int64_t h = 0; h < t.heads; ++h)
        attend_tile(a, s, query_block(s, t.first_block + n), s.q_begin + (t.first_block + n) * kQueries, t.head + h, w,
                    w.rows[n * t.heads + h], key, keys);
  }
  for (int64_t n = 0; n < t.blocks; ++n)
    for (int64_t h = 0; h < t.heads; ++h)
      finish(a, s, t.first_block + n, t.head + h, query_block(s, t.first_block + n), w.pairs, w.rows[n * t.heads + h]);
}

void check(const AttentionForward& a) {
  check_attention("attention", a.at, a.q, a.k, a.v, a.lse);
  require(a.out.rows() == a.q.rows() && a.out.cols() == a.at.heads * a.at.values() && a.out.dtype == a.q.dtype,
          "attention: out has rows and type of q and {} columns, got {} and {}", a.at.heads * a.at.values(), a.out.shape.text(),
          a.q.shape.text());
}

bool in_pairs(const AttentionForward& a, Bf16Products products) {
  return products == Bf16Products::dot && a.q.dtype == DType::bf16;
}

int64_t bytes_per_thread(const AttentionForward& a, bool pairs) {
  Scratch s(nullptr);
  lay_out(s, a.at, pairs);
  return s.bytes();
}

template <Bf16Products kProducts>
void run(const AttentionForward& a, void* workspace) {
  check(a);
  each_gap(a.at, a.q.rows(), [&](int64_t from, int64_t to) {
    clear_rows(a.out, from, to);
    if (!a.lse.absent())
      for (int64_t h = 0; h < a.at.heads; ++h)
        for (int64_t i = from; i < to; ++i) store_log_sum(a.lse, h, i, kNothing);
  });
  const bool pairs = in_pairs(a, kProducts);
  const int64_t group = a.at.heads / a.at.kv_heads, each = bytes_per_thread(a, pairs);
  std::vector<const Segment*> few;
  std::vector<Task> tasks;
  for (const Segment& s : a.at.segments) {
    if (s.q_count == 0) continue;
    if (s.q_count <= kDecodeQueries && a.at.dropout.p == 0) {
      few.push_back(&s);
      continue;
    }
    const int64_t blocks = ceil_div(s.q_count, kQueries), heads = std::min(kHeads, group), runs = ceil_div(group, heads);
    const int64_t each_task =
        std::clamp<int64_t>(blocks * a.at.kv_heads * runs / kTasksWanted, 1, std::min(blocks, kBlocks / heads));
    // The last queries have the most keys. They start first, so that threads end at the same time.
    for (int64_t i = ceil_div(blocks, each_task) - 1; i >= 0; --i)
      for (int64_t g = 0; g < a.at.kv_heads; ++g)
        for (int64_t h = 0; h < group; h += heads)
          tasks.push_back(
              {&s, i * each_task, std::min(each_task, blocks - i * each_task), g * group + h, std::min(heads, group - h)});
  }
  parallel_for_threads(static_cast<int64_t>(tasks.size()), [&](int64_t i, int thread) {
    Scratch s(static_cast<char*>(workspace) + thread * each);
    Work w = lay_out(s, a.at, pairs);
    attend(a, tasks[i], w);
  });
  if (!few.empty()) attend_few(a, few, workspace);
}

}  // namespace

Kernel<AttentionForward> cpu_attention(Bf16Products products) {
  auto entry = []<Bf16Products kProducts>() -> Kernel<AttentionForward> {
    return {run<kProducts>, [](const AttentionForward& a, int threads) {
              return std::max(bytes_per_thread(a, in_pairs(a, kProducts)) * threads, attend_few_workspace(a, threads));
            }};
  };
  if (products == Bf16Products::widen) return entry.operator()<Bf16Products::widen>();
  require(has_bf16_dot(), "attention: this machine has no bf16 dot product");
  return entry.operator()<Bf16Products::dot>();
}

}  // namespace ravine
