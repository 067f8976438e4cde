// Matrices in blocks of 4 bits: NF4 with double quantisation (Dettmers et al. 2023, QLoRA), with the values of
// bitsandbytes 0.50 (quantize_4bit with quant_type "nf4", compress_statistics, blocks of 64). Its default backend and
// its GPU backend have these values; its CPU library looks up scales in a coarser table. Codes, codes of scales, groups
// and their values are equal to bitsandbytes' bit for bit, if the mean of the scales is. bitsandbytes computes the mean
// as a sum in f32, whose order depends on the machine. Here it is a sum in f64, rounded once.
//
// The whole matrix [out, in] is flattened and cut into blocks of 64 elements; the last may be shorter. Each block has
// its scale s = max |w|, and per element the code of the nearest of the 16 values to w / s. All scales minus their mean
// are cut into groups of 256. Each group has its largest magnitude g, and per block the code of the nearest value of
// the dynamic map to (s - mean) / g. So w is about value[code] * (map[scale code] * g + mean), in f32, each operation
// rounded.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace ravine {

inline constexpr int64_t kNf4Block = 64;   // elements
inline constexpr int64_t kNf4Group = 256;  // blocks

// A view of a box [rows, cols] of a matrix in blocks of 4 bits. The whole matrix has `count` elements in rows of
// `width`; the box begins at its element `first`. The box cuts no block of the whole matrix (nf4_fits).
struct Nf4View {
  // The memory of the box, u8. First the values of the groups and then the mean (f32); then codes of scales (one byte
  // per block of the box); then codes (two per byte, the first in the high half). No group is cut: each rank has all
  // groups of the whole matrix.
  TensorView bytes;
  int64_t rows = 0, cols = 0, first = 0, width = 0, count = 0;

  bool absent() const { return bytes.absent(); }
  int64_t groups() const { return ceil_div(ceil_div(count, kNf4Block), kNf4Group); }
  int64_t blocks() const { return ceil_div(rows * cols, kNf4Block); }
  int64_t byte_count() const { return 4 * (groups() + 1) + blocks() + ceil_div(rows * cols, 2); }
};

// Returns the view of a box of a matrix in blocks, without memory. `whole`: shape of the matrix; `shape`: shape of the
// box; `begin`: its position. byte_count() of the result is the size of the memory that it needs.
Nf4View nf4_box(const Shape& whole, const Shape& shape, const std::vector<int64_t>& begin);
// True if the box contains each block of the whole matrix entirely or not at all.
bool nf4_fits(const Nf4View& box);

const std::array<float, 16>& nf4_values();  // in rising order
// Returns the 256 values of the codes of scales, in rising order: bitsandbytes' create_dynamic_map().
const std::array<float, 256>& nf4_scale_values();

// Host work: quantises the part of a whole f32 matrix that the box `to` covers. The same bits for any number of
// threads. Returns false if a value of the matrix is not finite; the blocks are then not valid.
bool nf4_encode(const float* whole, const Nf4View& to);

// Returns the scale (largest absolute value) of a block, by its number in the box.
float nf4_scale(const Nf4View& v, int64_t block);
const uint8_t* nf4_codes(const Nf4View& v);
// Decodes a part of the box to f32: out[i * ld + j] = element (row + i, col + j), for i < rows, j < cols.
void nf4_decode(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld);

}  // namespace ravine
