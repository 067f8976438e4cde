// Products of small f32 tiles in cache, single-threaded. Attention and the loss head are built from them. The machine
// code for each shape is generated on first use (libxsmm, used only in tile.cpp) for AVX-512 or AVX2, and kept for the
// process.
//
// Bits do not depend on the number of threads, since tiles are single-threaded and depend on shapes only. oneDNN 2.6 as
// a tile was slower on gradients of weights than packing both operands. Matrix products have their own loop (strip.h).
#pragma once
#include <cstdint>

namespace ravine {

// The shape of a small product c[m,n] (+)= op(a)[m,k] b[k,n], row-major with lda, ldb, ldc elements between rows. op(a)
// is a[m,k], or with trans_a the transpose of a[k,m]. b is never transposed: vectors run along n. Each element is one
// chain of fused multiply-adds in the order of k, from c or from zero.
struct Tile {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool trans_a = false, accumulate = false;
  friend bool operator==(const Tile&, const Tile&) = default;
};

class TileKernel {
 public:
  explicit TileKernel(const Tile& shape);  // cheap if the shape was used before
  const Tile& shape() const { return shape_; }
  void operator()(const float* a, const float* b, float* c) const;

 private:
  Tile shape_;
  void (*code_)(const float* b, const float* a, float* c, ...) = nullptr;  // null: the system forbids generated code
};

inline void tile_product(const Tile& shape, const float* a, const float* b, float* c) { TileKernel{shape}(a, b, c); }

}  // namespace ravine
