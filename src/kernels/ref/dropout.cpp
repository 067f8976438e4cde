#include "base/philox.h"
#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

// out = x keep / (1 - p), keep = (uniform >= p); linear, so backward is the same call.
void run(const Dropout& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check(a.name, "x", a.x, n, c);
  check(a.name, "out", a.out, n, c);
  check_integers(a.name, "positions", a.positions, DType::i32, n);
  check_integers(a.name, "sequences", a.sequences, DType::i64, n);
  require(a.first >= 0 && a.first % 4 == 0, "dropout: first must be a multiple of 4, got {}", a.first);
  require(a.p >= 0 && a.p < 1, "dropout: p must be in [0, 1), got {}", a.p);
  each_row(n, c, [&](int64_t i) {
    std::vector<double> x = load_row(a.x, i);
    auto position = static_cast<uint32_t>(a.positions.as<int32_t>()[i]);
    auto sequence = static_cast<uint32_t>(a.sequences.as<int64_t>()[i]);
    for (int64_t j = 0; j < c; j += 4) {
      auto words = philox(a.key, {static_cast<uint32_t>((a.first + j) / 4), position, sequence, a.step});
      for (int64_t w = 0; w < 4 && j + w < c; ++w) x[j + w] = uniform24(words[w]) >= a.p ? x[j + w] / (1 - a.p) : 0;
    }
    store_row(x, a.out, i);
  });
}

}  // namespace

template <>
Kernel<Dropout> kernel_of() {
  return entry<Dropout>(run);
}

}  // namespace ravine::ref
