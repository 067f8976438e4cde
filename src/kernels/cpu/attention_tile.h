// The tiles of attention, for the forward and the backward pass. The forward pass stores the scores of a tile
// transposed, [keys][queries], so the softmax of a query runs along one vector lane. The backward pass has no sums over
// keys and stores [queries][keys].
#pragma once
#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/tile_run.h"
#include "kernels/kernels.h"

namespace ravine {

inline constexpr int64_t kQueries = 64;    // queries per tile; also the distance between rows of its scores
inline constexpr int64_t kKeys = 128;      // keys per tile
inline constexpr int64_t kLaneGroup = 32;  // queries that share one limit of keys if the mask cuts through a tile

// A block of consecutive queries of a segment. position: the first query's position among the keys; count <= kQueries.
struct QueryBlock {
  int64_t position, count;

  // keys_begin and keys_end: the range of keys that the mask lets through to at least one query of the block.
  int64_t keys_begin(const AttentionShape& at) const {
    return at.window > 0 ? std::max<int64_t>(0, position - at.window + 1) : 0;
  }
  int64_t keys_end(const AttentionShape& at, const Segment& s) const {
    return at.causal ? std::clamp<int64_t>(position + count, 0, s.k_count) : s.k_count;
  }
  // True if every query of the block sees every key of [key, key + keys).
  bool sees_all(const AttentionShape& at, int64_t key, int64_t keys) const {
    return (!at.causal || key + keys - 1 <= position) && (at.window <= 0 || position + count - 1 - key < at.window);
  }
};

inline QueryBlock query_block(const Segment& s, int64_t index) {
  const int64_t first = index * kQueries;
  return {s.k_count - s.q_count + first, std::min(kQueries, s.q_count - first)};
}

// Divides a block of queries into groups, and calls f(first query, queries, keys) for each group. Its queries see the
// first `keys` keys of the tile [key, key + tile) and no later keys. Away from the causal border the block is one
// group. On the border groups have kLaneGroup queries, so that few masked scores are computed.
template <class F>
void each_lane_group(const AttentionShape& at, const QueryBlock& b, int64_t key, int64_t tile, F&& f) {
  if (!at.causal || key + tile - 1 <= b.position) return f(int64_t{0}, b.count, tile);
  for (int64_t lane = 0; lane < b.count; lane += kLaneGroup) {
    const int64_t count = std::min(kLaneGroup, b.count - lane);
    const int64_t seen = std::min(tile, b.position + lane + count - key);
    if (seen > 0) f(lane, count, seen);
  }
}

// Returns the factor of q k^T before a possible cap: scale, or scale / cap. A cap divides the scores before tanh and
// multiplies them after it.
inline float score_factor(const AttentionShape& at) { return static_cast<float>(at.cap != 0 ? at.scale / at.cap : at.scale); }

// The data for dropout of the attention probabilities of up to kQueries rows of q of one head, from `row` on.
struct DroppedRows {
  DroppedRows(const AttentionDropout& d, int64_t row, int64_t count, int64_t head);
  double p;
  uint64_t key = 0;
  uint32_t step;
  uint32_t token_index[kQueries] = {}, sequences[kQueries] = {};
};

// Vector steps over attention tiles, in the widest instruction set of this machine (attention_tile.cpp). `lanes` is the
// number of queries, rounded up to a multiple of 16; the tile has room for it.

// mask_scores sets masked entries of scores [keys][kQueries] to -inf; keys from `key` on.
void mask_scores(const AttentionShape& at, const QueryBlock& q, int64_t key, int64_t keys, int64_t lanes, float* scores);

// Applies ALiBi: adds slope * (key position - query position) to scores [keys][kQueries]; keys from `key` on.
void add_alibi(float slope, const QueryBlock& q, int64_t key, int64_t keys, int64_t lanes, float* scores);
// Applies ALiBi as add_alibi, to scores stored as [q.count][kKeys]; `keys` is rounded up to a multiple of 16.
void add_alibi_rows(float slope, const QueryBlock& q, int64_t key, int64_t keys, float* scores);

// Replaces scores by cap * tanh(score). cap_scores: [keys][kQueries]; cap_rows: [queries][kKeys], `keys` rounded up to
// a multiple of 16.
void cap_scores(float cap, int64_t keys, int64_t lanes, float* scores);
void cap_rows(float cap, int64_t queries, int64_t keys, float* scores);

// Applies dropout to probabilities [keys][kQueries]: zeroes the dropped entries; keys from `key` of the segment on.
// Other entries are not scaled.
void drop_scores(const DroppedRows& rows, int64_t key, int64_t keys, int64_t lanes, float* probs);

// Runs one step of the online softmax (Milakov, Gimelshein 2018) over a tile of keys. Replaces scores by e^(score -
// top), rounded to `type`, and updates top and sum. `factor` is the factor of earlier results; returns true if it
// differs from 1 for a query.
bool softmax_step(int64_t keys, int64_t lanes, float* scores, float* top, float* sum, float* factor, DType type);

// Multiplies scores by one factor: scores[i][0, n) *= factor, for `rows` rows, `pitch` apart; n is rounded up to a
// multiple of 16.
void scale_tile(float factor, int64_t rows, int64_t pitch, int64_t n, float* scores);

// Multiplies each row by its own factor: rows[i][0, n) *= factor[i]; if `divide`, divides by it.
void scale_rows(float* rows, int64_t count, int64_t n, const float* factor, bool divide);

// Applies the mask to scores stored as [q.count][kKeys]: sets masked entries to -inf; keys from `key` on; keys <=
// kKeys.
void mask_rows(const AttentionShape& at, const QueryBlock& q, int64_t key, int64_t keys, float* scores);

// The log of the sum of exponentials of each query, for the backward pass: its f32 value (lse), and the remainder
// (rest).
struct LogSums {
  const float *lse, *rest;
};
// Write and read the log-sum of row `row` of head `head` in an lse tensor of f32 or f64.
void store_log_sum(const TensorView& lse, int64_t head, int64_t row, double value);
double load_log_sum(const TensorView& lse, int64_t head, int64_t row);

// Runs the backward pass of the softmax on a tile: replaces scores by the probabilities p = e^(score - lse), and dp by
// the gradient of the scores, p * (dp - delta); both [queries][kKeys], rounded to `type`. `keys` is rounded up to a
// multiple of 16. With a cap (0: none) the gradient is multiplied by its derivative. With `dropped` (null: none) p and
// dp pass through dropout. `key`, a multiple of 4, is the index of the first key in the segment.
void softmax_gradient(int64_t queries, int64_t keys, float* scores, float* dp, const LogSums& sums, const float* delta,
                      DType type, float cap, const DroppedRows* dropped, int64_t key);

// Computes dot products of rows: to[i] = a[i] . b[i] over n elements, for `count` rows.
void row_dots(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t count, int64_t n, float* to);

// Checks shapes and types of the arguments of attention by the rules of kernels/attention.h. A violation is an Error.
// `lse` may be absent.
void check_attention(const char* op, const AttentionShape& at, const TensorView& q, const TensorView& k, const TensorView& v,
                     const TensorView& lse);

// Calls f(from, to) for each range of rows of [0, rows) that are queries of no segment (padding).
template <class F>
void each_gap(const AttentionShape& at, int64_t rows, F&& f) {
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const Segment& s : at.segments)
    if (s.q_count > 0) covered.emplace_back(s.q_begin, s.q_begin + s.q_count);
  std::sort(covered.begin(), covered.end());
  int64_t from = 0;
  for (auto [begin, end] : covered) {
    if (begin > from) f(from, begin);
    from = std::max(from, end);
  }
  if (from < rows) f(from, rows);
}

inline void clear_rows(const TensorView& v, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) {
    char* row = static_cast<char*>(v.data) + i * v.stride * size_of(v.dtype);
    std::fill(row, row + v.cols() * size_of(v.dtype), 0);
  }
}

}  // namespace ravine
