// Copies elements between tensors of weight files and parameters: splits joined tensors, transposes, converts types.
#pragma once
#include <functional>
#include <vector>

#include "kernels/view.h"
#include "model/weight_files.h"

namespace ravine {

// A range of elements of a file's tensor, counted in the stored row-major order.
struct FileRange {
  int64_t begin = 0, count = 0;
};

// Splits the elements of `t` into ranges of about `most` elements, for scatter and gather. A range holds whole stored
// rows.
std::vector<FileRange> file_ranges(const FileTensor& t, int64_t most);

// Copies a range of elements from a file's tensor to parameters. `of` holds the parameters of t, whole and contiguous,
// in their order. `data` holds the range in elements of type `from`, in file order; each is rounded once. Ranges of one
// tensor may run in parallel.
void scatter(const FileTensor& t, const FileRange& range, DType from, const std::byte* data, const std::vector<TensorView>& of);
// Copies a range of elements of file tensor `t` from the parameters `of` (as in scatter) to `data`, converted to type
// `to`, in file order.
void gather(const FileTensor& t, const FileRange& range, DType to, std::byte* data, const std::vector<TensorView>& of);

}  // namespace ravine
