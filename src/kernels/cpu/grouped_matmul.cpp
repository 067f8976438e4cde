// Products of experts: the product of matmul.cpp for each expert with rows, one after another. Weight gradients take
// one product per 1024 rows. Tiles depend on the shape only, so bits do not depend on threads. Few rows use the path
// for few rows of matmul.cpp, so decoding reads the weight of each active expert once.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/rows.h"

namespace ravine {
namespace {

constexpr int64_t kChunk = 1024;  // rows that one product of a weight gradient sums

// Returns matrix `index` of a stack of matrices with `rows` rows.
TensorView stacked(const TensorView& v, int64_t index, int64_t rows) { return v.row_range(index * rows, rows); }

// Returns the product of an expert over its rows [begin, begin + count).
Matmul of_expert(const GroupedMatmul& g, int64_t expert, int64_t begin, int64_t count, bool first = true) {
  if (g.trans_a)
    return {.a = g.a.row_range(begin, count),
            .b = g.b.row_range(begin, count),
            .bias = {},
            .out = stacked(g.out, expert, g.a.cols()),
            .trans_a = true,
            .accumulate = g.accumulate || !first,
            .tokens_reduced = true};
  return {.a = g.a.row_range(begin, count),
          .b = stacked(g.b, expert, g.trans_b ? g.out.cols() : g.a.cols()),
          .bias = {},
          .out = g.out.row_range(begin, count),
          .trans_b = g.trans_b,
          .accumulate = g.accumulate};
}

void zero_rows(const TensorView& out, int64_t begin, int64_t end) {
  for_rows(end - begin, out.cols(), [&](int64_t r) {
    std::memset(out.as<char>() + (begin + r) * out.stride * size_of(out.dtype), 0,
                static_cast<size_t>(out.cols() * size_of(out.dtype)));
  });
}

void check_stack(const GroupedMatmul& g) {
  const int64_t experts = g.experts(), height = g.trans_a ? g.a.cols() : g.trans_b ? g.out.cols() : g.a.cols();
  check_vector(g.name, "offsets", g.offsets, DType::i32, experts + 1);
  const TensorView& stack = g.trans_a ? g.out : g.b;
  require(stack.rows() == experts * height, "{}: {} experts of {} rows, got {}", g.name, experts, height, stack.shape.text());
  require(g.trans_a ? g.b.rows() == g.a.rows() : g.out.rows() == g.a.rows(), "{}: a has {} rows, {} {}", g.name, g.a.rows(),
          g.trans_a ? "b" : "out", g.trans_a ? g.b.rows() : g.out.rows());
}

template <Bf16Products kProducts>
void run_grouped(const GroupedMatmul& g, void* workspace) {
  static const Kernel<Matmul> product = cpu_matmul(kProducts);
  check_stack(g);
  const auto* offsets = g.offsets.as<int32_t>();
  const int64_t experts = g.experts(), used = offsets[experts];
  require(used <= g.a.rows(), "{}: experts have {} rows of {}", g.name, used, g.a.rows());
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t begin = offsets[e], count = offsets[e + 1] - begin, step = g.trans_a ? kChunk : count;
    for (int64_t done = 0; done < count; done += step)
      product.run(of_expert(g, e, begin + done, std::min(step, count - done), done == 0), workspace);
    if (count == 0 && g.trans_a && !g.accumulate) zero_rows(g.out, e * g.a.cols(), (e + 1) * g.a.cols());
  }
  if (!g.trans_a && !g.accumulate) zero_rows(g.out, used, g.out.rows());
}

// Returns the largest workspace over all counts of rows. Fewer rows can need more, since a product then packs more of
// the other dim. The size is constant between two multiples of 96 rows of a. In a weight gradient, 16 neighbouring
// counts pack the same of a; the first of them packs the most columns of b, and the others take up to 15 more elements
// per column.
template <Bf16Products kProducts>
int64_t grouped_workspace(const GroupedMatmul& g, int threads) {
  static const Kernel<Matmul> product = cpu_matmul(kProducts);
  const int64_t rows = std::max(g.a.rows(), g.most_rows), most = g.trans_a ? std::min(rows, kChunk) : rows;
  int64_t bytes = 0;
  auto grow = [&](int64_t count) { bytes = std::max(bytes, product.workspace(of_expert(g, 0, 0, count), threads)); };
  grow(most);
  for (int64_t i = 1; i <= 64; ++i)
    if (const int64_t count = g.trans_a ? 16 * i - 15 : 96 * i; count < most) grow(count);
  return bytes + (g.trans_a ? 15 * 4 * round_up(g.out.cols(), 256) : 0);
}

}  // namespace

Kernel<GroupedMatmul> cpu_grouped_matmul(Bf16Products products) {
  if (products == Bf16Products::widen) return {run_grouped<Bf16Products::widen>, grouped_workspace<Bf16Products::widen>};
  return {run_grouped<Bf16Products::dot>, grouped_workspace<Bf16Products::dot>};
}

}  // namespace ravine
