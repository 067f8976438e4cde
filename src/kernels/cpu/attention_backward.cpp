// Gradient of attention: probabilities are computed again from lse, tile by tile (Dao et al. 2022). A task owns the
// keys and values of one head of one segment. Queries and their gradients are copied once. Then for each tile of keys
// all its queries add to dk and dv, which stay in cache, and to dq. With few heads a task takes only every P-th block
// of queries and has its own copy of dk and dv; copies are added in order.
#include <cmath>
#include <limits>
#include <tuple>

#include "base/parallel.h"
#include "kernels/cpu/attention_pairs.h"
#include "kernels/cpu/cpu.h"

namespace ravine {
namespace {

constexpr int64_t kTasksWanted = 12, kMostParts = 4;

int64_t parts_of(const AttentionBackward& a) { return std::min(kMostParts, ceil_div(kTasksWanted, a.at.kv_heads)); }

// The memory of a thread for a task. q, dout, dq, lse, its remainder and delta: for all queries of all heads that share
// keys. With pairs: q, dout and keys are paired along channels; q_panels and dout_panels (of every block of queries)
// along queries. probs holds the probabilities and then the gradient of the scores, also in pairs.
struct Work {
  bool pairs;
  float *scores, *dp, *keys, *keys_t, *values_t, *wide_out, *wide_dout, *q, *dout, *dq, *lse, *lse_rest, *delta;
  float *q_panels, *dout_panels, *probs;
  TileRun score_product, dp_product, value_product, key_product, query_product;
};

int64_t transposed_floats(int64_t size, bool pairs) { return pairs ? PairPanels::floats(size, kKeys) : kKeys * size; }

Work lay_out_thread(Scratch& s, const AttentionBackward& a, bool pairs) {
  const int64_t size = a.at.head_size, values = a.at.values(), group = a.at.heads / a.at.kv_heads, queries = group * a.q.rows();
  Work w{};
  w.pairs = pairs;
  for (float** p : {&w.scores, &w.dp}) *p = s.floats(kKeys * kQueries + 16);
  w.keys = s.floats(pairs ? PairPanels::floats(kKeys, size) : kKeys * size);
  w.keys_t = s.floats(transposed_floats(size, pairs)), w.values_t = s.floats(transposed_floats(values, pairs));
  w.wide_out = s.floats(kQueries * values);
  w.q = s.floats(queries * (pairs ? pairs_of(size) : size)), w.dout = s.floats(queries * (pairs ? pairs_of(values) : values));
  w.dq = s.floats(queries * result_pitch(size, pairs));
  for (float** p : {&w.lse, &w.lse_rest, &w.delta}) *p = s.floats(queries);
  if (pairs) {
    const int64_t blocks = group * ceil_div(a.q.rows(), kQueries);
    w.wide_dout = s.floats(kQueries * values);
    w.q_panels = s.floats(blocks * PairPanels::floats(kQueries, size));
    w.dout_panels = s.floats(blocks * PairPanels::floats(kQueries, values));
    w.probs = s.floats(sixes_floats(kKeys, kQueries));
  }
  return w;
}

int64_t bytes_per_thread(const AttentionBackward& a, bool pairs) {
  Scratch s(nullptr);
  lay_out_thread(s, a, pairs);
  return s.bytes();
}

// The gradients of the keys and values of one head: f32, rows a pitch apart; one per thread (one part), or one per part
// and head.
struct Sums {
  float *dk, *dv;
};

struct Memory {
  bool pairs;
  float* sums;
  // sum_floats: of keys and values, keys first
  int64_t key_pitch, value_pitch, key_floats, sum_floats, per_thread, bytes;
  char* threads;
  Sums at(int64_t index) const { return {sums + index * sum_floats, sums + index * sum_floats + key_floats}; }
};

Memory lay_out(const AttentionBackward& a, bool pairs, void* workspace, int threads) {
  Scratch s(workspace);
  Memory m;
  m.pairs = pairs, m.key_pitch = result_pitch(a.at.head_size, pairs), m.value_pitch = result_pitch(a.at.values(), pairs);
  m.key_floats = round_up(a.k.rows() * m.key_pitch, 16);
  m.sum_floats = m.key_floats + round_up(a.k.rows() * m.value_pitch, 16);
  m.sums = s.floats(m.sum_floats * (parts_of(a) == 1 ? threads : parts_of(a) * a.at.kv_heads));
  m.per_thread = bytes_per_thread(a, pairs);
  m.threads = static_cast<char*>(workspace) + s.bytes();
  m.bytes = s.bytes() + m.per_thread * threads;
  return m;
}

// A block of queries of one head: `index` and `first` are its index and first row in Work, `row` its first row in q.
struct Block {
  QueryBlock queries;
  int64_t head, index, first, row;
  // Returns q_panels or dout_panels of the block.
  PairPanels panels(float* of_all, int64_t size) const {
    return {of_all + index * PairPanels::floats(kQueries, size), kQueries};
  }
};

void load_block(const AttentionBackward& a, const Block& b, const Work& w) {
  const int64_t size = a.at.head_size, values = a.at.values(), row = b.row, count = b.queries.count, first = b.first;
  const int64_t pitch = result_pitch(size, w.pairs);
  float *dout = w.pairs ? w.wide_dout : w.dout + first * values, *dq = w.dq + first * pitch, *delta = w.delta + first;
  const Corner q_from(a.q, row, b.head * size), dout_from(a.dout, row, b.head * values);
  pack_copy(dout_from, count, values, dout, values);
  if (w.pairs) {
    pairs_along_rows(q_from, count, size, w.q + first * pairs_of(size), pairs_of(size));
    pairs_along_rows(dout_from, count, values, w.dout + first * pairs_of(values), pairs_of(values));
    b.panels(w.q_panels, size).load_rows(q_from, count, size);
    b.panels(w.dout_panels, values).load_rows(dout_from, count, values);
  } else {
    pack_copy(q_from, count, size, w.q + first * size, size);
  }
  std::fill(dq, dq + count * pitch, 0.0f);
  const Corner out(a.out, row, b.head * values);
  if (out.dtype == DType::f32) {
    row_dots(dout, values, out.f32(), out.stride, count, values, delta);
  } else {
    pack_copy(out, count, values, w.wide_out, values);
    row_dots(dout, values, w.wide_out, values, count, values, delta);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double sum = load_log_sum(a.lse, b.head, row + i);
    const bool some = sum != -std::numeric_limits<double>::infinity();
    w.lse[first + i] = some ? static_cast<float>(sum) : std::numeric_limits<float>::infinity();
    w.lse_rest[first + i] = some ? static_cast<float>(sum - w.lse[first + i]) : 0.0f;
    delta[i] = some ? static_cast<float>(delta[i] * a.at.scale) : 0.0f;
  }
}

// Loads keys and values [key, key + keys) in the layout that all blocks of queries need. In f32 they are scaled, which
// scales scores and gradients.
void load_keys(const AttentionBackward& a, const Segment& s, int64_t kv, int64_t key, int64_t keys, const Work& w) {
  const int64_t size = a.at.head_size, values = a.at.values();
  const Corner k(a.k, s.k_begin + key, kv * size), v(a.v, s.k_begin + key, kv * values);
  if (keys % 16) {
    std::fill(w.keys_t, w.keys_t + transposed_floats(size, w.pairs), 0.0f);
    std::fill(w.values_t, w.values_t + transposed_floats(values, w.pairs), 0.0f);
  }
  if (w.pairs) {
    PairPanels(w.keys, kKeys).load_rows(k, keys, size);
    PairPanels(w.keys_t, size).load_transposed(k, size, keys);
    PairPanels(w.values_t, values).load_transposed(v, values, keys);
    return;
  }
  pack_copy(k, keys, size, w.keys, size);
  pack_transposed(k, keys, size, w.keys_t, kKeys, score_factor(a.at));
  pack_transposed(v, keys, values, w.values_t, kKeys, static_cast<float>(a.at.scale));
}

// Computes scores, and products of dout and the values, [queries][kKeys], for `keys` keys from `skipped` of the tile
// on.
void score_tile(const AttentionBackward& a, const Block& b, int64_t skipped, int64_t key, int64_t keys, Work& w) {
  auto product = [&](const float* left, float* right, int64_t size, float* to, TileRun& tile) {
    const int64_t depth = pairs_of(size);
    each_lane_group(a.at, b.queries, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
      if (!w.pairs)
        return tile({n, round_up(seen, 16), size, size, kKeys, kKeys}, left + (b.first + i) * size, right + skipped,
                    to + i * kKeys);
      const Strip s{
          .a = left + (b.first + i) * depth, .a_row = depth, .c = to + i * kKeys, .ldc = kKeys, .rows = n, .depth = depth};
      PairPanels(right, size).product(s, 0, skipped, seen);
    });
  };
  product(w.q, w.keys_t, a.at.head_size, w.scores, w.score_product);
  product(w.dout, w.values_t, a.at.values(), w.dp, w.dp_product);
  if (w.pairs) {
    scale_tile(score_factor(a.at), b.queries.count, kKeys, keys, w.scores);
    scale_tile(static_cast<float>(a.at.scale), b.queries.count, kKeys, keys, w.dp);
  }
}

// Adds the gradients from probabilities and gradients of scores: dv += p^T dout, dk += ds^T q, dq += ds k. With pairs,
// ds is stored in bf16.
void add_products(const AttentionBackward& a, const Block& b, int64_t skipped, int64_t key, int64_t keys, float* dk, float* dv,
                  Work& w) {
  const int64_t size = a.at.head_size, values = a.at.values(), count = b.queries.count;
  if (!w.pairs)
    return each_lane_group(a.at, b.queries, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
      w.value_product({seen, values, n, kKeys, values, values, true, true}, w.scores + i * kKeys,
                      w.dout + (b.first + i) * values, dv + skipped * values);
      w.key_product({seen, size, n, kKeys, size, size, true, true}, w.dp + i * kKeys, w.q + (b.first + i) * size,
                    dk + skipped * size);
      w.query_product({n, size, seen, kKeys, size, size, false, true}, w.dp + i * kKeys, w.keys + skipped * size,
                      w.dq + (b.first + i) * size);
    });
  const int64_t depth = pairs_of(kQueries);
  for (const auto& [from, panels, to, wide] :
       {std::tuple{w.scores, w.dout_panels, dv, values}, std::tuple{w.dp, w.q_panels, dk, size}}) {
    pairs_of_wide_rows_in_sixes(from, kKeys, count, keys, w.probs, 6 * depth);
    const PairPanels right = b.panels(panels, wide);
    const int64_t cols = wide, pitch = result_pitch(wide, true);
    float* c = to + skipped * pitch;
    each_lane_group(a.at, b.queries, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
      const Strip s{.a = w.probs + 6 * (i / 2),
                    .a_row = depth,
                    .a_sixes = true,
                    .c = c,
                    .ldc = pitch,
                    .rows = seen,
                    .depth = pairs_of(n),
                    .accumulate = true};
      right.product(s, i, 0, cols);
    });
  }
  const int64_t pitch = result_pitch(size, true);
  for (int64_t i = 0; i < count; ++i) narrow_run(w.dp + i * kKeys, round_up(keys, 16));
  each_lane_group(a.at, b.queries, key, keys, [&](int64_t i, int64_t n, int64_t seen) {
    const Strip s{.a = w.dp + i * kKeys,
                  .a_row = kKeys,
                  .c = w.dq + (b.first + i) * pitch,
                  .ldc = pitch,
                  .rows = n,
                  .depth = pairs_of(seen),
                  .accumulate = true};
    PairPanels(w.keys, kKeys).product(s, skipped, 0, size);
  });
}

