// Views of elements [begin, begin + shape.count()) of a flat buffer (no data on meta), and the parameters of a view.
#pragma once
#include <vector>

#include "engine/param_store.h"
#include "engine/tensor.h"

namespace ravine {

inline TensorView slice(void* data, DType t, int64_t begin, const Shape& shape, DeviceKind device) {
  return view_of(data ? static_cast<std::byte*>(data) + begin * size_of(t) : nullptr, t, shape, device);
}
inline TensorView slice(const Storage& s, DType t, int64_t begin, const Shape& shape) {
  return slice(s.data(), t, begin, shape, s.device());
}
inline TensorView slice(const Tensor& t, int64_t begin, const Shape& shape) {
  return slice(t.view().data, t.dtype(), begin, shape, t.view().device);
}

// Appends to `out` the parameters of a bucket whose elements `v` shows, if `v` points into `memory`. `memory` has
// `bytes` bytes and holds the elements of the bucket from element `first` on.
void find_params(const Bucket& bucket, const void* memory, int64_t bytes, DType type, int64_t first, const TensorView& v,
                 std::vector<const Param*>& out);

}  // namespace ravine
