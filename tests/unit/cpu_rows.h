// Helpers for tests of the row kernels: matrices with gaps between rows, error bounds, a loop over instruction sets.
#pragma once
#include "kernels/cpu/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"
#include "hwy/targets.h"
#include "kernels/cpu/spans.h"

namespace ravine {

inline constexpr double kF32 = 0x1p-23;
inline const DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

// A matrix whose rows lie `gap` elements apart; what lies between them must never change.
struct RowBuffer {
  DType type;
  int64_t rows, cols, stride;
  std::vector<char> bytes;
  RowBuffer(DType t, int64_t r, int64_t c, uint32_t seed = 0, int64_t gap = 3, double scale = 2)
      : type(t), rows(r), cols(c), stride(c + gap), bytes((r * (c + gap) + gap) * size_of(t), char(0x5a)) {
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < c; ++j) {
        auto w = philox(seed, {static_cast<uint32_t>(i), static_cast<uint32_t>(j), 0, 0});
        set(i, j, seed ? scale * (2.0 * uniform24(w[0]) - 1) : 0);
      }
  }
  char* at(int64_t i, int64_t j) { return bytes.data() + (i * stride + j) * size_of(type); }
  double get(int64_t i, int64_t j) {
    if (type == DType::i32) return *reinterpret_cast<int32_t*>(at(i, j));
    if (type == DType::i64) return static_cast<double>(*reinterpret_cast<int64_t*>(at(i, j)));
    return visit_float(type, [&](auto z) -> double {
      if constexpr (sizeof(z) == 8)
        return *reinterpret_cast<double*>(at(i, j));
      else
        return static_cast<float>(*reinterpret_cast<decltype(z)*>(at(i, j)));
    });
  }
  void set(int64_t i, int64_t j, double v) {
    if (type == DType::i32) {
      *reinterpret_cast<int32_t*>(at(i, j)) = static_cast<int32_t>(v);
      return;
    }
    if (type == DType::i64) {
      *reinterpret_cast<int64_t*>(at(i, j)) = static_cast<int64_t>(v);
      return;
    }
    visit_float(type, [&](auto z) {
      if constexpr (sizeof(z) == 8)
        *reinterpret_cast<double*>(at(i, j)) = v;
      else
        *reinterpret_cast<decltype(z)*>(at(i, j)) = decltype(z)(static_cast<float>(v));
    });
  }
  TensorView view() { return {bytes.data(), type, DeviceKind::cpu, {rows, cols}, stride}; }
  bool gaps_untouched() {
    for (int64_t i = 0; i < rows; ++i)
      for (char* p = at(i, cols); p < at(i + 1, 0); ++p)
        if (*p != 0x5a) return false;
    return bytes.back() == 0x5a || stride == cols;
  }
};

inline RowBuffer vector_of(DType t, int64_t n, uint32_t seed = 0, double scale = 2) {
  RowBuffer b(t, 1, n, seed, 0, scale);
  return b;
}
inline TensorView flat(RowBuffer& b) { return view_of(b.bytes.data(), b.type, {b.rows * b.cols}); }

// Half a unit of the stored type, and `steps` roundings in f32 of terms that add up to `size`.
inline double bound(DType t, double want, double size, double steps) {
  double tiny = t == DType::f16 ? 0x1p-24 : 0x1p-133;
  return 0.5 * epsilon(t) * std::abs(want) * (1 + epsilon(t)) + tiny + steps * kF32 * size;
}

template <class Args>
void run(const Args& args) {
  const Kernel<Args> kernel = cpu_kernel<Args>();
  std::vector<char> workspace(kernel.workspace(args, thread_count()) + 64);
  void* p = workspace.data();
  size_t room = workspace.size();
  kernel.run(args, std::align(64, room - 64, p, room));
}

// Calls f once for each instruction set of this machine that the kernels are compiled for.
template <class F>
void each_target(F f) {
  for (int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SCALAR}) {
    hwy::SetSupportedTargetsForTest(0);
    if (target != HWY_SCALAR && !(hwy::SupportedTargets() & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

struct Size {
  int64_t rows, cols;
};
inline const Size kSizes[] = {{1, 1}, {3, 7}, {2, 16}, {5, 33}, {70, 101}, {3, 16390}};

#define NEAR_ALL(got, i, j, want, size, steps)                                                                    \
  do ASSERT_NEAR((got).get(i, j), want, bound((got).type, want, size, steps)) << "row " << (i) << " col " << (j); \
  while (false)

}  // namespace ravine
