// Philox in vectors: the words of base/philox.h, many at a time. Compiled once per instruction set, like lanes-inl.h.
#if defined(RAVINE_KERNELS_CPU_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RAVINE_KERNELS_CPU_PHILOX_INL_H
#undef RAVINE_KERNELS_CPU_PHILOX_INL_H
#else
#define RAVINE_KERNELS_CPU_PHILOX_INL_H
#endif

#include "base/philox.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Randoms computes random words for many counters at a time. words: 4 * kLanes words, philox of counters {counter[0] +
// lane, counter[1], counter[2], counter[3]}; the four words of a counter are adjacent. across: word w of the counter
// {first, second[lane], third[lane], fourth} is in lane `lane` of out[w].
#if HWY_TARGET == HWY_SCALAR
struct Randoms {
  uint64_t key;
  explicit Randoms(uint64_t k) : key(k) {}
  void words(const std::array<uint32_t, 4>& counter, uint32_t* out) const {
    const auto w = philox(key, counter);
    std::copy(w.begin(), w.end(), out);
  }
  void across(uint32_t first, const uint32_t* second, const uint32_t* third, uint32_t fourth, hn::Vec<Bits32>* out) const {
    const auto w = philox(key, {first, *second, *third, fourth});
    for (size_t i = 0; i < 4; ++i) out[i] = hn::Set(bits32, w[i]);
  }
};
#else
// Randoms for vectors: each 64-bit lane holds one counter in the low halves of four vectors. The high halves are never
// read.
class Randoms {
  using Wide = hn::ScalableTag<uint64_t>;
  using Words = hn::Vec<Wide>;
  static constexpr int64_t kCounters = hn::MaxLanes(Wide());
  static constexpr int kRounds = 10;
  Words k0_[kRounds], k1_[kRounds];

  // Runs the rounds of Philox on two vectors of counters at a time, which hides the latency of a product.
  HWY_INLINE void rounds(Words* c0, Words* c1, Words* c2, Words* c3) const {
    const Wide wide;
    const hn::Repartition<uint32_t, Wide> narrow;
    const auto m0 = hn::BitCast(narrow, hn::Set(wide, 0xD2511F53u)), m1 = hn::BitCast(narrow, hn::Set(wide, 0xCD9E8D57u));
    auto high = [&](Words p) RAVINE_LANES { return hn::BitCast(wide, hn::Shuffle2301(hn::BitCast(narrow, p))); };
    for (int i = 0; i < kRounds; ++i) {
      for (int h = 0; h < 2; ++h) {
        const Words p0 = hn::MulEven(hn::BitCast(narrow, c0[h]), m0), p1 = hn::MulEven(hn::BitCast(narrow, c2[h]), m1);
        c0[h] = hn::Xor3(high(p1), c1[h], k0_[i]);
        c2[h] = hn::Xor3(high(p0), c3[h], k1_[i]);
        c1[h] = p1;
        c3[h] = p0;
      }
    }
  }

 public:
  explicit Randoms(uint64_t key) {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int i = 0; i < kRounds; ++i, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
      k0_[i] = hn::Set(Wide(), k0), k1_[i] = hn::Set(Wide(), k1);
  }

  HWY_INLINE void words(const std::array<uint32_t, 4>& counter, uint32_t* out) const {
    const Wide wide;
    Words c0[2], c1[2], c2[2], c3[2];
    for (int h = 0; h < 2; ++h) {
      c0[h] = hn::Iota(wide, counter[0] + static_cast<uint64_t>(h * kCounters));
      c1[h] = hn::Set(wide, counter[1]), c2[h] = hn::Set(wide, counter[2]), c3[h] = hn::Set(wide, counter[3]);
    }
    rounds(c0, c1, c2, c3);
    const Words low = hn::Set(wide, 0xffffffffu);
    for (int h = 0; h < 2; ++h) {
      hn::StoreInterleaved2(hn::Or(hn::And(c0[h], low), hn::ShiftLeft<32>(c1[h])),
                            hn::Or(hn::And(c2[h], low), hn::ShiftLeft<32>(c3[h])), wide,
                            reinterpret_cast<uint64_t*>(out) + h * 2 * kCounters);
    }
  }

  // Even lanes are computed in the first of the two vectors, odd lanes in the second.
  HWY_INLINE void across(uint32_t first, const uint32_t* second, const uint32_t* third, uint32_t fourth,
                         hn::Vec<Bits32>* out) const {
    const Wide wide;
    const Words s = hn::BitCast(wide, hn::LoadU(bits32, second)), t = hn::BitCast(wide, hn::LoadU(bits32, third));
    Words c0[2], c1[2] = {s, hn::ShiftRight<32>(s)}, c2[2] = {t, hn::ShiftRight<32>(t)}, c3[2];
    for (int h = 0; h < 2; ++h) c0[h] = hn::Set(wide, first), c3[h] = hn::Set(wide, fourth);
    rounds(c0, c1, c2, c3);
    const Words low = hn::Set(wide, 0xffffffffu);
    auto join = [&](const Words* c)
                    RAVINE_LANES { return hn::BitCast(bits32, hn::Or(hn::And(c[0], low), hn::ShiftLeft<32>(c[1]))); };
    out[0] = join(c0), out[1] = join(c1), out[2] = join(c2), out[3] = join(c3);
  }
};
#endif

// Decides which random words mean "keep" in dropout with probability p. uniform24 = w / 2^24 with an integer w, so
// uniform24 >= p is exactly w > ceil(p 2^24) - 1.
struct Keeping {
  using Whole = hn::RebindToSigned<F32>;
  hn::Vec<Whole> last_dropped;
  explicit Keeping(double p) : last_dropped(hn::Set(Whole(), static_cast<int32_t>(std::ceil(p * 0x1p24)) - 1)) {}
  HWY_INLINE auto keeps(hn::Vec<Bits32> words) const {
    return hn::RebindMask(f32s, hn::Gt(hn::BitCast(Whole(), hn::ShiftRight<8>(words)), last_dropped));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#endif
