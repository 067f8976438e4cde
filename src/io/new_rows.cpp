#include "io/new_rows.h"

#include <algorithm>

#include "base/parallel.h"
#include "engine/initial_values.h"
#include "files/convert.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

constexpr int64_t kMeanElements = int64_t{1} << 20;  // elements of the file read at a time

// Host work: the mean of each column over all rows of the file's tensor. A column is summed row by row, for any number
// of threads.
std::vector<double> mean_row(const TensorFile& file, const TensorInfo& info) {
  const int64_t rows = info.shape[0], cols = info.shape[1], step = std::max<int64_t>(1, kMeanElements / cols);
  std::vector<double> sum(static_cast<size_t>(cols)), values(static_cast<size_t>(std::min(rows, step) * cols));
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_of(info.dtype)));
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t n = std::min(step, rows - row), count = n * cols;
    file.read(info, row * cols * size_of(info.dtype), {bytes.data(), static_cast<size_t>(count * size_of(info.dtype))});
    convert(info.dtype, bytes.data(), DType::f64, values.data(), count);
    constexpr int64_t kColumns = 64;
    parallel_for(ceil_div(cols, kColumns), [&](int64_t block) {
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = block * kColumns; c < std::min(cols, (block + 1) * kColumns); ++c)
          sum[static_cast<size_t>(c)] += values[static_cast<size_t>(r * cols + c)];
    });
  }
  for (double& x : sum) x /= static_cast<double>(rows);
  return sum;
}

// Rows [first, end) of the box, as indices in the box.
struct NewRowsOf {
  ParamBox box;
  int64_t first, end;
};

std::vector<NewRowsOf> new_rows_of(const Param& p, int64_t stored, WeightSource& store) {
  std::vector<NewRowsOf> out;
  for (ParamBox& box : store.boxes()) {
    if (box.param != &p || box.view.device == DeviceKind::meta) continue;
    // Rows beyond these are padding.
    const int64_t begin = box.begin[0], rows = std::min(box.view.shape[0], p.shape[0] - begin);
    const int64_t first = std::max<int64_t>(0, stored - begin);
    if (first < rows) out.push_back({std::move(box), first, rows});
  }
  return out;
}

}  // namespace

void fill_new_rows(const std::vector<std::unique_ptr<TensorFile>>& files, const WeightFiles& table,
                   const std::vector<std::string>& names, const Model& model, WeightSource& store,
                   const std::function<bool(const Param&)>& wanted) {
  const auto& stored = model.stored_vocabulary();
  if (!stored || model.facts().vocabulary <= stored->rows) return;
  for (size_t i = 0; i < table.tensors.size(); ++i) {
    const FileTensor& t = table.tensors[i];
    std::vector<double> mean;
    for (const Param* p : t.params) {
      if ((p->name != kEmbedding && p->name != kHead) || (wanted && !wanted(*p))) continue;
      for (const NewRowsOf& n : new_rows_of(*p, stored->rows, store)) {
        const TensorView& v = n.box.view;
        const int64_t width = v.cols(), size = size_of(v.dtype);
        if (stored->new_rows == NewRows::normal) {
          for (int64_t r = n.first; r < n.end; ++r)
            draw_values(*p, stored->seed, (n.box.begin[0] + r) * p->shape[1] + n.box.begin[1], width, v, r * width);
          continue;
        }
        if (mean.empty())
          for (const auto& file : files)
            if (const TensorInfo* info = file->find(names[i])) mean = mean_row(*file, *info);
        for (int64_t r = n.first; r < n.end; ++r)
          convert(DType::f64, mean.data() + n.box.begin[1], v.dtype, v.as<std::byte>() + r * width * size, width);
      }
    }
  }
}

}  // namespace ravine
