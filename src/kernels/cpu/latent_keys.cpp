#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/latent_keys.cpp"
#include "kernels/cpu/targets.h"
// (targets.h comes first.)
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ravine {
namespace HWY_NAMESPACE {

// drope: for each row the sum over heads of columns [plain, plain + rotated) of dkeys.
template <class X>
void sum_of_heads(const LatentKeysBackward& a, int64_t row) {
  const int64_t rotated = a.drope.cols(), size = a.dkeys.cols() / a.heads, plain = size - rotated;
  const Row<X> to(a.drope, row), keys(a.dkeys, row, plain);
  each_vector(rotated, [&](int64_t i, auto part) RAVINE_LANES {
    Lanes sum = zero();
    for (int64_t h = 0; h < a.heads; ++h) sum = hn::Add(sum, keys.load(h * size + i, part));
    to.store(sum, i, part);
  });
}

void sum_heads(const LatentKeysBackward& a, int64_t row) {
  if (a.drope.dtype == DType::f32) return sum_of_heads<float>(a, row);
  if (a.drope.dtype == DType::bf16) return sum_of_heads<bf16>(a, row);
  sum_of_heads<f16>(a, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace ravine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ravine {
HWY_EXPORT(sum_heads);

namespace {

struct LatentSizes {
  int64_t plain, rotated, values;  // channels of a head: unrotated key, shared key, value

  LatentSizes(const char* op, const TensorView& kv, const TensorView& rope, const TensorView& keys, const TensorView& of_values,
              int64_t heads) {
    require(heads > 0 && of_values.cols() % heads == 0 && keys.cols() % heads == 0,
            "{}: keys and values must be whole heads, got {} and {} columns for {}", op, keys.cols(), of_values.cols(), heads);
    rotated = rope.cols(), values = of_values.cols() / heads, plain = keys.cols() / heads - rotated;
    require(plain >= 0, "{}: keys of {} columns have no room for the {} of rope", op, keys.cols() / heads, rotated);
    check_rows(op, kv.rows(), heads * (plain + values), {{"kv", &kv}});
    check_rows(op, kv.rows(), rotated, {{"rope", &rope}});
    check_rows(op, kv.rows(), keys.cols(), {{"keys", &keys}});
    check_rows(op, kv.rows(), of_values.cols(), {{"values", &of_values}});
    require(all_are(kv.dtype, {&rope, &keys, &of_values}), "{}: kv, rope, keys and values have one type", op);
  }
};

std::byte* element(const TensorView& v, int64_t row, int64_t col) {
  return static_cast<std::byte*>(v.data) + (row * v.stride + col) * size_of(v.dtype);
}

void copy_run(const TensorView& from, int64_t from_col, const TensorView& to, int64_t to_col, int64_t row, int64_t n) {
  if (n > 0) std::memcpy(element(to, row, to_col), element(from, row, from_col), static_cast<size_t>(n * size_of(to.dtype)));
}

void run_forward(const LatentKeysForward& a, void*) {
  const LatentSizes s(a.name, a.kv, a.rope, a.keys, a.values, a.heads);
  for_rows(a.kv.rows(), a.keys.cols() + a.values.cols(), [&](int64_t r) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t from = h * (s.plain + s.values), key = h * (s.plain + s.rotated);
      copy_run(a.kv, from, a.keys, key, r, s.plain);
      copy_run(a.rope, 0, a.keys, key + s.plain, r, s.rotated);
      copy_run(a.kv, from + s.plain, a.values, h * s.values, r, s.values);
    }
  });
}

void run_backward(const LatentKeysBackward& a, void*) {
  const LatentSizes s(a.name, a.dkv, a.drope, a.dkeys, a.dvalues, a.heads);
  for_rows(a.dkv.rows(), a.dkeys.cols() + a.dvalues.cols(), [&](int64_t r) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t to = h * (s.plain + s.values);
      copy_run(a.dkeys, h * (s.plain + s.rotated), a.dkv, to, r, s.plain);
      copy_run(a.dvalues, h * s.values, a.dkv, to + s.plain, r, s.values);
    }
    HWY_DYNAMIC_DISPATCH(sum_heads)(a, r);
  });
}

}  // namespace

template <>
Kernel<LatentKeysForward> cpu_kernel() {
  return {run_forward, no_workspace<LatentKeysForward>};
}

template <>
Kernel<LatentKeysBackward> cpu_kernel() {
  return {run_backward, no_workspace<LatentKeysBackward>};
}

}  // namespace ravine
#endif
