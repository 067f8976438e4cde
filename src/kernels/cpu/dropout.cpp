#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "base/philox.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// Words for 4 * kLanes channels from channel 4 * counter[0] on: philox of counters {counter[0] + lane, position, sequence,
// step}.
#if HWY_TARGET == HWY_SCALAR
struct Randoms {
  uint64_t key;
  void words(const std::array<uint32_t, 4>& counter, uint32_t* out) const {
    const auto w = philox(key, counter);
    std::copy(w.begin(), w.end(), out);
  }
};
#else
// Each 64-bit lane carries one counter in the low halves of four vectors; what collects in the high halves is never read.
class Randoms {
  using Wide = hn::ScalableTag<uint64_t>;
  using Words = hn::Vec<Wide>;
  static constexpr int64_t kCounters = hn::MaxLanes(Wide());
  static constexpr int kRounds = 10;
  Words k0_[kRounds], k1_[kRounds];

 public:
  explicit Randoms(uint64_t key) {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int i = 0; i < kRounds; ++i, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
      k0_[i] = hn::Set(Wide(), k0), k1_[i] = hn::Set(Wide(), k1);
  }

  HWY_INLINE void words(const std::array<uint32_t, 4>& counter, uint32_t* out) const {
    const Wide wide;
    const hn::Repartition<uint32_t, Wide> narrow;
    const auto m0 = hn::BitCast(narrow, hn::Set(wide, 0xD2511F53u)), m1 = hn::BitCast(narrow, hn::Set(wide, 0xCD9E8D57u));
    auto high = [&](Words p) RAVINE_LANES { return hn::BitCast(wide, hn::Shuffle2301(hn::BitCast(narrow, p))); };
    Words c0[2], c1[2], c2[2], c3[2];  // two at a time hide the latency of a product
    for (int h = 0; h < 2; ++h) {
      c0[h] = hn::Iota(wide, counter[0] + static_cast<uint64_t>(h * kCounters));
      c1[h] = hn::Set(wide, counter[1]), c2[h] = hn::Set(wide, counter[2]), c3[h] = hn::Set(wide, counter[3]);
    }
    for (int i = 0; i < kRounds; ++i) {
      for (int h = 0; h < 2; ++h) {
        const Words p0 = hn::MulEven(hn::BitCast(narrow, c0[h]), m0), p1 = hn::MulEven(hn::BitCast(narrow, c2[h]), m1);
        c0[h] = hn::Xor3(high(p1), c1[h], k0_[i]);
        c2[h] = hn::Xor3(high(p0), c3[h], k1_[i]);
        c1[h] = p1;
        c3[h] = p0;
      }
    }
    const Words low = hn::Set(wide, 0xffffffffu);
    for (int h = 0; h < 2; ++h) {
      hn::StoreInterleaved2(hn::Or(hn::And(c0[h], low), hn::ShiftLeft<32>(c1[h])),
                            hn::Or(hn::And(c2[h], low), hn::ShiftLeft<32>(c3[h])), wide,
                            reinterpret_cast<uint64_t*>(out) + h * 2 * kCounters);
    }
  }
};
#endif

template <class X, class O>
void drop_rows(const Dropout& a) {
  const int64_t cols = a.x.cols();
  const Lanes scale = all(static_cast<float>(1.0 / (1.0 - a.p)));
  const hn::RebindToSigned<F32> signed32;
  const Randoms random{a.key};
  // uniform24 = w / 2^24 with whole w, so uniform24 >= p is w > ceil(p 2^24) - 1, exactly.
  const auto last_dropped = hn::Set(signed32, static_cast<int32_t>(std::ceil(a.p * 0x1p24)) - 1);
  for_rows(a.x.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r);
    const Row<O> out(a.out, r);
    const auto position = static_cast<uint32_t>(a.positions.as<int32_t>()[r]);
    const auto sequence = static_cast<uint32_t>(a.sequences.as<int64_t>()[r]);
    HWY_ALIGN uint32_t words[4 * kLanes];
    for (int64_t c = 0; c < cols; c += 4 * kLanes) {
      random.words({static_cast<uint32_t>(c / 4), position, sequence, a.step}, words);
      each_vector(std::min(4 * kLanes, cols - c), [&](int64_t i, auto part) RAVINE_LANES {
        const auto w = hn::BitCast(signed32, hn::ShiftRight<8>(hn::Load(bits32, words + i)));
        const Lanes factor = hn::IfThenElseZero(hn::RebindMask(f32s, hn::Gt(w, last_dropped)), scale);
        out.store(hn::Mul(x.load(c + i, part), factor), c + i, part);
      });
    }
  });
}

void drop(const Dropout& a) {
  if (all_are(DType::f32, {&a.x, &a.out})) return drop_rows<float, float>(a);
  if (all_are(DType::bf16, {&a.x, &a.out})) return drop_rows<bf16, bf16>(a);
  drop_rows<Any, Any>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(drop);

template <>
Kernel<Dropout> cpu_kernel() {
  return {[](const Dropout& a, void*) {
            check_rows("dropout", a.x.rows(), a.x.cols(), {{"x", &a.x}, {"out", &a.out}});
            check_vector("dropout", "positions", a.positions, DType::i32, a.x.rows());
            check_vector("dropout", "sequences", a.sequences, DType::i64, a.x.rows());
            require(a.p >= 0 && a.p < 1, "dropout: p must be at least 0 and less than 1, got {}", a.p);
            HWY_DYNAMIC_DISPATCH(drop)(a);
          },
          no_workspace<Dropout>};
}

}  // namespace ravine
#endif
