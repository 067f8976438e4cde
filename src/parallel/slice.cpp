#include "parallel/slice.h"

namespace ravine {

void find_params(const Bucket& bucket, const void* memory, int64_t bytes, DType type, int64_t first, const TensorView& v,
                 std::vector<const Param*>& out) {
  if (!v.data || v.count() == 0 || !memory) return;
  const auto *begin = static_cast<const std::byte*>(memory), *data = static_cast<const std::byte*>(v.data);
  if (data < begin || data >= begin + bytes) return;
  const int64_t from = first + (data - begin) / size_of(type), end = from + (v.rows() - 1) * v.stride + v.cols();
  for (const Bucket::Span& s : bucket.spans)
    if (s.begin < end && from < s.begin + s.shape.count()) out.push_back(s.param);
}

}  // namespace ravine
