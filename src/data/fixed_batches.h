// Reads fixed batch files: token ids and labels that another program prepared.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"
#include "files/safetensors.h"

namespace ravine {

// Cuts the columns [begin, begin + length) of a row into parts, by the position ids of all columns of the row. A part
// begins at each position that is not one more than the position before it: in a packed row, the positions of each
// sequence begin again.
std::vector<TokenSpan> parts_by_position(std::span<const int32_t> positions, int32_t begin, int32_t length);

// The rows of a fixed batch file (.safetensors). Its tensors are integers [N,T]:
//   input_ids
//   labels: same columns as input_ids and shifted by one here, so T columns give T-1 predictions, or
//   next_labels: shifted already; if both are missing, the ids are the labels.
//   attention_mask (optional): 0 or 1, the 1s of a row adjacent: padding on the left or right.
//   position_ids (optional): default 0..T-1, also with padding, as in Transformers' forward.
// Padding columns belong to no segment and predict nothing; without labels they are not predicted either. As in
// Transformers, position_ids without a mask cut a row into parts (parts_by_position), and attention stays inside each
// part. With a mask a row is one part. A label between two parts is used like any other, unless it is -100.
// The constructor checks every number. A fault is a UserError that names file, tensor, row and column. Const members
// are thread-safe.
class FixedBatches {
 public:
  // Opens a fixed batch file. vocabulary: the ids in the file must be below it. positions: the position ids must be
  // below it; 0: no limit. A file without anything to learn (every label -100, or a mask of zeros) is a UserError.
  FixedBatches(const std::string& path, int64_t vocabulary, int64_t positions = 0);
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  Sample sample(int64_t row) const;
  // Returns the first row that its attention mask keeps as one part although its position ids would cut it into several
  // parts. Returns -1 if there is no such row.
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
