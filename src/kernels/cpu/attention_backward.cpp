// Gradient of attention: probabilities are computed again from lse, tile by tile (Dao et al. 2022). A task owns the keys and
// values of one head of one segment. Queries and their gradients are copied once; then, for each tile of keys in turn, all
// queries that see it add to its dk and dv, which stay in cache, and to dq. Few heads: a task takes only every P-th block of
// queries, into its own copy of dk and dv; copies are added in order.
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu.h"

namespace ravine {
namespace {

constexpr int64_t kTasksWanted = 12, kMostParts = 4;

int64_t parts_of(const AttentionBackward& a) { return std::min(kMostParts, ceil_div(kTasksWanted, a.at.kv_heads)); }

// What a thread needs for a task. q, dout, dq, lse, its rest and delta: of all queries of all heads that share keys.
struct Work {
  float *scores, *dp, *keys, *keys_t, *values_t, *wide_out, *q, *dout, *dq, *lse, *lse_rest, *delta;
  TileRun score_product, key_product, query_product;
};

Work lay_out_thread(Scratch& s, const AttentionBackward& a) {
  const int64_t size = a.at.head_size, queries = a.at.heads / a.at.kv_heads * a.q.rows();
  Work w{};
  w.scores = s.floats(kKeys * kQueries), w.dp = s.floats(kKeys * kQueries);
  for (float** p : {&w.keys, &w.keys_t, &w.values_t}) *p = s.floats(kKeys * size);
  w.wide_out = s.floats(kQueries * size);
  for (float** p : {&w.q, &w.dout, &w.dq}) *p = s.floats(queries * size);
  for (float** p : {&w.lse, &w.lse_rest, &w.delta}) *p = s.floats(queries);
  return w;
}

int64_t bytes_per_thread(const AttentionBackward& a) {
  Scratch s(nullptr);
  lay_out_thread(s, a);
  return s.bytes();
}

// Where gradients of the keys and values of one head gather: f32 [M, D], by thread (one part) or by part and head.
struct Sums {
  float *dk, *dv;
};

struct Memory {
  float* sums;
  int64_t sum_size, per_thread, bytes;
  char* threads;
  Sums at(int64_t index) const { return {sums + 2 * index * sum_size, sums + (2 * index + 1) * sum_size}; }
};

Memory lay_out(const AttentionBackward& a, void* workspace, int threads) {
  Scratch s(workspace);
  Memory m;
  m.sum_size = round_up(a.k.rows() * a.at.head_size, 16);
  m.sums = s.floats(2 * m.sum_size * (parts_of(a) == 1 ? threads : parts_of(a) * a.at.kv_heads));
  m.per_thread = bytes_per_thread(a);
  m.threads = static_cast<char*>(workspace) + s.bytes();
  m.bytes = s.bytes() + m.per_thread * threads;
  return m;
}

// A block of queries of one head: `first` is its first row among the queries that w holds, `row` among all.
void load_block(const AttentionBackward& a, int64_t row, int64_t head, int64_t count, int64_t first, const Work& w) {
  const int64_t size = a.at.head_size, column = head * size;
  float *dout = w.dout + first * size, *dq = w.dq + first * size, *delta = w.delta + first;
  pack_copy(Corner(a.q, row, column), count, size, w.q + first * size, size);
  pack_copy(Corner(a.dout, row, column), count, size, dout, size);
  std::fill(dq, dq + count * size, 0.0f);
  const Corner out(a.out, row, column);
  if (out.dtype == DType::f32) {
    row_dots(dout, size, out.f32(), out.stride, count, size, delta);
  } else {
    pack_copy(out, count, size, w.wide_out, size);
    row_dots(dout, size, w.wide_out, size, count, size, delta);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double sum = load_log_sum(a.lse, head, row + i);
    const bool some = sum != -std::numeric_limits<double>::infinity();
    w.lse[first + i] = some ? static_cast<float>(sum) : std::numeric_limits<float>::infinity();
    w.lse_rest[first + i] = some ? static_cast<float>(sum - w.lse[first + i]) : 0.0f;
    delta[i] = some ? static_cast<float>(delta[i] * a.at.scale) : 0.0f;
  }
}

// Keys and values [key, key + keys) as all blocks of queries need them. The scale goes with them, into scores and gradients.
void load_keys(const AttentionBackward& a, const Segment& s, int64_t kv, int64_t key, int64_t keys, const Work& w) {
  const int64_t size = a.at.head_size;
  const Corner k(a.k, s.k_begin + key, kv * size), v(a.v, s.k_begin + key, kv * size);
  pack_copy(k, keys, size, w.keys, size);
  if (keys % 16)
    for (float* p : {w.keys_t, w.values_t}) std::fill(p, p + kKeys * size, 0.0f);
  pack_transposed(k, keys, size, w.keys_t, kKeys, score_factor(a.at));
  pack_transposed(v, keys, size, w.values_t, kKeys, static_cast<float>(a.at.scale));
}

// What the keys [key, key + keys), of the tile that w holds from `tile` on, and a block of queries, from `row` of q on, give.
void tile_gradient(const AttentionBackward& a, const QueryBlock& b, int64_t row, int64_t head, int64_t first, int64_t tile,
                   int64_t key, int64_t keys, float* dk, float* dv, Work& w) {
  const int64_t size = a.at.head_size, skipped = key - tile;
  const float *q = w.q + first * size, *dout = w.dout + first * size, *k = w.keys + skipped * size;
  float* dq = w.dq + first * size;
  each_lane_group(a.at, b, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
    const Tile t{n, round_up(seen, 16), size, size, kKeys, kKeys};
    w.score_product(t, q + i * size, w.keys_t + skipped, w.scores + i * kKeys);
    w.score_product(t, dout + i * size, w.values_t + skipped, w.dp + i * kKeys);
  });
  const float cap = static_cast<float>(a.at.cap);
  if (cap != 0) cap_rows(cap, b.count, keys, w.scores);
  if (!a.at.slopes.empty()) add_alibi_rows(static_cast<float>(a.at.slopes[head]), b, key, keys, w.scores);
  if (!b.sees_all(a.at, key, keys)) mask_rows(a.at, b, key, keys, w.scores);
  const LogSums sums{w.lse + first, w.lse_rest + first};
  if (a.at.dropout.p != 0) {
    const DroppedRows dropped(a.at.dropout, row, b.count, head);
    softmax_gradient(b.count, keys, w.scores, w.dp, sums, w.delta + first, a.q.dtype, cap, &dropped, key);
  } else {
    softmax_gradient(b.count, keys, w.scores, w.dp, sums, w.delta + first, a.q.dtype, cap, nullptr, key);
  }
  each_lane_group(a.at, b, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
    const Tile t{seen, size, n, kKeys, size, size, true, true};
    w.key_product(t, w.scores + i * kKeys, dout + i * size, dv + skipped * size);
    w.key_product(t, w.dp + i * kKeys, q + i * size, dk + skipped * size);
    w.query_product({n, size, seen, kKeys, size, size, false, true}, w.dp + i * kKeys, k, dq + i * size);
  });
}

