#include "kernels/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"

namespace ravine {
namespace {

constexpr float kLeastScale = 1e-38f;       // the least scale, so that a block of zeros can be divided
constexpr int64_t kBlocksOfTask = 1 << 10;  // blocks per task of a thread

// Returns the middles between neighbouring values: a number up to a middle belongs to the lower value.
template <size_t n>
std::array<float, n - 1> middles(const std::array<float, n>& values) {
  std::array<float, n - 1> out;
  for (size_t i = 0; i + 1 < n; ++i) out[i] = (values[i] + values[i + 1]) / 2;
  return out;
}

template <size_t n>
uint8_t nearest_code(const std::array<float, n>& middles, float x) {
  return static_cast<uint8_t>(std::lower_bound(middles.begin(), middles.end(), x) - middles.begin());
}

// Divides the numbers of a block or group by their largest magnitude. As in bitsandbytes, a short block is divided, and
// others are multiplied by the inverse; the results differ in the last bit.
class Scaled {
 public:
  Scaled(float largest, bool is_short)
      : by_(is_short ? std::max(largest, kLeastScale) : 1 / std::max(largest, kLeastScale)), divides_(is_short) {}
  float operator()(float x) const { return std::clamp(divides_ ? x / by_ : x * by_, -1.0f, 1.0f); }

 private:
  float by_;
  bool divides_;
};

float largest_of(const float* x, int64_t n) {
  float top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::isfinite(x[i]) ? std::max(top, std::fabs(x[i])) : INFINITY;
  return n > 0 ? top : 0;
}

uint8_t* bytes_of(const Nf4View& v) { return v.bytes.as<uint8_t>(); }
uint8_t* scale_codes(const Nf4View& v) { return bytes_of(v) + 4 * (v.groups() + 1); }

float group_at(const Nf4View& v, int64_t i) {
  float x;
  std::memcpy(&x, bytes_of(v) + 4 * i, 4);
  return x;
}

// Returns the number, in the whole matrix, of a block of the box.
int64_t whole_block(const Nf4View& v, int64_t block) {
  const int64_t element = block * kNf4Block;
  return (v.first + element / v.cols * v.width + element % v.cols) / kNf4Block;
}

}  // namespace

Nf4View nf4_box(const Shape& whole, const Shape& shape, const std::vector<int64_t>& begin) {
  require(whole.rank() == 2 && shape.rank() == 2, "nf4: a matrix has two dims, got {}", whole.text());
  Nf4View v{
      .rows = shape[0], .cols = shape[1], .first = begin[0] * whole[1] + begin[1], .width = whole[1], .count = whole.count()};
  v.bytes = view_of(nullptr, DType::u8, {v.byte_count()});
  return v;
}

bool nf4_fits(const Nf4View& v) {
  const bool begins = v.first % kNf4Block == 0, whole_rows = v.cols == v.width;
  const bool ends = v.first + v.rows * v.cols == v.count || v.rows * v.cols % kNf4Block == 0;
  return whole_rows ? begins && ends : begins && v.cols % kNf4Block == 0 && v.width % kNf4Block == 0;
}

const std::array<float, 16>& nf4_values() {
  static const std::array<float, 16> values = {-1.0f,
                                               -0.6961928009986877f,
                                               -0.5250730514526367f,
                                               -0.39491748809814453f,
                                               -0.28444138169288635f,
                                               -0.18477343022823334f,
                                               -0.09105003625154495f,
                                               0.0f,
                                               0.07958029955625534f,
                                               0.16093020141124725f,
                                               0.24611230194568634f,
                                               0.33791524171829224f,
                                               0.44070982933044434f,
                                               0.5626170039176941f,
                                               0.7229568362236023f,
                                               1.0f};
  return values;
}

const std::array<float, 256>& nf4_scale_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> out{};
    size_t n = 0;
    for (int e = 0; e < 7; ++e) {
      const int parts = 1 << e;  // [0.1, 1] is cut into this many parts; the values are their middles, times 10^(e - 6)
      const float begin = 0.1f, end = 1, step = (end - begin) / static_cast<float>(parts),
                  power = static_cast<float>(std::pow(10.0, e - 6));
      auto edge = [&](int k) {  // torch.linspace
        return k < (parts + 1) / 2 ? std::fma(step, static_cast<float>(k), begin)
                                   : std::fma(-step, static_cast<float>(parts - k), end);
      };
      for (int k = 0; k < parts; ++k) {
        const float value = power * ((edge(k) + edge(k + 1)) / 2);
        out[n++] = value, out[n++] = -value;
      }
    }
    out[n++] = 0, out[n++] = 1;
    std::sort(out.begin(), out.end());
    return out;
  }();
  return values;
}

