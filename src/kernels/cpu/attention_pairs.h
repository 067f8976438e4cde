// Operands of attention tiles for the bf16 dot product, stored in pairs (bf16_dot.h). They use the buffers of the f32
// operands. Rows of f32 results are round_up(size, 16) apart, since strips write whole vectors.
#pragma once
#include <algorithm>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/bf16_dot.h"
#include "kernels/cpu/strip.h"

namespace ravine {

// Returns the distance, in floats, between rows of f32 results with `size` columns. `pairs`: true if operands are pairs
// of bf16.
inline int64_t result_pitch(int64_t size, bool pairs) { return pairs ? round_up(size, 16) : size; }

// A right operand [rows, cols] of a product, in bf16; products sum over its rows. Storage: panels of kStripCols
// columns, with pairs of rows.
struct PairPanels {
  static int64_t floats(int64_t rows, int64_t cols) { return ceil_div(rows, 2) * round_up(cols, kStripCols); }
  float* at = nullptr;
  int64_t pairs = 0;  // number of row pairs in each panel
  PairPanels(float* memory, int64_t rows) : at(memory), pairs(ceil_div(rows, 2)) {}

  void load_rows(const Corner& from, int64_t rows, int64_t cols) {
    for (int64_t c = 0; c < cols; c += kStripCols)
      pairs_of_rows(from.at(0, c), rows, std::min(kStripCols, cols - c), at + c * pairs, kStripCols);
  }
  // Stores the transpose of from [cols, rows] in the panels.
  void load_transposed(const Corner& from, int64_t rows, int64_t cols) {
    for (int64_t c = 0; c < cols; c += kStripCols)
      pairs_transposed(from.at(c, 0), std::min(kStripCols, cols - c), rows, at + c * pairs, kStripCols);
  }
  // Runs a matrix product with this right operand: multiplies the left operand in `s` by columns [first, first + cols)
  // of this operand, over rows from `row` on, into s.c. `row` is even; `first` is a multiple of 16.
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

// Returns the floats per row of a left operand with n columns, stored as pairs of bf16 along its rows.
inline int64_t pairs_of(int64_t n) { return ceil_div(n, 2); }

// Returns the floats of a left operand that is stored in groups of six rows, with `rows` rows and sums over `depth`;
// with some padding at the end.
inline int64_t sixes_floats(int64_t rows, int64_t depth) { return ceil_div(rows, 6) * 6 * pairs_of(depth) + 16; }

}  // namespace ravine
