// Matrix products in blocks (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008): operands are packed
// once per block, in parallel, into panels that stream well (and widened if 16-bit); then tiles of the output are computed in
// parallel, each by one thread from start to end. Blocks, tiles and the order of sums depend on the shape only.
#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/skinny.h"
#include "kernels/cpu/tile.h"

namespace ravine {
namespace {

constexpr int64_t kGroup = 1024;                    // of K: summed in one chain, then added to the output; tokens per chunk
constexpr int64_t kRun = 384;                       // of K: what one kernel call takes, so that its panel of b stays in cache
constexpr int64_t kPanel = 64;                      // columns of b beside each other in a packed panel
constexpr int64_t kRows = 96;                       // rows of a per kernel call
constexpr int64_t kTileRows = 96, kTileCols = 256;  // of the output, in f32 in the second-level cache
constexpr int64_t kBlock = 2048;                    // rows and columns of the output per round of packing

struct Plan {
  int64_t m, n, k;
  bool skinny, pack_a, pack_b, wide_out;
};

Plan plan_of(const Matmul& x) {
  Plan p{x.m(), x.n(), x.k(), false, false, false, false};
  p.skinny = p.m <= kSkinnyRows && x.trans_b && !x.trans_a && !(x.tokens_reduced && p.k > kGroup);
  p.pack_a = x.trans_a || x.a.dtype != DType::f32;
  p.pack_b = x.trans_b || x.b.dtype != DType::f32 || p.m > kTileRows;
  p.wide_out = x.out.dtype != DType::f32 && p.k > kGroup;
  return p;
}

int64_t a_pitch(int64_t group) { return round_up(group, 16) + 16; }  // never a multiple of the distance that aliases in cache

struct Memory {
  float *bias = nullptr, *wide_a = nullptr, *a = nullptr, *b = nullptr, *out = nullptr, *tiles = nullptr;
  int64_t bytes = 0;
};

Memory lay_out(const Matmul& x, const Plan& p, void* workspace, int threads) {
  Memory m;
  Scratch s(workspace);
  const int64_t rows = std::min(p.m, kBlock), cols = std::min(p.n, kBlock), group = std::min(p.k, kGroup);
  if (!x.bias.absent()) m.bias = s.floats(p.n);
  // Taken for any shape, so that more tokens never need less.
  m.wide_a = s.floats(std::min(p.m, kSkinnyRows) * p.k);
  if (p.pack_a) m.a = s.floats(rows * a_pitch(group));
  m.b = s.floats(cols * group);
  if (p.wide_out) m.out = s.floats(rows * cols);
  m.tiles = s.floats(threads * kTileRows * kTileCols);
  m.bytes = s.bytes();
  return m;
}

// One round: rows [m0, m1), columns [n0, n1) of the output, [k0, k1) of the sum.
struct Round {
  int64_t m0, m1, n0, n1, k0, k1;
  int64_t rows() const { return m1 - m0; }
  int64_t cols() const { return n1 - n0; }
  int64_t depth() const { return k1 - k0; }
};

constexpr int64_t kPackedRows = 32;  // read one after another, so that memory is read in order

// Panels [depth][at most kPanel] of op(b), one after another.
void pack_b(const Matmul& x, const Round& r, float* to) {
  const int64_t panels = ceil_div(r.cols(), kPanel);
  auto pack = [&](int64_t panel, int64_t k, int64_t depth) {
    const int64_t n = r.n0 + panel * kPanel, width = std::min(kPanel, r.n1 - n);
    float* at = to + panel * kPanel * r.depth() + k * width;
    if (x.trans_b)
      pack_transposed(Corner(x.b, n, r.k0 + k), width, depth, at, width);
    else
      pack_copy(Corner(x.b, r.k0 + k, n), depth, width, at, width);
  };
  if (x.trans_b) return parallel_for(panels, [&](int64_t i) { pack(i, 0, r.depth()); });
  parallel_for(ceil_div(r.depth(), kPackedRows), [&](int64_t i) {
    const int64_t k = i * kPackedRows;
    for (int64_t panel = 0; panel < panels; ++panel) pack(panel, k, std::min(kPackedRows, r.depth() - k));
  });
}

// Blocks of at most kRows rows of op(a): [depth][rows] where a is transposed, else [rows][a_pitch].
void pack_a(const Matmul& x, const Round& r, float* to) {
  const int64_t blocks = ceil_div(r.rows(), kRows), pitch = a_pitch(r.depth());
  auto height = [&](int64_t block) { return std::min(kRows, r.rows() - block * kRows); };
  if (!x.trans_a)
    return parallel_for(blocks, [&](int64_t i) {
      pack_copy(Corner(x.a, r.m0 + i * kRows, r.k0), height(i), r.depth(), to + i * kRows * pitch, pitch);
    });
  parallel_for(ceil_div(r.depth(), kPackedRows), [&](int64_t j) {
    const int64_t k = j * kPackedRows, depth = std::min(kPackedRows, r.depth() - k);
    for (int64_t i = 0; i < blocks; ++i)
      pack_copy(Corner(x.a, r.k0 + k, r.m0 + i * kRows), depth, height(i), to + i * kRows * pitch + k * height(i), height(i));
  });
}

// A tile of the output: rows [m, m + height), columns [n, n + width).
struct Place {
  int64_t m, height, n, width;
};

// What round r gives for the tile, into rows `pitch` apart.
void compute_tile(const Matmul& x, const Plan& p, const Round& r, const Memory& mem, const Place& at, float* to,
                  int64_t pitch) {
  const int64_t runs = ceil_div(r.depth(), kRun), run = round_up(ceil_div(r.depth(), runs), 8);
  std::optional<TileKernel> kernel;
  for (int64_t k = 0; k < r.depth(); k += run) {
    const int64_t depth = std::min(run, r.depth() - k);
    for (int64_t i = 0; i < at.height; i += kRows) {
      const int64_t rows = std::min(kRows, at.height - i);
      const float* a = Corner(x.a, at.m + i, r.k0 + k).f32();
      int64_t lda = x.a.stride;
      if (p.pack_a) {
        lda = x.trans_a ? rows : a_pitch(r.depth());
        a = mem.a + (at.m - r.m0 + i) * a_pitch(r.depth()) + (x.trans_a ? k * rows : k);
      }
      for (int64_t j = 0; j < at.width; j += kPanel) {
        const int64_t columns = std::min(kPanel, at.width - j);
        const Tile t{rows, columns, depth, lda, p.pack_b ? columns : x.b.stride, pitch, x.trans_a, k > 0};
        if (!kernel || kernel->shape() != t) kernel.emplace(t);
        const float* b = p.pack_b ? mem.b + (at.n - r.n0 + j) * r.depth() + k * columns : Corner(x.b, r.k0 + k, at.n + j).f32();
        (*kernel)(a, b, to + i * pitch + j);
      }
    }
  }
}

// Computes the tile and puts it where it belongs: the product of a round is complete before anything is added to it.
void finish_tile(const Matmul& x, const Plan& p, const Round& r, const Memory& mem, const Place& at, float* tile) {
  const bool first = r.k0 == 0, last = r.k1 == p.k;
  const Corner out(x.out, at.m, at.n);
  const float* bias = mem.bias ? mem.bias + at.n : nullptr;
  if (x.out.dtype == DType::f32 && first && !x.accumulate) {
    float* direct = x.out.row<float>(at.m) + at.n;
    compute_tile(x, p, r, mem, at, direct, x.out.stride);
    if (bias) unpack(direct, x.out.stride, at.height, at.width, bias, false, out);
    return;
  }
  compute_tile(x, p, r, mem, at, tile, kTileCols);
  if (!p.wide_out) return unpack(tile, kTileCols, at.height, at.width, first ? bias : nullptr, x.accumulate || !first, out);
  const int64_t pitch = r.cols();
  float* sum = mem.out + (at.m - r.m0) * pitch + at.n - r.n0;
  Corner wide;
  wide.data = sum, wide.stride = pitch;
  unpack(tile, kTileCols, at.height, at.width, nullptr, !first, wide);
  if (last) unpack(sum, pitch, at.height, at.width, bias, x.accumulate, out);
}

void product(const Matmul& x, const Plan& p, const Memory& mem) {
  for (int64_t n0 = 0; n0 < p.n; n0 += kBlock) {
    for (int64_t m0 = 0; m0 < p.m; m0 += kBlock) {
      for (int64_t k0 = 0; k0 < p.k; k0 += kGroup) {
        const Round r{m0, std::min(p.m, m0 + kBlock), n0, std::min(p.n, n0 + kBlock), k0, std::min(p.k, k0 + kGroup)};
        if (p.pack_b && (m0 == 0 || p.k > kGroup)) pack_b(x, r, mem.b);
        if (p.pack_a) pack_a(x, r, mem.a);
        const int64_t tile_rows = ceil_div(r.rows(), kTileRows), tile_cols = ceil_div(r.cols(), kTileCols);
        parallel_for_threads(tile_rows * tile_cols, [&](int64_t t, int thread) {
          const int64_t i = t % tile_rows * kTileRows, j = t / tile_rows * kTileCols;
          finish_tile(x, p, r, mem, {r.m0 + i, std::min(kTileRows, r.rows() - i), r.n0 + j, std::min(kTileCols, r.cols() - j)},
                      mem.tiles + thread * kTileRows * kTileCols);
        });
      }
    }
  }
}

bool cpu_type(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

void check(const Matmul& x) {
  const int64_t k = x.k(), kb = x.trans_b ? x.b.cols() : x.b.rows(), m = x.trans_a ? x.a.cols() : x.a.rows();
  const int64_t n = x.trans_b ? x.b.rows() : x.b.cols();
  require(m == x.m() && n == x.n() && k == kb, "matmul: op(a) op(b) must fit out, got [{}, {}] [{}, {}] and [{}, {}]", m, k, kb,
          n, x.m(), x.n());
  require(cpu_type(x.a.dtype) && x.a.dtype == x.b.dtype && (x.out.dtype == x.a.dtype || x.out.dtype == DType::f32),
          "matmul: a and b have one type of f32, bf16, f16, and out has it or f32, got {}, {} and {}", name(x.a.dtype),
          name(x.b.dtype), name(x.out.dtype));
  require(x.bias.absent() || (x.bias.count() == n && cpu_type(x.bias.dtype)),
          "matmul: bias has one f32, bf16 or f16 per column of out, got {} {} for {}", x.bias.count(), name(x.bias.dtype), n);
}

void run(const Matmul& x, void* workspace) {
  check(x);
  const Plan p = plan_of(x);
  if (p.m == 0 || p.n == 0) return;
  const Memory mem = lay_out(x, p, workspace, thread_count());
  if (mem.bias) pack_copy(x.bias, 1, p.n, mem.bias, p.n);
  if (p.k == 0) {
    std::fill(mem.tiles, mem.tiles + kTileCols, 0.0f);
    for (int64_t n = 0; n < p.n; n += kTileCols)
      unpack(mem.tiles, 0, p.m, std::min(kTileCols, p.n - n), mem.bias ? mem.bias + n : nullptr, x.accumulate,
             Corner(x.out, 0, n));
    return;
  }
  if (p.skinny) return skinny_product(x, mem.bias, mem.wide_a);
  product(x, p, mem);
}

}  // namespace

Kernel<Matmul> matmul_entry() {
  return {run, [](const Matmul& x, int threads) { return lay_out(x, plan_of(x), nullptr, threads).bytes; }};
}

}  // namespace ravine
