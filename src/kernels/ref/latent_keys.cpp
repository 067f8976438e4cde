#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

struct LatentSizes {
  int64_t rows, heads, rotated, values, plain;  // plain: unrotated channels of a key

  LatentSizes(const char* op, const TensorView& kv, const TensorView& rope, const TensorView& keys, const TensorView& of_values,
              int64_t count)
      : rows(kv.rows()), heads(count), rotated(rope.cols()) {
    require(heads > 0 && of_values.cols() % heads == 0 && keys.cols() % heads == 0,
            "{}: keys and values must be whole heads, got {} and {} columns for {}", op, keys.cols(), of_values.cols(), heads);
    values = of_values.cols() / heads, plain = keys.cols() / heads - rotated;
    require(plain >= 0, "{}: keys of {} columns have no room for the {} of rope", op, keys.cols() / heads, rotated);
    check(op, "kv", kv, rows, heads * (plain + values));
    check(op, "rope", rope, rows, rotated);
    check(op, "keys", keys, rows, heads * (plain + rotated));
    check(op, "values", of_values, rows, heads * values);
  }
};

// keys[h] = (kv[h] up to its value, rope); values[h] = the rest of kv[h]
void forward(const LatentKeysForward& a, void*) {
  const LatentSizes s(a.name, a.kv, a.rope, a.keys, a.values, a.heads);
  each_row(s.rows, a.kv.cols(), [&](int64_t i) {
    const std::vector<double> kv = load_row(a.kv, i), rope = load_row(a.rope, i);
    for (int64_t h = 0; h < s.heads; ++h) {
      const double* from = &kv[h * (s.plain + s.values)];
      store(from, a.keys, i, h * (s.plain + s.rotated), s.plain);
      store(rope.data(), a.keys, i, h * (s.plain + s.rotated) + s.plain, s.rotated);
      store(from + s.plain, a.values, i, h * s.values, s.values);
    }
  });
}

void backward(const LatentKeysBackward& a, void*) {
  const LatentSizes s(a.name, a.dkv, a.drope, a.dkeys, a.dvalues, a.heads);
  each_row(s.rows, a.dkv.cols(), [&](int64_t i) {
    const std::vector<double> keys = load_row(a.dkeys, i), values = load_row(a.dvalues, i);
    std::vector<double> rope(s.rotated);
    for (int64_t h = 0; h < s.heads; ++h) {
      const double* from = &keys[h * (s.plain + s.rotated)];
      store(from, a.dkv, i, h * (s.plain + s.values), s.plain);
      store(&values[h * s.values], a.dkv, i, h * (s.plain + s.values) + s.plain, s.values);
      for (int64_t j = 0; j < s.rotated; ++j) rope[j] += from[s.plain + j];
    }
    store_row(rope, a.drope, i);
  });
}

}  // namespace

template <>
Kernel<LatentKeysForward> kernel_of() {
  return entry<LatentKeysForward>(forward);
}
template <>
Kernel<LatentKeysBackward> kernel_of() {
  return entry<LatentKeysBackward>(backward);
}

}  // namespace ravine::ref
