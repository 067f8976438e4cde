// Packs operands into tiles and unpacks results, with conversion of 16-bit types. On the calling thread, with vector
// instructions.
#pragma once
#include <cstdint>

#include "kernels/view.h"

namespace ravine {

// A position in a matrix: element (i, j) is at data + i * stride + j, in elements of `dtype`.
struct Corner {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride = 0;
  Corner() = default;
  Corner(const TensorView& v, int64_t row = 0, int64_t col = 0)
      : data(static_cast<const char*>(v.data) + (row * v.stride + col) * size_of(v.dtype)), dtype(v.dtype), stride(v.stride) {}
  Corner at(int64_t row, int64_t col) const {
    Corner c = *this;
    c.data = static_cast<const char*>(data) + (row * stride + col) * size_of(dtype);
    return c;
  }
  const float* f32() const { return static_cast<const float*>(data); }
};

// Copies a matrix to f32: to[i * ld + j] = from(i, j), for i < rows, j < cols.
void pack_copy(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);

// Copies the transpose of a matrix to f32: to[j * ld + i] = factor * from(i, j), for i < rows, j < cols.
void pack_transposed(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld, float factor = 1);

// Copies a matrix to f32 in groups of six columns: to[j / 6 * ld + i * 6 + j % 6] = from(i, j), for i < rows, j < cols.
// ld >= 6 * rows + 16; the padding may be written.
void pack_sixes(const Corner& from, int64_t rows, int64_t cols, float* to, int64_t ld);

// Stores f32 results in a matrix of any type: to(i, j) = from[i * ld + j] (+ bias[j] if set) (+ to(i, j) if
// accumulate), rounded once to the type of `to`.
void unpack(const float* from, int64_t ld, int64_t rows, int64_t cols, const float* bias, bool accumulate, const Corner& to);

// Rounds f32 values in place to the nearest value of `type`: x[i] for i < n.
void round_run(float* x, int64_t n, DType type);

// Rounds f32 values to bf16, and stores them as bf16 at the beginning of the memory of x.
void narrow_run(float* x, int64_t n);

// Divides a workspace into 64-byte aligned parts, and counts their bytes.
class Scratch {
 public:
  explicit Scratch(void* memory)
      : begin_(static_cast<std::byte*>(memory)), at_((64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64) {}
  float* floats(int64_t n) {
    float* p = begin_ ? reinterpret_cast<float*>(begin_ + at_) : nullptr;
    at_ += static_cast<size_t>(n * 4 + 63) / 64 * 64;
    return p;
  }
  double* doubles(int64_t n) { return reinterpret_cast<double*>(floats(2 * n)); }
  // Returns the bytes handed out so far, with the bytes for alignment. With a null memory, this is the size that a
  // workspace needs.
  int64_t bytes() const { return static_cast<int64_t>(at_) + 64; }

 private:
  std::byte* begin_;
  size_t at_;
};

}  // namespace ravine
