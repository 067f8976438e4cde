#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// result += sum x^2: partial sums over runs of 1024 elements, joined exactly.
void run(const SumSquares& a, void*) {
  int64_t n = a.x.count();
  require(a.result != nullptr, "sum_squares: result must be there, got null");
  check_vector(a.name, "x", a.x, n);
  constexpr int64_t kRun = 1024;
  TensorView flat = view_of(a.x.data, a.x.dtype, {n});
  std::vector<double> partial(ceil_div(n, kRun));
  each_row(ceil_div(n, kRun), kRun, [&](int64_t i) {
    std::vector<double> x(std::min(kRun, n - i * kRun));
    load(flat, 0, i * kRun, static_cast<int64_t>(x.size()), x.data());
    for (double v : x) partial[i] += v * v;
  });
  for (double p : partial) a.result->add(p);
}

}  // namespace

template <>
Kernel<SumSquares> kernel_of() {
  return entry<SumSquares>(run);
}

}  // namespace ravine::ref
