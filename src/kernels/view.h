// TensorView: the argument type of kernels. A view does not own memory.
#pragma once
#include "base/dtype.h"
#include "base/shape.h"
#include "device/device.h"

namespace ravine {

// A view of a tensor. The last dim is contiguous. All other dims count rows, which are `stride` elements apart; so q, k
// and v may be column slices of one product's output. A view of rank 0 is absent. `data` is null in an absent view and
// on the meta device.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  DeviceKind device = DeviceKind::cpu;
  Shape shape;
  int64_t stride = 0;

  int64_t cols() const { return shape.rank() ? shape[-1] : 1; }
  int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < shape.rank(); ++i) n *= shape[i];
    return n;
  }
  int64_t count() const { return rows() * cols(); }
  int64_t bytes() const { return count() * size_of(dtype); }
  bool absent() const { return shape.rank() == 0; }
  bool contiguous() const { return rows() <= 1 || stride == cols(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(int64_t i) const {
    return static_cast<T*>(data) + i * stride;
  }
  // Returns the view of columns [from, from + n) of every row.
  TensorView columns(int64_t from, int64_t n) const {
    TensorView v = *this;
    v.shape[-1] = n;
    if (data) v.data = static_cast<char*>(data) + from * size_of(dtype);
    return v;
  }
  // Returns the view of rows [from, from + n), as two dims [n, cols].
  TensorView row_range(int64_t from, int64_t n) const {
    TensorView v = *this;
    v.shape = {n, cols()};
    if (data) v.data = static_cast<char*>(data) + from * stride * size_of(dtype);
    return v;
  }
};

// Returns a view of contiguous memory with this type and shape.
inline TensorView view_of(void* data, DType dtype, const Shape& shape, DeviceKind device = DeviceKind::cpu) {
  return {data, dtype, device, shape, shape.rank() ? shape[-1] : 1};
}

enum class Access : uint8_t { read, write, update };

}  // namespace ravine
