// Gradient of attention: probabilities are computed again from lse, tile by tile (Dao et al. 2022). A task owns the keys and
// values of one head of one segment. It copies a stretch of them, walks over the queries that see it in order, and adds to dk,
// dv and dq, all of which stay in the second-level cache for the stretch. Few heads: a task takes only every P-th block of
// queries, into its own copy of dk and dv; copies are added in order.
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu.h"

namespace ravine {
namespace {

constexpr int64_t kTasksWanted = 12, kMostParts = 4;
constexpr int64_t kStretch = 32768;  // elements of the keys of a stretch

int64_t parts_of(const AttentionBackward& a) { return std::min(kMostParts, ceil_div(kTasksWanted, a.at.kv_heads)); }

int64_t stretch_of(const AttentionShape& at) { return std::max(kKeys, kStretch / at.head_size / kKeys * kKeys); }

struct Work {
  float *scores, *dp, *keys, *values, *q, *qt, *dout, *dout_t, *out, *lse, *delta, *dq;
  TileRun score_product, key_product, query_product;
};

// dq: of all queries of all heads that share keys.
Work lay_out_thread(Scratch& s, const AttentionBackward& a) {
  const int64_t size = a.at.head_size, keys = std::min(stretch_of(a.at), round_up(a.k.rows(), kKeys)) * size;
  Work w{};
  w.scores = s.floats(kKeys * kQueries), w.dp = s.floats(kKeys * kQueries);
  w.keys = s.floats(keys), w.values = s.floats(keys);
  for (float** p : {&w.q, &w.qt, &w.dout, &w.dout_t, &w.out}) *p = s.floats(kQueries * size);
  w.lse = s.floats(kQueries), w.delta = s.floats(kQueries);
  w.dq = s.floats(a.at.heads / a.at.kv_heads * a.q.rows() * size);
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

// A block of queries of one head: everything about it that all tiles of keys need.
void load_block(const AttentionBackward& a, int64_t row, int64_t head, const QueryBlock& b, const Work& w) {
  const int64_t size = a.at.head_size, column = head * size;
  if (b.count % 16)
    for (float* p : {w.qt, w.dout_t}) std::fill(p, p + kQueries * size, 0.0f);
  const Corner q(a.q, row, column), dout(a.dout, row, column);
  pack_transposed(q, b.count, size, w.qt, kQueries, static_cast<float>(a.at.scale));
  pack_transposed(dout, b.count, size, w.dout_t, kQueries, static_cast<float>(a.at.scale));
  pack_copy(q, b.count, size, w.q, size), pack_copy(dout, b.count, size, w.dout, size);
  pack_copy(Corner(a.out, row, column), b.count, size, w.out, size);
  row_dots(w.dout, size, w.out, size, b.count, size, w.delta);
  const float* lse = a.lse.row<float>(head) + row;
  for (int64_t i = 0; i < kQueries; ++i) {
    const bool some = i < b.count && lse[i] != -std::numeric_limits<float>::infinity();
    w.lse[i] = some ? lse[i] : std::numeric_limits<float>::infinity();
    w.delta[i] = some ? static_cast<float>(w.delta[i] * a.at.scale) : 0.0f;
  }
}

// What the keys [from, to) of a segment, which w.keys and w.values hold, and a block of queries give.
void block_gradient(const AttentionBackward& a, const Segment& s, int64_t block, int64_t head, int64_t from, int64_t to,
                    const Sums& sums, float* dq, Work& w) {
  const AttentionShape& at = a.at;
  const QueryBlock b = query_block(s, block);
  const int64_t size = at.head_size, lanes = round_up(b.count, 16), end = std::min(to, b.keys_end(at, s));
  int64_t key = std::max(from, b.keys_begin(at));
  if (key >= end) return;
  load_block(a, s.q_begin + block * kQueries, head, b, w);
  while (key < end) {
    const int64_t keys = std::min(kKeys - key % kKeys, end - key), at_sum = (s.k_begin + key) * size;
    const float *k = w.keys + (key - from) * size, *v = w.values + (key - from) * size;
    each_lane_group(at, b, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
      const Tile t{seen, round_up(n, 16), size, size, kQueries, kQueries};
      w.score_product(t, k, w.qt + i, w.scores + i), w.score_product(t, v, w.dout_t + i, w.dp + i);
    });
    if (!b.sees_all(at, key, keys)) mask_scores(at, b, key, keys, lanes, w.scores);
    softmax_gradient(keys, lanes, w.scores, w.dp, w.lse, w.delta, a.q.dtype);
    each_lane_group(at, b, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
      const Tile t{seen, size, n, kQueries, size, size, false, true};
      w.key_product(t, w.scores + i, w.dout + i * size, sums.dv + at_sum);
      w.key_product(t, w.dp + i, w.q + i * size, sums.dk + at_sum);
      w.query_product({n, size, seen, kQueries, size, size, true, true}, w.dp + i, k, dq + i * size);
    });
    key += keys;
  }
}

// Every `parts`-th block of queries of a segment, from `part` on, and all heads that share the keys of head kv.
void segment_gradient(const AttentionBackward& a, const Segment& s, int64_t kv, int64_t part, int64_t parts, const Sums& sums,
                      Work& w) {
  const AttentionShape& at = a.at;
  const int64_t size = at.head_size, group = at.heads / at.kv_heads, blocks = ceil_div(s.q_count, kQueries);
  auto each_block = [&](auto&& f) {
    for (int64_t h = 0; h < group; ++h)
      for (int64_t i = part; i < blocks; i += parts) f(i, kv * group + h, w.dq + (h * s.q_count + i * kQueries) * size);
  };
  each_block([&](int64_t i, int64_t, float* dq) { std::fill(dq, dq + query_block(s, i).count * size, 0.0f); });
  // Rows of the inputs may lie a page apart: they are copied before many products read them.
  const int64_t stretch = stretch_of(at);
  for (int64_t from = 0; from < s.k_count; from += stretch) {
    const int64_t to = std::min(s.k_count, from + stretch);
    pack_copy(Corner(a.k, s.k_begin + from, kv * size), to - from, size, w.keys, size);
    pack_copy(Corner(a.v, s.k_begin + from, kv * size), to - from, size, w.values, size);
    each_block([&](int64_t i, int64_t head, float* dq) {
      if (i + parts < blocks) {
        const int64_t row = s.q_begin + (i + parts) * kQueries, rows = query_block(s, i + parts).count;
        for (const TensorView* v : {&a.q, &a.dout, &a.out}) prefetch(Corner(*v, row, head * size), rows, size);
      }
      block_gradient(a, s, i, head, from, to, sums, dq, w);
    });
  }
  each_block([&](int64_t i, int64_t head, float* dq) {
    unpack(dq, size, query_block(s, i).count, size, nullptr, false, Corner(a.dq, s.q_begin + i * kQueries, head * size));
  });
}

void check(const AttentionBackward& a) {
  const char* op = "attention_backward";
  check_attention(op, a.at, a.q, a.k, a.v);
  auto alike = [&](const TensorView& x, const TensorView& y, const char* what) {
    require(x.rows() == y.rows() && x.cols() == y.cols() && x.dtype == y.dtype, "{}: {} differ, got {} {} and {} {}", op, what,
            name(x.dtype), x.shape.text(), name(y.dtype), y.shape.text());
  };
  alike(a.dout, a.q, "dout and q"), alike(a.out, a.q, "out and q"), alike(a.dq, a.q, "dq and q");
  alike(a.dk, a.k, "dk and k"), alike(a.dv, a.v, "dv and v");
  require(a.lse.rows() == a.at.heads && a.lse.cols() == a.q.rows() && a.lse.dtype == DType::f32,
          "{}: lse is f32 [heads, tokens], got {}", op, a.lse.shape.text());
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

Kernel<AttentionBackward> attention_backward_entry() {
  return {run, [](const AttentionBackward& a, int threads) { return lay_out(a, nullptr, threads).bytes; }};
}

}  // namespace ravine