// Every `parts`-th block of queries of a segment, from `part` on, and all heads that share the keys of head kv.
void segment_gradient(const AttentionBackward& a, const Segment& s, int64_t kv, int64_t part, int64_t parts, const Sums& sums,
                      Work& w) {
  const AttentionShape& at = a.at;
  const int64_t size = at.head_size, group = at.heads / at.kv_heads, blocks = ceil_div(s.q_count, kQueries);
  // f(block, its first row in the segment, its first row in w, head)
  auto each_block = [&](auto&& f) {
    for (int64_t h = 0; h < group; ++h)
      for (int64_t i = part; i < blocks; i += parts)
        f(query_block(s, i), i * kQueries, h * s.q_count + i * kQueries, kv * group + h);
  };
  each_block([&](const QueryBlock& b, int64_t row, int64_t first, int64_t head) {
    load_block(a, s.q_begin + row, head, b.count, first, w);
  });
  for (int64_t tile = 0; tile < s.k_count; tile += kKeys) {
    const int64_t keys = std::min(kKeys, s.k_count - tile), at_sum = (s.k_begin + tile) * size;
    bool loaded = false;
    each_block([&](const QueryBlock& b, int64_t row, int64_t first, int64_t head) {
      const int64_t key = std::max(tile, b.keys_begin(at) / 16 * 16), end = std::min(tile + keys, b.keys_end(at, s));
      if (key >= end) return;
      if (!loaded) load_keys(a, s, kv, tile, keys, w), loaded = true;
      tile_gradient(a, b, s.q_begin + row, head, first, tile, key, end - key, sums.dk + at_sum, sums.dv + at_sum, w);
    });
  }
  each_block([&](const QueryBlock& b, int64_t row, int64_t first, int64_t head) {
    unpack(w.dq + first * size, size, b.count, size, nullptr, false, Corner(a.dq, s.q_begin + row, head * size));
  });
}

void check(const AttentionBackward& a) {
  const char* op = "attention_backward";
  check_attention(op, a.at, a.q, a.k, a.v, a.lse);
  require(!a.lse.absent(), "{}: lse must be there", op);
  auto alike = [&](const TensorView& x, const TensorView& y, const char* what) {
    require(x.rows() == y.rows() && x.cols() == y.cols() && x.dtype == y.dtype, "{}: {} differ, got {} {} and {} {}", op, what,
            name(x.dtype), x.shape.text(), name(y.dtype), y.shape.text());
  };
  alike(a.dout, a.q, "dout and q"), alike(a.out, a.q, "out and q"), alike(a.dq, a.q, "dq and q");
  alike(a.dk, a.k, "dk and k"), alike(a.dv, a.v, "dv and v");
}