// Adds the gradients of a block of queries and the keys [key, key + keys), of the tile that Work holds from `tile` on.
void tile_gradient(const AttentionBackward& a, const Block& b, int64_t tile, int64_t key, int64_t keys, float* dk, float* dv,
                   Work& w) {
  const QueryBlock& q = b.queries;
  score_tile(a, b, key - tile, key, keys, w);
  const float cap = static_cast<float>(a.at.cap);
  if (cap != 0) cap_rows(cap, q.count, keys, w.scores);
  if (!a.at.slopes.empty()) add_alibi_rows(static_cast<float>(a.at.slopes[b.head]), q, key, keys, w.scores);
  if (!q.sees_all(a.at, key, keys)) mask_rows(a.at, q, key, keys, w.scores);
  const LogSums sums{w.lse + b.first, w.lse_rest + b.first};
  if (a.at.dropout.p != 0) {
    const DroppedRows dropped(a.at.dropout, b.row, q.count, b.head);
    softmax_gradient(q.count, keys, w.scores, w.dp, sums, w.delta + b.first, a.q.dtype, cap, &dropped, key);
  } else {
    softmax_gradient(q.count, keys, w.scores, w.dp, sums, w.delta + b.first, a.q.dtype, cap, nullptr, key);
  }
  add_products(a, b, key - tile, key, keys, dk, dv, w);
}

