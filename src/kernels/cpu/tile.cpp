#include "kernels/cpu/tile.h"

#include <libxsmm.h>

#include "base/checked.h"

namespace ravine {

// libxsmm is column-major: its first operand is b here, its m is n here.
TileKernel::TileKernel(const Tile& s) : shape_(s) {
  require(s.m > 0 && s.n > 0 && s.k > 0, "tile: sizes must be positive, got {} x {} x {}", s.m, s.n, s.k);
  const int lda = narrow<int>(s.ldb), ldb = narrow<int>(s.lda), ldc = narrow<int>(s.ldc);
  const int flags = s.trans_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  const float alpha = 1, beta = s.accumulate ? 1 : 0;
  code_ = libxsmm_smmdispatch(narrow<int>(s.n), narrow<int>(s.m), narrow<int>(s.k), &lda, &ldb, &ldc, &alpha, &beta, &flags,
                              &prefetch);
}

void TileKernel::operator()(const float* a, const float* b, float* c) const {
  if (code_) return code_(b, a, c);
  const Tile& s = shape_;
  for (int64_t i = 0; i < s.m; ++i) {
    float* row = c + i * s.ldc;
    if (!s.accumulate)
      for (int64_t j = 0; j < s.n; ++j) row[j] = 0;
    for (int64_t p = 0; p < s.k; ++p) {
      const float x = s.trans_a ? a[p * s.lda + i] : a[i * s.lda + p];
      for (int64_t j = 0; j < s.n; ++j) row[j] += x * b[p * s.ldb + j];
    }
  }
}

}  // namespace ravine
