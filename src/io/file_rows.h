// Between tensors of weight files and the parameters they are made of: joined ones are cut, transposed ones turned, types
// converted.
#pragma once
#include <functional>
#include <vector>

#include "kernels/view.h"
#include "model/weight_files.h"

namespace ravine {

// The elements of a file's tensor, counted row-major as they are stored.
struct FileRange {
  int64_t begin = 0, count = 0;
};

// Cuts [0, t.shape.count()) into ranges of about `most` elements that the two functions below take: whole rows of what is
// stored.
std::vector<FileRange> file_ranges(const FileTensor& t, int64_t most);

// `of` holds the parameters of t, whole and contiguous, in their order.
// data (elements of `from` in the order of the file) -> parameters; rounded once. Ranges of one tensor may run side by side.
void scatter(const FileTensor& t, const FileRange& range, DType from, const std::byte* data, const std::vector<TensorView>& of);
// parameters -> data, elements of `to`.
void gather(const FileTensor& t, const FileRange& range, DType to, std::byte* data, const std::vector<TensorView>& of);

}  // namespace ravine
