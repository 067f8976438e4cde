// A fixed batch file: ids and labels that someone else made, taken row by row.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"
#include "files/safetensors.h"

namespace ravine {

// Tensors, all integers [N,T]: `input_ids`; one of `labels` (same places as input_ids, shifted by one inside, so T columns
// give T-1 predictions) and `next_labels` (shifted already), or neither (the ids are their labels); optionally `attention_mask`
// (0 or 1, the ones of a row side by side: padding left or right) and `position_ids`. Padding columns belong to no segment and
// predict nothing; without labels they are not predicted either. Positions are 0..T-1 unless given, whatever the padding, as in
// Transformers' forward. As there, positions that are given without a mask cut a row into parts (parts_by_position), and
// attention stays inside each; with a mask a row is one part, whatever its positions. A label where two parts meet counts like
// any other, unless it is -100. Opening checks every number: what does not fit is a UserError naming file, tensor, row and column.
// Const members may be called by several threads.
// The columns [begin, begin + length) of a row with these positions, cut before each position that is not one more than that
// before it: parts of one packed row, whose positions begin again.
std::vector<TokenSpan> parts_by_position(std::span<const int32_t> positions, int32_t begin, int32_t length);

class FixedBatches {
 public:
  // ids are in [0, vocabulary), positions in [0, positions); 0: a model without a limit. A file that teaches nothing (every
  // label -100, or a mask without a one) is a UserError.
  FixedBatches(const std::string& path, int64_t vocabulary, int64_t positions = 0);
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  Sample sample(int64_t row) const;
  // The first row whose positions would cut it if there were no mask; -1: none.
  int64_t joined_row() const;
  const std::string& path() const { return file_->path(); }

 private:
  std::vector<int64_t> row(const TensorInfo* tensor, int64_t row) const;
  void check(const TensorInfo* tensor, int64_t low, int64_t high, bool may_ignore) const;
  void check_mask() const;
  void check_learns() const;
  std::unique_ptr<SafetensorsReader> file_;
  const TensorInfo *ids_ = nullptr, *labels_ = nullptr, *next_labels_ = nullptr, *mask_ = nullptr, *positions_ = nullptr;
  int64_t rows_ = 0, columns_ = 0;
};

}  // namespace ravine
