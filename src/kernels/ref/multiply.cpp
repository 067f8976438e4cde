#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

constexpr int64_t kStrip = 4;  // rows or columns that one inner loop keeps in registers
constexpr int64_t kTile = 64;  // rows and columns of a task

// Packs strips of kStrip lines of length k, interleaved, so that the inner loop reads memory in order. Lines past the
// end are 0.
std::vector<double> pack(const double* data, int64_t line_stride, int64_t stride, int64_t lines, int64_t k) {
  std::vector<double> out(round_up(lines, kStrip) * k);
  for (int64_t i = 0; i < lines; ++i) {
    double* to = out.data() + (i / kStrip) * kStrip * k + i % kStrip;
    for (int64_t j = 0; j < k; ++j) to[j * kStrip] = data[i * line_stride + j * stride];
  }
  return out;
}

}  // namespace

void multiply(int64_t m, int64_t n, int64_t k, Operand a, Operand b, double* out, int64_t stride) {
  int64_t across = ceil_div(n, kTile);
  parallel_for(ceil_div(m, kTile) * across, [&](int64_t t) {
    int64_t i0 = t / across * kTile, j0 = t % across * kTile, rows = std::min(kTile, m - i0), cols = std::min(kTile, n - j0);
    std::vector<double> left = pack(a.data + i0 * a.row_stride, a.row_stride, a.col_stride, rows, k);
    std::vector<double> right = pack(b.data + j0 * b.col_stride, b.col_stride, b.row_stride, cols, k);
    for (int64_t j = 0; j < cols; j += kStrip)
      for (int64_t i = 0; i < rows; i += kStrip) {
        const double *x = left.data() + i * k, *y = right.data() + j * k;
        double sum[kStrip][kStrip] = {};
        int64_t high = std::min(kStrip, rows - i), wide = std::min(kStrip, cols - j);
        double* to = out + (i0 + i) * stride + j0 + j;
        for (int64_t r = 0; r < high; ++r)
          for (int64_t c = 0; c < wide; ++c) sum[r][c] = to[r * stride + c];
        for (int64_t s = 0; s < k; ++s, x += kStrip, y += kStrip)
          for (int r = 0; r < kStrip; ++r)
            for (int c = 0; c < kStrip; ++c) sum[r][c] += x[r] * y[c];
        for (int64_t r = 0; r < high; ++r)
          for (int64_t c = 0; c < wide; ++c) to[r * stride + c] = sum[r][c];
      }
  });
}

}  // namespace ravine::ref
