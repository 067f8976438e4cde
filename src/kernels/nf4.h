// Matrices in blocks of 4 bits: NF4 with double quantisation (Dettmers et al. 2023, QLoRA), in the values of bitsandbytes 0.50
// (quantize_4bit with quant_type "nf4", compress_statistics, blocks of 64; as its default backend and its GPUs have them, its
// library for CPUs looks scales up in a coarser table): codes, codes of scales, groups and what they stand for are its own, bit
// for bit, where the mean of the scales is. That is a sum in f32 there, whose order depends on the machine; here it is the sum
// in f64, rounded once.
//
// The whole matrix [out, in], flattened, is cut into blocks of 64 elements, the last one perhaps shorter. Of each block: its
// scale s = max |w|, and per element the code of the nearest of the 16 values to w / s. All scales less their mean are cut into
// groups of 256; of each group the largest magnitude g, and per block the code of the nearest value of the dynamic map to
// (s - mean) / g. So w is about value[code] * (map[scale code] * g + mean), in f32, each operation rounded.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace ravine {

inline constexpr int64_t kNf4Block = 64;   // elements
inline constexpr int64_t kNf4Group = 256;  // blocks

// A box of a matrix in blocks: rows x cols, of a whole of `count` elements in rows of `width`, from element `first` on. Blocks of
// the whole are whole here: see nf4_fits.
struct Nf4View {
  // u8: groups, the mean behind them (f32); codes of scales (a byte per block of the box); codes (two per byte, the first in
  // the high half). No group is cut: each rank has all groups of the whole.
  TensorView bytes;
  int64_t rows = 0, cols = 0, first = 0, width = 0, count = 0;

  bool absent() const { return bytes.absent(); }
  int64_t groups() const { return ceil_div(ceil_div(count, kNf4Block), kNf4Group); }
  int64_t blocks() const { return ceil_div(rows * cols, kNf4Block); }
  int64_t byte_count() const { return 4 * (groups() + 1) + blocks() + ceil_div(rows * cols, 2); }
};

// The view of `shape` at `begin` of a matrix [whole], with the memory still to be set; byte_count() says how much.
Nf4View nf4_box(const Shape& whole, const Shape& shape, const std::vector<int64_t>& begin);
// Whether no block of the whole lies partly outside of such a box.
bool nf4_fits(const Nf4View& box);

const std::array<float, 16>& nf4_values();         // rising
const std::array<float, 256>& nf4_scale_values();  // of codes of scales, rising: bitsandbytes' create_dynamic_map()

// Host work. Makes the blocks of the box out of the whole matrix; the same bits for any number of threads. False where a value of
// the matrix is not finite: then the blocks hold nothing of use.
bool nf4_encode(const float* whole, const Nf4View& to);

// The scale of a block of the box, by its number there.
float nf4_scale(const Nf4View& v, int64_t block);
const uint8_t* nf4_codes(const Nf4View& v);
// out[i * ld + j] = element (row + i, col + j) of the box.
void nf4_decode(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld);

}  // namespace ravine
