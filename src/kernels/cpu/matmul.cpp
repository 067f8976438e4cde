// Matrix products in blocks (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008): operands are packed
// once per block, in parallel, into panels that stream well (and widened if 16-bit); then tiles of the output are computed in
// parallel, each by one thread from start to end. Blocks, tiles and the order of sums depend on the shape only.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/skinny.h"
#include "kernels/cpu/tile.h"

namespace ravine {
namespace {

constexpr int64_t kGroup = 1024;                     // of K: summed in one chain, then added to the output; tokens per chunk
constexpr int64_t kRun = 384;                        // of K: what one kernel call takes, so that its panel of b stays in cache
constexpr int64_t kPanel = 32;                       // columns of b beside each other in a packed panel
constexpr int64_t kRows = 96;                        // rows of a per kernel call
constexpr int64_t kTileRows = 192, kTileCols = 256;  // of the output, in f32 in the second-level cache
constexpr int64_t kBlock = 2048;                     // rows and columns of the output per round of packing

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

// Panels [depth][at most kPanel] of op(b), one after another.
void pack_b(const Matmul& x, const Round& r, float* to) {
  parallel_for(ceil_div(r.cols(), kPanel), [&](int64_t i) {
    const int64_t n = r.n0 + i * kPanel, width = std::min(kPanel, r.n1 - n);
    float* panel = to + i * kPanel * r.depth();
    if (x.trans_b)
      pack_transposed(Corner(x.b, n, r.k0), width, r.depth(), panel, width);
    else
      pack_copy(Corner(x.b, r.k0, n), r.depth(), width, panel, width);
  });
}

// Blocks of at most kRows rows of op(a): [depth][rows] where a is transposed, else [rows][a_pitch].
void pack_a(const Matmul& x, const Round& r, float* to) {
  parallel_for(ceil_div(r.rows(), kRows), [&](int64_t i) {
    const int64_t m = r.m0 + i * kRows, height = std::min(kRows, r.m1 - m);
    float* block = to + i * kRows * a_pitch(r.depth());
    if (x.trans_a)
      pack_copy(Corner(x.a, r.k0, m), r.depth(), height, block, height);
    else
      pack_copy(Corner(x.a, m, r.k0), height, r.depth(), block, a_pitch(r.depth()));
  });
}

// The tile of the output at rows [m, m + height), columns [n, n + width) into `tile`, rows kTileCols apart.
void compute_tile(const Matmul& x, const Plan& p, const Round& r, const Memory& mem, int64_t m, int64_t height, int64_t n,
                  int64_t width, float* tile) {
  const int64_t runs = ceil_div(r.depth(), kRun), run = round_up(ceil_div(r.depth(), runs), 8);
  for (int64_t k = 0; k < r.depth(); k += run) {
    const int64_t depth = std::min(run, r.depth() - k);
    for (int64_t j = 0; j < width; j += kPanel) {
      const int64_t columns = std::min(kPanel, width - j);
      const float* b = p.pack_b ? mem.b + (n - r.n0 + j) * r.depth() + k * columns : Corner(x.b, r.k0 + k, n + j).f32();
      for (int64_t i = 0; i < height; i += kRows) {
        const int64_t rows = std::min(kRows, height - i);
        Tile t{rows, columns, depth, 0, p.pack_b ? columns : x.b.stride, kTileCols, x.trans_a, k > 0};
        const float* a;
        if (p.pack_a) {
          a = mem.a + (m - r.m0 + i) * a_pitch(r.depth());
          t.lda = x.trans_a ? rows : a_pitch(r.depth());
          a += x.trans_a ? k * rows : k;
        } else {
          a = Corner(x.a, m + i, r.k0 + k).f32();
          t.lda = x.a.stride;
        }
        tile_product(t, a, b, tile + i * kTileCols + j);
      }
    }
  }
}

void product(const Matmul& x, const Plan& p, const Memory& mem) {
  for (int64_t n0 = 0; n0 < p.n; n0 += kBlock) {
    for (int64_t m0 = 0; m0 < p.m; m0 += kBlock) {
      for (int64_t k0 = 0; k0 < p.k; k0 += kGroup) {
        const Round r{m0, std::min(p.m, m0 + kBlock), n0, std::min(p.n, n0 + kBlock), k0, std::min(p.k, k0 + kGroup)};
        const bool first = k0 == 0, last = r.k1 == p.k;
        if (p.pack_b && (m0 == 0 || p.k > kGroup)) pack_b(x, r, mem.b);
        if (p.pack_a) pack_a(x, r, mem.a);
        const int64_t tile_rows = ceil_div(r.rows(), kTileRows), tile_cols = ceil_div(r.cols(), kTileCols);
        parallel_for_threads(tile_rows * tile_cols, [&](int64_t t, int thread) {
          const int64_t i = t % tile_rows * kTileRows, j = t / tile_rows * kTileCols;
          const int64_t height = std::min(kTileRows, r.rows() - i), width = std::min(kTileCols, r.cols() - j);
          float* tile = mem.tiles + thread * kTileRows * kTileCols;
          compute_tile(x, p, r, mem, r.m0 + i, height, r.n0 + j, width, tile);
          Corner out(x.out, r.m0 + i, r.n0 + j);
          const float* bias = mem.bias ? mem.bias + r.n0 + j : nullptr;
          if (!p.wide_out) {
            unpack(tile, kTileCols, height, width, first ? bias : nullptr, x.accumulate || !first, out);
            return;
          }
          const int64_t pitch = r.cols();
          float* sum = mem.out + i * pitch + j;
          Corner wide;
          wide.data = sum, wide.stride = pitch;
          unpack(tile, kTileCols, height, width, nullptr, !first, wide);
          if (last) unpack(sum, pitch, height, width, bias, x.accumulate, out);
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