bool nf4_encode(const float* whole, const Nf4View& to) {
  require(nf4_fits(to), "nf4: a box of {} x {} cuts blocks", to.rows, to.cols);
  const auto bounds = middles(nf4_values());
  const auto scale_bounds = middles(nf4_scale_values());
  const int64_t blocks = ceil_div(to.count, kNf4Block), groups = to.groups();
  std::vector<float> scales(static_cast<size_t>(blocks));
  auto length = [&](int64_t block) { return std::min(kNf4Block, to.count - block * kNf4Block); };
  parallel_for(ceil_div(blocks, kBlocksOfTask), [&](int64_t task) {
    for (int64_t b = task * kBlocksOfTask; b < std::min(blocks, (task + 1) * kBlocksOfTask); ++b) {
      const float top = largest_of(whole + b * kNf4Block, length(b));
      scales[static_cast<size_t>(b)] = length(b) < kNf4Block ? std::max(top, kLeastScale) : top;
    }
  });
  double sum = 0;
  for (float s : scales) sum += s;
  if (!std::isfinite(sum)) return false;
  const float mean = static_cast<float>(sum / static_cast<double>(std::max<int64_t>(1, blocks)));
  std::memcpy(bytes_of(to) + 4 * groups, &mean, 4);

  std::vector<uint8_t> codes(static_cast<size_t>(blocks));
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = g * kNf4Group, n = std::min(kNf4Group, blocks - begin);
    std::array<float, kNf4Group> rest;
    for (int64_t i = 0; i < n; ++i) rest[static_cast<size_t>(i)] = scales[static_cast<size_t>(begin + i)] - mean;
    float top = largest_of(rest.data(), n);
    if (n < kNf4Group) top = std::max(top, kLeastScale);
    std::memcpy(bytes_of(to) + 4 * g, &top, 4);
    const Scaled scaled(top, n < kNf4Group);
    for (int64_t i = 0; i < n; ++i)
      codes[static_cast<size_t>(begin + i)] = nearest_code(scale_bounds, scaled(rest[static_cast<size_t>(i)]));
  }

  uint8_t* out = scale_codes(to) + to.blocks();
  parallel_for(ceil_div(to.blocks(), kBlocksOfTask), [&](int64_t task) {
    for (int64_t b = task * kBlocksOfTask; b < std::min(to.blocks(), (task + 1) * kBlocksOfTask); ++b) {
      const int64_t from = whole_block(to, b), n = length(from);
      scale_codes(to)[b] = codes[static_cast<size_t>(from)];
      const Scaled scaled(scales[static_cast<size_t>(from)], n < kNf4Block);
      auto code = [&](int64_t i) {  // after the end: the code of zero
        return i < n ? nearest_code(bounds, scaled(whole[from * kNf4Block + i])) : nearest_code(bounds, 0.0f);
      };
      for (int64_t i = 0; i < n; i += 2) out[(b * kNf4Block + i) / 2] = static_cast<uint8_t>(code(i) << 4 | code(i + 1));
    }
  });
  return true;
}

float nf4_scale(const Nf4View& v, int64_t block) {
  const float scaled = nf4_scale_values()[scale_codes(v)[block]] * group_at(v, whole_block(v, block) / kNf4Group);
  return scaled + group_at(v, v.groups());
}

const uint8_t* nf4_codes(const Nf4View& v) { return scale_codes(v) + v.blocks(); }

void nf4_decode(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld) {
  const std::array<float, 16>& values = nf4_values();
  const uint8_t* codes = nf4_codes(v);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t begin = (row + i) * v.cols + col;
    int64_t block = -1;
    float scale = 0;
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t e = begin + j;
      if (e / kNf4Block != block) block = e / kNf4Block, scale = nf4_scale(v, block);
      out[i * ld + j] = values[codes[e / 2] >> (e % 2 ? 0 : 4) & 15] * scale;
    }
  }
}

}  // namespace ravine
