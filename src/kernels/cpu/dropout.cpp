#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

template <class X, class O>
void drop_rows(const Dropout& a) {
  const int64_t cols = a.x.cols();
  const Lanes scale = all(static_cast<float>(1.0 / (1.0 - a.p)));
  const Randoms random(a.key);
  const Keeping keeping(a.p);
  for_rows(a.x.rows(), cols, [&](int64_t r) HWY_ATTR {
    const Row<X> x(a.x, r);
    const Row<O> out(a.out, r);
    const auto position = static_cast<uint32_t>(a.positions.as<int32_t>()[r]);
    const auto sequence = static_cast<uint32_t>(a.sequences.as<int64_t>()[r]);
    HWY_ALIGN uint32_t words[4 * kLanes];
    for (int64_t c = 0; c < cols; c += 4 * kLanes) {
      random.words({static_cast<uint32_t>((a.first + c) / 4), position, sequence, a.step}, words);
      each_vector(std::min(4 * kLanes, cols - c), [&](int64_t i, auto part) RAVINE_LANES {
        const Lanes factor = hn::IfThenElseZero(keeping.keeps(hn::Load(bits32, words + i)), scale);
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
            require(a.first >= 0 && a.first % 4 == 0, "dropout: first must be a multiple of 4, got {}", a.first);
            require(a.p >= 0 && a.p < 1, "dropout: p must be at least 0 and less than 1, got {}", a.p);
            HWY_DYNAMIC_DISPATCH(drop)(a);
          },
          no_workspace<Dropout>};
}

}  // namespace ravine
#endif
