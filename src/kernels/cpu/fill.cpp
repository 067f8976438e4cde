#include <cmath>
#include <cstring>

#include "kernels/cpu/rows.h"

namespace ravine {
namespace {

// Copies a block that stays in the first-level cache.
template <class T>
void fill_with(const TensorView& out, T value) {
  constexpr int64_t kBlock = 4096 / sizeof(T);
  T block[kBlock];
  std::fill_n(block, kBlock, value);
  for_pieces(out, {&out}, [&](int64_t row, int64_t col, int64_t n) {
    T* to = out.row<T>(row) + col;
    for (int64_t i = 0; i < n; i += kBlock) std::memcpy(to + i, block, std::min(kBlock, n - i) * sizeof(T));
  });
}

void run(const Fill& a, void*) {
  if (a.value == 0 && !std::signbit(a.value)) {
    const int64_t size = size_of(a.out.dtype);
    for_pieces(a.out, {&a.out}, [&](int64_t row, int64_t col, int64_t n) {
      std::memset(static_cast<char*>(a.out.data) + (row * a.out.stride + col) * size, 0, n * size);
    });
    return;
  }
  switch (a.out.dtype) {
    case DType::f64:
      return fill_with(a.out, a.value);
    case DType::f32:
      return fill_with(a.out, static_cast<float>(a.value));
    case DType::bf16:
      return fill_with(a.out, bf16(static_cast<float>(a.value)));
    case DType::f16:
      return fill_with(a.out, f16(static_cast<float>(a.value)));
    case DType::i64:
      return fill_with(a.out, static_cast<int64_t>(a.value));
    case DType::i32:
      return fill_with(a.out, static_cast<int32_t>(a.value));
    case DType::i16:
      return fill_with(a.out, static_cast<int16_t>(a.value));
    case DType::i8:
      return fill_with(a.out, static_cast<int8_t>(a.value));
    case DType::u8:
      return fill_with(a.out, static_cast<uint8_t>(a.value));
    case DType::boolean:
      return fill_with(a.out, static_cast<uint8_t>(a.value != 0));
  }
}

}  // namespace

template <>
Kernel<Fill> cpu_kernel() {
  return {run, no_workspace<Fill>};
}

}  // namespace ravine