// Segments that share keys must not run side by side.
bool keys_overlap(const AttentionShape& at) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (const Segment& s : at.segments)
    if (s.q_count > 0 && s.k_count > 0) runs.emplace_back(s.k_begin, s.k_begin + s.k_count);
  std::sort(runs.begin(), runs.end());
  for (size_t i = 1; i < runs.size(); ++i)
    if (runs[i].first < runs[i - 1].second) return true;
  return false;
}

constexpr int64_t kRowsMoved = 64;

void store_sums(const AttentionBackward& a, const Sums& sums, int64_t kv, int64_t from, int64_t rows) {
  const int64_t size = a.at.head_size;
  unpack(sums.dk + from * size, size, rows, size, nullptr, false, Corner(a.dk, from, kv * size));
  unpack(sums.dv + from * size, size, rows, size, nullptr, false, Corner(a.dv, from, kv * size));
}

// Each task has the sums of its head to itself.
void run_whole(const AttentionBackward& a, const Memory& mem) {
  const AttentionShape& at = a.at;
  const int64_t segments = static_cast<int64_t>(at.segments.size()), size = at.head_size;
  const bool together = keys_overlap(at);
  if (!together) {
    std::vector<Segment> keys;
    for (const Segment& s : at.segments) keys.push_back({s.k_begin, s.q_count > 0 ? s.k_count : 0, 0, 0});
    AttentionShape by_keys = at;
    by_keys.segments = keys;
    each_gap(by_keys, a.k.rows(), [&](int64_t from, int64_t to) { clear_rows(a.dk, from, to), clear_rows(a.dv, from, to); });
  }
  parallel_for_threads((together ? 1 : segments) * at.kv_heads, [&](int64_t t, int thread) {
    const int64_t kv = t % at.kv_heads, first = together ? 0 : t / at.kv_heads, last = together ? segments : first + 1;
    const int64_t from = together ? 0 : at.segments[first].k_begin, rows = together ? a.k.rows() : at.segments[first].k_count;
    if (!together && at.segments[first].q_count == 0) return;
    Scratch s(mem.threads + thread * mem.per_thread);
    Work w = lay_out_thread(s, a);
    const Sums sums = mem.at(thread);
    std::fill(sums.dk + from * size, sums.dk + (from + rows) * size, 0.0f);
    std::fill(sums.dv + from * size, sums.dv + (from + rows) * size, 0.0f);
    for (int64_t i = first; i < last; ++i) segment_gradient(a, at.segments[i], kv, 0, 1, sums, w);
    store_sums(a, sums, kv, from, rows);
  });
}

// A head is shared by several tasks, each with its own sums, which are then added in order.
void run_parts(const AttentionBackward& a, const Memory& mem, int64_t parts) {
  const AttentionShape& at = a.at;
  const int64_t segments = static_cast<int64_t>(at.segments.size()), rows = a.k.rows();
  parallel_for_threads(parts * at.kv_heads, [&](int64_t t, int thread) {
    const int64_t part = t / at.kv_heads, kv = t % at.kv_heads;
    Scratch s(mem.threads + thread * mem.per_thread);
    Work w = lay_out_thread(s, a);
    const Sums sums = mem.at(t);
    std::fill(sums.dk, sums.dk + 2 * mem.sum_size, 0.0f);
    for (int64_t i = 0; i < segments; ++i) segment_gradient(a, at.segments[i], kv, part, parts, sums, w);
  });
  const int64_t runs = ceil_div(rows, kRowsMoved), size = at.head_size;
  parallel_for(runs * at.kv_heads, [&](int64_t i) {
    const int64_t kv = i / runs, from = i % runs * kRowsMoved, count = std::min(kRowsMoved, rows - from), n = count * size;
    for (int64_t part = 1; part < parts; ++part) {
      const Sums first = mem.at(kv), other = mem.at(part * at.kv_heads + kv);
      Corner dk, dv;
      dk.data = first.dk + from * size, dv.data = first.dv + from * size;
      unpack(other.dk + from * size, n, 1, n, nullptr, true, dk), unpack(other.dv + from * size, n, 1, n, nullptr, true, dv);
    }
    store_sums(a, mem.at(kv), kv, from, count);
  });
}

void run(const AttentionBackward& a, void* workspace) {
  check(a);
  each_gap(a.at, a.q.rows(), [&](int64_t from, int64_t to) { clear_rows(a.dq, from, to); });
  const Memory mem = lay_out(a, workspace, thread_count());
  const int64_t parts = parts_of(a);
  parts == 1 ? run_whole(a, mem) : run_parts(a, mem, parts);
}

}  // namespace

template <>
Kernel<AttentionBackward> cpu_kernel() {
  return {run, [](const AttentionBackward& a, int threads) { return lay_out(a, nullptr, threads).bytes; }};
}

}  // namespace ravine
