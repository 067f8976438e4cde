#include "kernels/cpu/rows.h"

namespace ravine {

void check_rows(const char* op, int64_t rows, int64_t cols,
                std::initializer_list<std::pair<const char*, const TensorView*>> views) {
  for (auto [what, v] : views) {
    if (v->absent()) continue;
    require(v->rows() == rows && v->cols() == cols, "{}: {} is {}, expected {} rows of {}", op, what, v->shape.text(), rows,
            cols);
    require(v->dtype == DType::f32 || v->dtype == DType::bf16 || v->dtype == DType::f16,
            "{}: {} is {}; cpu takes f32, bf16, f16", op, what, name(v->dtype));
  }
}

void check_vector(const char* op, const char* what, const TensorView& v, DType t, int64_t n) {
  require(v.count() == n && v.contiguous() && !v.absent(), "{}: {} is {}, expected {} elements", op, what, v.shape.text(), n);
  require(v.dtype == t, "{}: {} is {}, expected {}", op, what, name(v.dtype), name(t));
}

int64_t widened_bytes(const TensorView& weight) {
  return weight.absent() || weight.dtype == DType::f32 ? 0 : round_up(4 * weight.cols(), 64);
}

const float* widened(const TensorView& weight, void* workspace) {
  if (weight.absent()) return nullptr;
  if (weight.dtype == DType::f32) return weight.as<float>();
  convert_run(weight.dtype, weight.data, DType::f32, workspace, weight.cols());
  return static_cast<const float*>(workspace);
}

}  // namespace ravine
