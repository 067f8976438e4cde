// Products of attention tiles by the bf16 dot product: how their operands lie in pairs (bf16_dot.h). Where the other path keeps
// f32 operands in the same places, rows of results are round_up(size, 16) apart here, since strips write whole vectors.
#pragma once
#include <algorithm>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/bf16_dot.h"
#include "kernels/cpu/strip.h"

namespace ravine {

// Distance between rows of f32 results with `size` columns.
inline int64_t result_pitch(int64_t size, bool pairs) { return pairs ? round_up(size, 16) : size; }

// A bf16 operand [rows, cols], right of a product, the sum over its rows: panels of kStripCols columns, pairs of rows.
struct PairPanels {
  static int64_t floats(int64_t rows, int64_t cols) { return ceil_div(rows, 2) * round_up(cols, kStripCols); }
  float* at = nullptr;
  int64_t pairs = 0;  // of rows, in each panel
  PairPanels(float* memory, int64_t rows) : at(memory), pairs(ceil_div(rows, 2)) {}

  void load_rows(const Corner& from, int64_t rows, int64_t cols) {
    for (int64_t c = 0; c < cols; c += kStripCols)
      pairs_of_rows(from.at(0, c), rows, std::min(kStripCols, cols - c), at + c * pairs, kStripCols);
  }
  // The transpose: from [cols, rows].
  void load_transposed(const Corner& from, int64_t rows, int64_t cols) {
    for (int64_t c = 0; c < cols; c += kStripCols)
      pairs_transposed(from.at(c, 0), std::min(kStripCols, cols - c), rows, at + c * pairs, kStripCols);
  }
  // s, which says what a is, by columns [first, first + cols) and rows from the even `row` on, into s.c. `first` is a multiple
  // of 16.
  void product(Strip s, int64_t row, int64_t first, int64_t cols) const {
    for (int64_t c = first; c < first + cols; c += s.cols) {
      const int64_t in_panel = c % kStripCols;
      s.b = at + (c - in_panel) * pairs + row / 2 * kStripCols + in_panel;
      s.cols = std::min(kStripCols - in_panel, first + cols - c);
      strip_bf16(s);
      s.c += s.cols;
    }
  }
};

// A left operand in pairs along its rows, which lie as they are in memory but closer.
inline int64_t pairs_of(int64_t n) { return ceil_div(n, 2); }

// Floats of a left operand in sixes: `rows` rows, sums over `depth`; with room behind.
inline int64_t sixes_floats(int64_t rows, int64_t depth) { return ceil_div(rows, 6) * 6 * pairs_of(depth) + 16; }

}  // namespace ravine
