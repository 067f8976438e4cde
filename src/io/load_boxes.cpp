#include "io/load_boxes.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/convert.h"

namespace ravine {
namespace {

constexpr int64_t kReadElements = int64_t{1} << 20;  // elements of one read
constexpr int64_t kShortRow = 2048;                  // bytes; for shorter rows of a box, whole file rows are read

int64_t file_row(const FileTensor& t) { return t.shape.rank() < 2 ? 1 : t.shape.count() / std::max<int64_t>(1, t.shape[0]); }

// True if the file's tensor has exactly the rows of its parameters, and all of these parameters are held whole.
bool all_whole(const FileTensor& t, const std::vector<std::vector<ParamBox>>& boxes) {
  int64_t rows = 0;
  for (const Param* p : t.params) rows += rows_of(*p);
  if (rows != t.shape[t.transposed ? 1 : 0]) return false;
  return std::all_of(t.params.begin(), t.params.end(), [&](const Param* p) {
    const std::vector<ParamBox>& of = boxes[p->index];
    return of.size() == 1 && of[0].view.shape == p->shape;
  });
}

// The part of a box in one matrix: `rows` rows from row `first` of the parameter, `columns` columns from `column`. Its
// first row is row `at` of the box.
struct Slab {
  int64_t first, rows, column, columns, at;
};

std::vector<Slab> slabs_of(const ParamBox& box) {
  const Shape& shape = box.view.shape;
  const std::vector<int64_t>& begin = box.begin;
  if (shape.rank() < 2) return {{shape.rank() ? begin[0] : 0, shape.rank() ? shape[0] : 1, 0, 1, 0}};
  if (shape.rank() == 2) return {{begin[0], shape[0], begin[1], shape[1], 0}};
  std::vector<Slab> out;
  for (int64_t e = 0; e < shape[0]; ++e)
    out.push_back({(begin[0] + e) * box.param->shape[1] + begin[1], shape[1], begin[2], shape[2], e * shape[1]});
  return out;
}

void plan_box(const BoxRead& common, const ParamBox& box, size_t param, std::vector<BoxRead>& reads) {
  const FileTensor& t = *common.tensor;
  require(box.view.shape.rank() <= 3 && box.view.contiguous(), "load_weights: a box of '{}' has shape {}", box.param->name,
          box.view.shape.text());
  for (const Slab& slab : slabs_of(box))
    for (const FileTensor::Run& r : t.runs) {
      if (r.param != param) continue;
      const int64_t begin = std::max(slab.first, r.param_row), end = std::min(slab.first + slab.rows, r.param_row + r.count);
      if (begin >= end) continue;
      BoxRead read = common;
      read.box = &box;
      const int64_t at = r.row + begin - r.param_row;  // row of the file; a column if it is stored transposed
      const int64_t rows = t.transposed ? slab.columns : end - begin, from = t.transposed ? slab.column : at;
      read.column = t.transposed ? at : slab.column;
      read.columns = t.transposed ? end - begin : slab.columns;
      const int64_t step = std::max<int64_t>(1, kReadElements / std::max<int64_t>(1, read.columns));
      for (int64_t done = 0; done < rows; done += step) {
        read.row = from + done;
        read.rows = std::min(step, rows - done);
        read.box_row = slab.at + begin - slab.first + (t.transposed ? 0 : done);
        read.box_column = t.transposed ? done : 0;
        reads.push_back(read);
      }
    }
}

// Reads rows x columns of the file into `to`, row by row.
void fetch(const BoxRead& r, std::byte* to, std::vector<std::byte>& rows_of_file) {
  const int64_t size = size_of(r.info->dtype), width = file_row(*r.tensor);
  auto read = [&](int64_t element, int64_t count, std::byte* into) {
    r.file->read(*r.info, element * size, {into, static_cast<size_t>(count * size)});
  };
  if (r.columns == width) return read(r.row * width, r.rows * width, to);
  if (r.columns * size >= kShortRow) {
    for (int64_t i = 0; i < r.rows; ++i) read((r.row + i) * width + r.column, r.columns, to + i * r.columns * size);
    return;
  }
  const int64_t step = std::max<int64_t>(1, kReadElements / width);
  for (int64_t i = 0; i < r.rows; i += step) {
    const int64_t n = std::min(step, r.rows - i), count = (n - 1) * width + r.columns;
    rows_of_file.resize(static_cast<size_t>(count * size));
    read((r.row + i) * width + r.column, count, rows_of_file.data());
    for (int64_t j = 0; j < n; ++j)
      std::memcpy(to + (i + j) * r.columns * size, rows_of_file.data() + j * width * size,
                  static_cast<size_t>(r.columns * size));
  }
}

void run_whole(const BoxRead& r, std::vector<std::byte>& scratch) {
  const DType from = r.info->dtype;
  const int64_t offset = r.range.begin * size_of(from);
  const auto bytes = static_cast<size_t>(r.range.count * size_of(from));
  if (r.whole.size() == 1 && from == r.whole[0].dtype && !r.tensor->transposed)
    return r.file->read(*r.info, offset, {static_cast<std::byte*>(r.whole[0].data) + offset, bytes});
  scratch.resize(bytes);
  r.file->read(*r.info, offset, scratch);
  scatter(*r.tensor, r.range, from, scratch.data(), r.whole);
}

void run_box(const BoxRead& r, std::vector<std::byte>& scratch) {
  const DType from = r.info->dtype, to = r.box->view.dtype;
  const int64_t pitch = r.box->view.cols(), size = size_of(to), count = r.rows * r.columns;
  auto* target =
      r.box->view.as<std::byte>() + (r.box->view.shape.rank() >= 2 ? r.box_row * pitch + r.box_column : r.box_row) * size;
  std::vector<std::byte> rows_of_file;
  if (!r.tensor->transposed && from == to) return fetch(r, target, rows_of_file);
  scratch.resize(static_cast<size_t>(count * size_of(from)));
  fetch(r, scratch.data(), rows_of_file);
  if (!r.tensor->transposed) return convert(from, scratch.data(), to, target, count);
  std::vector<std::byte> converted(static_cast<size_t>(count * size));
  convert(from, scratch.data(), to, converted.data(), count);
  for (int64_t i = 0; i < r.rows; ++i)
    for (int64_t j = 0; j < r.columns; ++j)
      std::memcpy(target + (j * pitch + i) * size, converted.data() + (i * r.columns + j) * size, static_cast<size_t>(size));
}

}  // namespace

void plan_reads(const TensorFile& file, const TensorInfo& info, const FileTensor& t,
                const std::vector<std::vector<ParamBox>>& boxes, std::vector<BoxRead>& reads) {
  BoxRead read{&file, &info, &t, {}, {}};
  if (all_whole(t, boxes)) {
    for (const Param* p : t.params) read.whole.push_back(boxes[p->index][0].view);
    if (read.whole[0].device == DeviceKind::meta) return;
    for (const FileRange& range : file_ranges(t, kReadElements)) {
      read.range = range;
      reads.push_back(read);
    }
    return;
  }
  for (size_t i = 0; i < t.params.size(); ++i)
    for (const ParamBox& box : boxes[t.params[i]->index])
      if (box.view.device != DeviceKind::meta) plan_box(read, box, i, reads);
}

void run_read(const BoxRead& read, std::vector<std::byte>& scratch) {
  return read.box ? run_box(read, scratch) : run_whole(read, scratch);
}

}  // namespace ravine
