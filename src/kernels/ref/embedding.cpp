#include <algorithm>
#include <numeric>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

void check_ids(const char* op, const TensorView& ids, int64_t vocabulary) {
  for (int64_t n = 0; n < ids.count(); ++n) {
    int32_t id = ids.as<int32_t>()[n];
    require(id >= 0 && id < vocabulary, "{}: ids must be in [0, {}), got {} at {}", op, vocabulary, id, n);
  }
}

// out[n] = scale weight[ids[n] - first], 0 if weight has no such row
void forward(const EmbeddingForward& a, void*) {
  int64_t n = a.out.rows(), c = a.out.cols();
  check_integers(a.name, "ids", a.ids, DType::i32, n);
  check(a.name, "weight", a.weight, a.weight.rows(), c);
  check(a.name, "out", a.out, n, c);
  check_ids(a.name, a.ids, a.whole > 0 ? a.whole : a.weight.rows());
  each_row(n, c, [&](int64_t i) {
    int64_t at = a.ids.as<int32_t>()[i] - a.first;
    std::vector<double> row(c);
    if (at >= 0 && at < a.weight.rows()) row = load_row(a.weight, at);
    for (double& x : row) x *= a.scale;
    store_row(row, a.out, i);
  });
}

// dweight[id - first] (+)= scale times the sum of dout[n] over the n with ids[n] = id
void backward(const EmbeddingBackward& a, void*) {
  int64_t n = a.dout.rows(), c = a.dout.cols(), vocabulary = a.dweight.rows();
  check_integers(a.name, "ids", a.ids, DType::i32, n);
  check(a.name, "dout", a.dout, n, c);
  check(a.name, "dweight", a.dweight, vocabulary, c);
  check_ids(a.name, a.ids, a.whole > 0 ? a.whole : vocabulary);
  const int32_t* ids = a.ids.as<int32_t>();
  std::vector<int64_t> order(n);  // tokens sorted by id, in their order
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return ids[x] < ids[y]; });
  each_row(vocabulary, c, [&](int64_t at) {
    const int64_t id = a.first + at;
    auto begin = std::lower_bound(order.begin(), order.end(), id, [&](int64_t x, int64_t v) { return ids[x] < v; });
    if (a.accumulate && (begin == order.end() || ids[*begin] != id)) return;
    std::vector<double> sum(c), old(c);
    if (a.accumulate) old = load_row(a.dweight, at);
    for (auto it = begin; it != order.end() && ids[*it] == id && id != a.padding_id; ++it) {
      std::vector<double> d = load_row(a.dout, *it);
      for (int64_t j = 0; j < c; ++j) sum[j] += a.scale * d[j];
    }
    for (int64_t j = 0; j < c; ++j) sum[j] += old[j];
    store_row(sum, a.dweight, at);
  });
}

}  // namespace

template <>
Kernel<EmbeddingForward> kernel_of() {
  return entry<EmbeddingForward>(forward);
}
template <>
Kernel<EmbeddingBackward> kernel_of() {
  return entry<EmbeddingBackward>(backward);
}

}  // namespace ravine::ref