// Handles every `parts`-th block of queries of a segment, from `part` on, for all heads that share the keys of head kv.
void segment_gradient(const AttentionBackward& a, const Segment& s, int64_t kv, int64_t part, int64_t parts, const Sums& sums,
                      Work& w) {
  const AttentionShape& at = a.at;
  const int64_t size = at.head_size, pitch = result_pitch(size, w.pairs), value_pitch = result_pitch(at.values(), w.pairs);
  const int64_t group = at.heads / at.kv_heads, blocks = ceil_div(s.q_count, kQueries);
  auto each_block = [&](auto&& f) {
    for (int64_t h = 0; h < group; ++h)
      for (int64_t i = part; i < blocks; i += parts)
        f(Block{.queries = query_block(s, i),
                .head = kv * group + h,
                .index = h * blocks + i,
                .first = h * s.q_count + i * kQueries,
                .row = s.q_begin + i * kQueries});
  };
  each_block([&](const Block& b) { load_block(a, b, w); });
  for (int64_t tile = 0; tile < s.k_count; tile += kKeys) {
    const int64_t keys = std::min(kKeys, s.k_count - tile), row = s.k_begin + tile;
    bool loaded = false;
    each_block([&](const Block& b) {
      const int64_t key = std::max(tile, b.queries.keys_begin(at) / 16 * 16);
      const int64_t end = std::min(tile + keys, b.queries.keys_end(at, s));
      if (key >= end) return;
      if (!loaded) load_keys(a, s, kv, tile, keys, w), loaded = true;
      tile_gradient(a, b, tile, key, end - key, sums.dk + row * pitch, sums.dv + row * value_pitch, w);
    });
  }
  each_block([&](const Block& b) {
    unpack(w.dq + b.first * pitch, pitch, b.queries.count, size, nullptr, false, Corner(a.dq, b.row, b.head * size));
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
  require(a.out.rows() == a.q.rows() && a.out.cols() == a.at.heads * a.at.values() && a.out.dtype == a.q.dtype,
          "{}: out has rows and type of q and {} columns, got {} {}", op, a.at.heads * a.at.values(), name(a.out.dtype),
          a.out.shape.text());
  alike(a.dout, a.out, "dout and out"), alike(a.dq, a.q, "dq and q");
  alike(a.dk, a.k, "dk and k"), alike(a.dv, a.v, "dv and v");
}

// True if segments share keys; such segments must not run in parallel.
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

void store_sums(const AttentionBackward& a, const Memory& m, const Sums& sums, int64_t kv, int64_t from, int64_t rows) {
  const int64_t size = a.at.head_size, values = a.at.values();
  unpack(sums.dk + from * m.key_pitch, m.key_pitch, rows, size, nullptr, false, Corner(a.dk, from, kv * size));
  unpack(sums.dv + from * m.value_pitch, m.value_pitch, rows, values, nullptr, false, Corner(a.dv, from, kv * values));
}

// Each task has its own sums of its head.
void run_whole(const AttentionBackward& a, const Memory& mem) {
  const AttentionShape& at = a.at;
  const int64_t segments = static_cast<int64_t>(at.segments.size());
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
    Work w = lay_out_thread(s, a, mem.pairs);
    const Sums sums = mem.at(thread);
    std::fill(sums.dk + from * mem.key_pitch, sums.dk + (from + rows) * mem.key_pitch, 0.0f);
    std::fill(sums.dv + from * mem.value_pitch, sums.dv + (from + rows) * mem.value_pitch, 0.0f);
    for (int64_t i = first; i < last; ++i) segment_gradient(a, at.segments[i], kv, 0, 1, sums, w);
    store_sums(a, mem, sums, kv, from, rows);
  });
}

