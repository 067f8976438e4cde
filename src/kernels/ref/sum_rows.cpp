#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// out[c] (+)= sum_n x[n,c]
void run(const SumRows& a, void*) {
  int64_t n = a.x.rows(), c = a.x.cols();
  check(a.name, "x", a.x, n, c);
  check_vector(a.name, "out", a.out, c);
  constexpr int64_t kColumns = 64;
  parallel_for(ceil_div(c, kColumns), [&](int64_t b) {
    int64_t from = b * kColumns, wide = std::min(kColumns, c - from);
    std::vector<double> sum(wide), row(wide), old(wide);
    for (int64_t i = 0; i < n; ++i) {
      load(a.x, i, from, wide, row.data());
      for (int64_t j = 0; j < wide; ++j) sum[j] += row[j];
    }
    if (a.accumulate) load(a.out, 0, from, wide, old.data());
    for (int64_t j = 0; j < wide; ++j) sum[j] += old[j];
    store(sum.data(), a.out, 0, from, wide);
  });
}

}  // namespace

template <>
Kernel<SumRows> kernel_of() {
  return entry<SumRows>(run);
}

}  // namespace ravine::ref
