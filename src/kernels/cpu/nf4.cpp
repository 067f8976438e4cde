#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nf4.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include <cstring>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/nf4.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kWord = 8;  // codes in four bytes

#if HWY_TARGET != HWY_SCALAR
using EightFloats = hn::CappedTag<float, kWord>;
using EightCodes = hn::RebindToSigned<EightFloats>;

// Looks up the values of eight codes: in the lower and in the upper half of the table, each by three bits.
class Decoder {
 public:
  explicit Decoder(const float* values)
      : low_(hn::LoadU(EightFloats(), values)), high_(hn::LoadU(EightFloats(), values + kWord)) {
    alignas(32) static constexpr int32_t kShifts[kWord] = {4, 0, 12, 8, 20, 16, 28, 24};
    shifts_ = hn::Load(EightCodes(), kShifts);
  }
  HWY_INLINE void operator()(const uint8_t* codes, float scale, float* out) const {
    int32_t word;
    std::memcpy(&word, codes, 4);
    const EightCodes d;
    const hn::RebindToUnsigned<EightCodes> bits;
    const auto shifted = hn::Shr(hn::Set(bits, static_cast<uint32_t>(word)), hn::BitCast(bits, shifts_));
    const auto code = hn::BitCast(d, hn::And(shifted, hn::Set(bits, 15)));
    const auto lookup = hn::IndicesFromVec(EightFloats(), hn::And(code, hn::Set(d, 7)));
    const auto upper = hn::RebindMask(EightFloats(), hn::Gt(code, hn::Set(d, 7)));
    const auto value = hn::IfThenElse(upper, hn::TableLookupLanes(high_, lookup), hn::TableLookupLanes(low_, lookup));
    hn::StoreU(hn::Mul(value, hn::Set(EightFloats(), scale)), EightFloats(), out);
  }

 private:
  hn::Vec<EightFloats> low_, high_;
  hn::Vec<EightCodes> shifts_;
};
#endif

void decode(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld) {
  const float* values = nf4_values().data();
  const uint8_t* codes = nf4_codes(v);
#if HWY_TARGET != HWY_SCALAR
  const Decoder eight(values);
#endif
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t begin = (row + i) * v.cols + col, end = begin + cols;
    float* to = out + i * ld - begin;
    for (int64_t e = begin; e < end;) {
      const int64_t block = e / kNf4Block, stop = std::min(end, (block + 1) * kNf4Block);
      const float scale = nf4_scale(v, block);
      while (e < stop) {
#if HWY_TARGET != HWY_SCALAR
        if (e % kWord == 0 && e + kWord <= stop) {
          eight(codes + e / 2, scale, to + e);
          e += kWord;
          continue;
        }
#endif
        to[e] = values[codes[e / 2] >> (e % 2 ? 0 : 4) & 15] * scale;
        ++e;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(decode);

void decode_nf4(const Nf4View& v, int64_t row, int64_t rows, int64_t col, int64_t cols, float* out, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(decode)(v, row, rows, col, cols, out, ld);
}

}  // namespace ravine
#endif
