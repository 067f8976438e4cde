// Products of small f32 tiles that lie in cache, single-threaded: what attention and the loss head are built from.
// Machine code is made for each shape on first use (libxsmm, known only to tile.cpp) for AVX-512 or AVX2, and kept for the
// process.
//
// Single-threaded tiles that partition by shapes alone are the reason why bits do not depend on threads. oneDNN 2.6, tried as
// such a tile, was slower on gradients of weights than packing both operands. Matrix products have a loop of their own (strip.h).
#pragma once
#include <cstdint>

namespace ravine {

// c[m,n] (+)= op(a)[m,k] b[k,n], row-major with the given distance between rows. op(a) is a[m,k], or with trans_a the transpose
// of a[k,m]. b is never transposed: the vectors run along n. Each element is one chain of fused multiply-adds in the order of
// k, starting from c or from zero.
struct Tile {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool trans_a = false, accumulate = false;
  friend bool operator==(const Tile&, const Tile&) = default;
};

class TileKernel {
 public:
  explicit TileKernel(const Tile& shape);  // cheap when the shape was seen before
  const Tile& shape() const { return shape_; }
  void operator()(const float* a, const float* b, float* c) const;

 private:
  Tile shape_;
  void (*code_)(const float* b, const float* a, float* c, ...) = nullptr;  // null: the machine forbids new code
};

inline void tile_product(const Tile& shape, const float* a, const float* b, float* c) { TileKernel{shape}(a, b, c); }

}  // namespace ravine
