#include "io/write_tensors.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/parallel.h"
#include "files/convert.h"
#include "files/safetensors.h"
#include "io/file_rows.h"

namespace ravine {
namespace {

constexpr int64_t kPiece = int64_t{4} << 20;  // elements converted at a time
constexpr int64_t kChunk = int64_t{64} << 10;

int64_t infinities(const std::byte* halves, int64_t count) {
  int64_t n = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, halves + 2 * i, 2);
    n += (bits & 0x7fff) == 0x7c00;
  }
  return n;
}

int64_t write_tensor(SafetensorsWriter& writer, const FileTensor& t, DType dtype, WeightSource& store,
                     std::vector<std::byte>& scratch) {
  Lease lease(store, *t.params[0]->unit);
  std::vector<TensorView> of;
  for (const Param* p : t.params) {
    of.push_back(store.master(*p));
    require(of.back().shape == p->shape && of.back().contiguous() && of.back().data,
            "write_tensors: the master of '{}' is whole, contiguous and not on meta, got {}", p->name, of.back().shape.text());
  }
  if (of.size() == 1 && of[0].dtype == dtype && !t.transposed && !t.of_stack()) {
    writer.write(t.name, {static_cast<const std::byte*>(of[0].data), static_cast<size_t>(t.shape.count() * size_of(dtype))});
    return 0;
  }
  std::atomic<int64_t> beyond = 0;
  for (const FileRange& large : file_ranges(t, kPiece)) {
    scratch.resize(static_cast<size_t>(large.count * size_of(dtype)));
    FileTensor part;  // only its shape is used, by file_ranges
    part.shape = t.shape.rank() < 2 ? Shape{large.count} : Shape{large.count / t.shape[-1], t.shape[-1]};
    const std::vector<FileRange> small = file_ranges(part, kChunk);
    parallel_for(static_cast<int64_t>(small.size()), [&](int64_t i) {
      const FileRange& r = small[static_cast<size_t>(i)];
      std::byte* to = scratch.data() + r.begin * size_of(dtype);
      gather(t, {large.begin + r.begin, r.count}, dtype, to, of);
      if (dtype == DType::f16) beyond += infinities(to, r.count);
    });
    writer.write(t.name, scratch);
  }
  return beyond;
}

}  // namespace

int64_t write_tensors(const std::string& path, std::vector<const FileTensor*> tensors, DType dtype, WeightSource& store) {
  std::sort(tensors.begin(), tensors.end(), [](const FileTensor* a, const FileTensor* b) { return a->name < b->name; });
  SafetensorsWriter writer(path, {{{"format", "pt"}}});
  for (const FileTensor* t : tensors) writer.declare(t->name, dtype, t->shape);
  std::vector<std::byte> scratch;
  int64_t beyond = 0;
  for (const FileTensor* t : tensors) beyond += write_tensor(writer, *t, dtype, store, scratch);
  writer.commit();
  return beyond;
}

}  // namespace ravine
