// Reads tensors of weight files into the boxes of parameters that a rank holds. Only the elements of a box are read.
#pragma once
#include <cstddef>
#include <vector>

#include "engine/param_store.h"
#include "files/tensor_file.h"
#include "io/file_rows.h"

namespace ravine {

// One read of bounded size: rows of a file's tensor and the target boxes. Points to the arguments of plan_reads, which
// must outlive it.
struct BoxRead {
  const TensorFile* file = nullptr;
  const TensorInfo* info = nullptr;
  const FileTensor* tensor = nullptr;
  // If all parameters of the tensor are held whole: the parameters to fill. Then `range` has the elements to read, and
  // the fields below are not used.
  std::vector<TensorView> whole;
  FileRange range;
  // If `whole` is empty: the read is for one box, of rows x columns of the file (first dim x the other dims).
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  const ParamBox* box = nullptr;
  int64_t box_row = 0, box_column = 0;  // row and column in the box of the first element
};

// Appends to `reads` the reads that fill the boxes of the parameters of file tensor `t`. `boxes` has the boxes of each
// parameter, by Param::index. Parameters without boxes, and boxes on meta, are skipped. Boxes must not overlap.
void plan_reads(const TensorFile& file, const TensorInfo& info, const FileTensor& t,
                const std::vector<std::vector<ParamBox>>& boxes, std::vector<BoxRead>& reads);
// Performs a read of plan_reads: reads and converts the elements; each is rounded once. Reads of one plan may run in
// parallel, each thread with its own scratch.
void run_read(const BoxRead& read, std::vector<std::byte>& scratch);

}  // namespace ravine
