#include "io/file_rows.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/convert.h"

namespace ravine {
namespace {

int64_t row_size(const FileTensor& t) { return t.shape.rank() < 2 ? 1 : t.shape.count() / std::max<int64_t>(1, t.shape[0]); }

std::byte* element_at(const TensorView& v, int64_t element) {
  return static_cast<std::byte*>(v.data) + element * size_of(v.dtype);
}

// Calls f(param, its first element, offset in the range, count) for runs that are contiguous on both sides. Not for
// transposed tensors.
template <class F>
void each_run(const FileTensor& t, const FileRange& range, F&& f) {
  const int64_t size = row_size(t), first = range.begin / size, last = first + range.count / size;
  for (const FileTensor::Run& r : t.runs) {
    const int64_t begin = std::max(first, r.row), end = std::min(last, r.row + r.count);
    if (begin < end) f(r.param, (r.param_row + begin - r.row) * size, (begin - first) * size, (end - begin) * size);
  }
}

// For one input of a matrix stored [in, out]: calls f(param, its row, column) for all outputs in file order.
template <class F>
void each_output(const FileTensor& t, F&& f) {
  for (const FileTensor::Run& r : t.runs)
    for (int64_t i = 0; i < r.count; ++i) f(r.param, r.param_row + i, r.row + i);
}

template <class Move>
void turn(const FileTensor& t, const FileRange& range, int64_t size, Move&& move) {
  const int64_t inputs = t.shape[0], outputs = t.shape[1], first = range.begin / outputs, count = range.count / outputs;
  each_output(t, [&](size_t param, int64_t row, int64_t column) {
    for (int64_t i = 0; i < count; ++i) move(param, row * inputs + first + i, (i * outputs + column) * size);
  });
}

}  // namespace

std::vector<FileRange> file_ranges(const FileTensor& t, int64_t most) {
  const int64_t all = t.shape.count(), row = t.shape.rank() < 2 ? 1 : row_size(t),
                step = std::max<int64_t>(1, most / std::max<int64_t>(1, row)) * row;
  std::vector<FileRange> ranges;
  for (int64_t begin = 0; begin < all; begin += step) ranges.push_back({begin, std::min(step, all - begin)});
  return ranges;
}

void scatter(const FileTensor& t, const FileRange& range, DType from, const std::byte* data,
             const std::vector<TensorView>& of) {
  if (!t.transposed) {
    each_run(t, range, [&](size_t param, int64_t element, int64_t offset, int64_t count) {
      convert(from, data + offset * size_of(from), of[param].dtype, element_at(of[param], element), count);
    });
    return;
  }
  const DType to = of[0].dtype;
  std::vector<std::byte> converted;
  if (from != to) {
    converted.resize(static_cast<size_t>(range.count * size_of(to)));
    convert(from, data, to, converted.data(), range.count);
    data = converted.data();
  }
  const int64_t size = size_of(to);
  turn(t, range, size, [&](size_t param, int64_t element, int64_t offset) {
    std::memcpy(element_at(of[param], element), data + offset, static_cast<size_t>(size));
  });
}

void gather(const FileTensor& t, const FileRange& range, DType to, std::byte* data, const std::vector<TensorView>& of) {
  if (!t.transposed) {
    each_run(t, range, [&](size_t param, int64_t element, int64_t offset, int64_t count) {
      convert(of[param].dtype, element_at(of[param], element), to, data + offset * size_of(to), count);
    });
    return;
  }
  const DType from = of[0].dtype;
  std::vector<std::byte> turned(static_cast<size_t>(range.count * size_of(from)));
  const int64_t size = size_of(from);
  turn(t, range, size, [&](size_t param, int64_t element, int64_t offset) {
    std::memcpy(turned.data() + offset, element_at(of[param], element), static_cast<size_t>(size));
  });
  convert(from, turned.data(), to, data, range.count);
}

}  // namespace ravine
