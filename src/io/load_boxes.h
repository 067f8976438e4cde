// From tensors of weight files to the boxes of parameters that a rank holds: only what lies in a box is read.
#pragma once
#include <cstddef>
#include <vector>

#include "engine/param_store.h"
#include "files/tensor_file.h"
#include "io/file_rows.h"

namespace ravine {

// One piece of work of bounded size: rows of a file's tensor, and the boxes that they go into. Refers to what plan_reads was
// given.
struct BoxRead {
  const TensorFile* file = nullptr;
  const TensorInfo* info = nullptr;
  const FileTensor* tensor = nullptr;
  // The whole tensor's rows, where all of its parameters are here whole; then `whole` holds them.
  std::vector<TensorView> whole;
  FileRange range;
  // Else of one box: rows x columns of the file (the first of its dims x the rest).
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  const ParamBox* box = nullptr;
  int64_t box_row = 0, box_column = 0;  // where the first of them goes
};

// Appends what brings tensor `t` of a file into the boxes (by Param::index) of its parameters; parameters without boxes, and
// boxes on meta, are passed over. Boxes may not overlap.
void plan_reads(const TensorFile& file, const TensorInfo& info, const FileTensor& t,
                const std::vector<std::vector<ParamBox>>& boxes, std::vector<BoxRead>& reads);
// Reads, converts, rounds once. Reads of one plan may run side by side, each thread with a scratch of its own.
void run_read(const BoxRead& read, std::vector<std::byte>& scratch);

}  // namespace ravine
