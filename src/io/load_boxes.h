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
  // Targets of a read of whole rows, used if all parameters of the tensor are held whole: then `range` has the
  // elements.
  std::vector<TensorView> whole;
  FileRange range;
  // Else the read is for one box: rows x columns of the file (first dim x the other dims).
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  const ParamBox* box = nullptr;
  int64_t box_row = 0, box_column = 0;  // target of the first element
};

// Appends the reads that fill the boxes (by Param::index) of the parameters of file tensor `t`. Parameters without
// boxes, and boxes on meta, are skipped. Boxes must not overlap.
void plan_reads(const TensorFile& file, const TensorInfo& info, const FileTensor& t,
                const std::vector<std::vector<ParamBox>>& boxes, std::vector<BoxRead>& reads);
// Reads and converts; each element is rounded once. Reads of one plan may run in parallel, each thread with its own
// scratch.
void run_read(const BoxRead& read, std::vector<std::byte>& scratch);

}  // namespace ravine