// Several tasks share a head. Each has its own sums, which are then added in order.
void run_parts(const AttentionBackward& a, const Memory& mem, int64_t parts) {
  const AttentionShape& at = a.at;
  const int64_t segments = static_cast<int64_t>(at.segments.size()), rows = a.k.rows();
  parallel_for_threads(parts * at.kv_heads, [&](int64_t t, int thread) {
    const int64_t part = t / at.kv_heads, kv = t % at.kv_heads;
    Scratch s(mem.threads + thread * mem.per_thread);
    Work w = lay_out_thread(s, a, mem.pairs);
    const Sums sums = mem.at(t);
    std::fill(sums.dk, sums.dk + mem.sum_floats, 0.0f);
    for (int64_t i = 0; i < segments; ++i) segment_gradient(a, at.segments[i], kv, part, parts, sums, w);
  });
  const int64_t runs = ceil_div(rows, kRowsMoved);
  parallel_for(runs * at.kv_heads, [&](int64_t i) {
    const int64_t kv = i / runs, from = i % runs * kRowsMoved, count = std::min(kRowsMoved, rows - from);
    auto add = [&](const float* other, float* first, int64_t pitch) {
      Corner to;
      to.data = first + from * pitch;
      unpack(other + from * pitch, count * pitch, 1, count * pitch, nullptr, true, to);
    };
    for (int64_t part = 1; part < parts; ++part) {
      const Sums first = mem.at(kv), other = mem.at(part * at.kv_heads + kv);
      add(other.dk, first.dk, mem.key_pitch), add(other.dv, first.dv, mem.value_pitch);
    }
    store_sums(a, mem, mem.at(kv), kv, from, count);
  });
}

bool in_pairs(const AttentionBackward& a, Bf16Products products) {
  return products == Bf16Products::dot && a.q.dtype == DType::bf16;
}

template <Bf16Products kProducts>
void run(const AttentionBackward& a, void* workspace) {
  check(a);
  each_gap(a.at, a.q.rows(), [&](int64_t from, int64_t to) { clear_rows(a.dq, from, to); });
  const Memory mem = lay_out(a, in_pairs(a, kProducts), workspace, thread_count());
  const int64_t parts = parts_of(a);
  parts == 1 ? run_whole(a, mem) : run_parts(a, mem, parts);
}

}  // namespace

Kernel<AttentionBackward> cpu_attention_backward(Bf16Products products) {
  auto entry = []<Bf16Products kProducts>() -> Kernel<AttentionBackward> {
    return {run<kProducts>,
            [](const AttentionBackward& a, int threads) { return lay_out(a, in_pairs(a, kProducts), nullptr, threads).bytes; }};
  };
  if (products == Bf16Products::widen) return entry.operator()<Bf16Products::widen>();
  require(has_bf16_dot(), "attention_backward: this machine has no bf16 dot product");
  return entry.operator()<Bf16Products::dot>();
}

}  // namespace ravine
