// Matrix products in blocks (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008). Tiles of the
// output are computed in parallel, each by one thread. An operand in another layout than a strip needs is packed
// (16-bit types are also widened or paired). The first thread that needs a piece packs it, so the piece is in a cache
// when it is used. While a strip is computed, the operands of the next strips are prefetched. Blocks, tiles and the
// order of sums depend on the shape only. A right operand in blocks of 4 bits differs only in how its panels are
// packed.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/cpu/bf16_dot.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/first_use.h"
#include "kernels/cpu/nf4.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/skinny.h"
#include "kernels/cpu/strip.h"

namespace ravine {
namespace {

constexpr int64_t kGroup = 1024;       // of K: summed in one chain, then added to the output; also the tokens per chunk
constexpr int64_t kDeep = 8 * kGroup;  // of K per round, if the output can hold partial sums
constexpr int64_t kWideTile = 256, kTile = 128;  // columns of a tile; a tile has kStripRows rows
constexpr int64_t kManyTiles = 64;               // from this many tiles on, tiles are wide
constexpr int64_t kPacked = int64_t{4} << 20;    // elements of an operand per round that the plan aims at

struct Plan {
  int64_t m = 0, n = 0, k = 0;
  bool skinny = false, pairs = false, pack_a = false;
  int64_t depth = 0, rows = 0, cols = 0, tile_cols = 0;  // of a round and its tiles
  int64_t groups() const { return ceil_div(depth, kGroup); }
  int64_t steps(int64_t elements) const { return pairs ? ceil_div(elements, 2) : elements; }
};

// A product, and its right operand if that is in blocks. Then x.b has its shape and the type to which its values are
// rounded, but no data.
struct Product {
  Matmul x;
  const Nf4View* blocks = nullptr;
};

Plan plan_of(const Product& product, Bf16Products products) {
  const Matmul& x = product.x;
  Plan p{.m = x.m(), .n = x.n(), .k = x.k()};
  p.skinny = !product.blocks && p.m <= kSkinnyRows && x.trans_b && !x.trans_a && !(x.tokens_reduced && p.k > kGroup);
  p.pairs = products == Bf16Products::dot && x.a.dtype == DType::bf16;
  p.pack_a = x.trans_a || (p.pairs ? p.k % 2 || x.a.stride % 2 : x.a.dtype != DType::f32);
  p.depth = x.out.dtype == DType::f32 ? std::min(p.k, kDeep) : p.k;
  p.tile_cols = ceil_div(p.m, kStripRows) * ceil_div(p.n, kWideTile) < kManyTiles ? kTile : kWideTile;
  auto fit = [&](int64_t size, int64_t unit) {
    const int64_t most = kPacked / std::max<int64_t>(p.depth, 1) / unit * unit;
    return std::min(round_up(size, unit), std::max(most, unit));
  };
  p.rows = p.pack_a ? fit(p.m, kStripRows) : round_up(p.m, kStripRows), p.cols = fit(p.n, p.tile_cols);
  return p;
}

// Floats between rows of a packed block of a: never a multiple of the distance that aliases in cache.
int64_t a_pitch(const Plan& p) { return round_up(p.steps(std::min(p.k, kGroup)), 16) + 16; }
int64_t a_piece(const Plan& p) { return kStripRows * a_pitch(p); }
int64_t b_piece(const Plan& p) { return kStripCols * p.steps(std::min(p.k, kGroup)); }

struct Memory {
  float *bias = nullptr, *wide_a = nullptr, *a = nullptr, *b = nullptr, *threads = nullptr;
  void* states = nullptr;
  int64_t pieces_a = 0, pieces_b = 0, per_thread = 0, bytes = 0;
};

constexpr int64_t kStrip = kStripRows * kStripCols, kPerThread = kStrip + kStripRows * kWideTile;  // floats
// Part of K that is decoded at a time, for the columns of a panel; even, for pairs.
constexpr int64_t kDecoded = 128;

Memory lay_out(const Product& product, const Plan& p, void* workspace, int threads) {
  const Matmul& x = product.x;
  Memory m;
  Scratch s(workspace);
  if (!x.bias.absent()) m.bias = s.floats(p.n);
  // Taken for any shape, so that more tokens never need less memory.
  m.wide_a = s.floats(std::min(p.m, kSkinnyRows) * skinny_pitch(p.k));
  m.pieces_a = p.pack_a ? p.rows / kStripRows * p.groups() : 0;
  m.pieces_b = p.cols / kStripCols * p.groups();
  m.a = s.floats(m.pieces_a * a_piece(p));
  m.b = s.floats(m.pieces_b * b_piece(p));
  m.states = s.floats(ceil_div(FirstUse::bytes(m.pieces_a + m.pieces_b), 4));
  m.per_thread = kPerThread + (product.blocks ? kStripCols * kDecoded : 0);
  m.threads = s.floats(threads * m.per_thread);
  m.bytes = s.bytes();
  return m;
}

// One round: rows [m0, m1), columns [n0, n1) of the output, [k0, k1) of the sum.
struct Round {
  int64_t m0, m1, n0, n1, k0, k1;
  int64_t rows() const { return m1 - m0; }
  int64_t cols() const { return n1 - n0; }
};

// The state of a round: tiles of the output, and the packed pieces of operands that they share.
class Tiles {
 public:
  Tiles(const Product& product, const Plan& p, const Round& r, const Memory& mem, const FirstUse& a, const FirstUse& b)
      : x_(product.x), blocks_(product.blocks), p_(p), r_(r), mem_(mem), a_(a), b_(b), groups_(ceil_div(r.k1 - r.k0, kGroup)) {}

  // Computes rows [m, m + height), columns [n, n + width) of the round. The sum of a group is complete before it is
  // added to the output.
  void compute(int64_t m, int64_t height, int64_t n, int64_t width, float* memory) const {
    const Corner out(x_.out, r_.m0 + m, r_.n0 + n);
    const bool f32 = out.dtype == DType::f32, first = r_.k0 == 0;
    const float* bias = first && mem_.bias ? mem_.bias + r_.n0 + n : nullptr;
    Corner sums = out;  // where the groups are summed
    if (!f32) sums.data = memory + kStrip, sums.stride = kWideTile, sums.dtype = DType::f32;
    const int64_t panels = ceil_div(width, kStripCols);
    for (int64_t g = 0; g < groups_; ++g) {
      const bool add = g > 0 || (f32 && (x_.accumulate || !first));
      for (int64_t q = 0; q < panels; ++q) {
        // Neighbouring tiles begin at different panels, so most panels are packed when a thread needs them.
        const int64_t turn = m / kStripRows + q, j = turn % panels * kStripCols, next = (turn + 1) % panels * kStripCols;
        const int64_t cols = std::min(kStripCols, width - j);
        const bool direct = !add && cols % 16 == 0;
        const Corner to = sums.at(0, j);
        Strip s = strip(m, height, n + j, cols, g, memory + kPerThread);
        s.c = direct ? const_cast<float*>(to.f32()) : memory, s.ldc = direct ? to.stride : kStripCols;
        Fetch* fetch = s.fetch;
        if (f32) *fetch++ = rows_of(sums.at(0, next), height, std::min(kStripCols, width - next));
        fetch = fetch_a(m + thread_count() * kStripRows, q, panels, g, fetch);
        fetch_b(n + next, std::min(kStripCols, width - next), std::min(groups_ - 1, q + 1 < panels ? g : g + 1), fetch);
        p_.pairs ? strip_bf16(s) : strip_f32(s);
        const float* now = f32 && g == 0 && bias ? bias + j : nullptr;
        if (!direct || now) unpack(s.c, s.ldc, height, cols, now, add, to);
      }
    }
    if (!f32) unpack(sums.f32(), kWideTile, height, width, bias, x_.accumulate, out);
  }

 private:
  int64_t depth(int64_t g) const { return std::min(kGroup, r_.k1 - r_.k0 - g * kGroup); }
  int64_t a_number(int64_t m, int64_t g) const { return m / kStripRows * groups_ + g; }
  int64_t b_number(int64_t n, int64_t g) const { return n / kStripCols * groups_ + g; }
  float* a_at(int64_t m, int64_t g) const { return mem_.a + a_number(m, g) * a_piece(p_); }
  float* b_at(int64_t n, int64_t g) const { return mem_.b + b_number(n, g) * b_piece(p_); }
  // The unpacked operands: the block from row m on, the panel from column n on.
  Corner a_from(int64_t m, int64_t g) const {
    const int64_t k = r_.k0 + g * kGroup;
    return x_.trans_a ? Corner(x_.a, k, r_.m0 + m) : Corner(x_.a, r_.m0 + m, k);
  }
  Corner b_from(int64_t n, int64_t g) const {
    const int64_t k = r_.k0 + g * kGroup;
    return x_.trans_b ? Corner(x_.b, r_.n0 + n, k) : Corner(x_.b, k, r_.n0 + n);
  }

  void pack_a(int64_t m, int64_t height, int64_t g) const {
    const Corner from = a_from(m, g);
    const int64_t pitch = a_pitch(p_);
    if (x_.trans_a)
      return (p_.pairs ? pairs_of_rows_in_sixes : pack_sixes)(from, depth(g), height, a_at(m, g), kStripStep * pitch);
    (p_.pairs ? pairs_along_rows : pack_copy)(from, height, depth(g), a_at(m, g), pitch);
  }
  // Decodes and packs the columns of a panel, part of K at a time, in the layout of a plain operand.
  void pack_blocks(int64_t n, int64_t cols, int64_t g, float* decoded) const {
    for (int64_t k = 0; k < depth(g); k += kDecoded) {
      const int64_t count = std::min(kDecoded, depth(g) - k), at = r_.k0 + g * kGroup + k;
      const int64_t rows = x_.trans_b ? cols : count, width = x_.trans_b ? count : cols;
      if (x_.trans_b)
        decode_nf4(*blocks_, r_.n0 + n, rows, at, width, decoded, width);
      else
        decode_nf4(*blocks_, at, rows, r_.n0 + n, width, decoded, width);
      Corner from;
      from.data = decoded, from.stride = width;
      if (p_.pairs) {
        narrow_run(decoded, rows * width);
        from.dtype = DType::bf16;
      } else {
        round_run(decoded, rows * width, x_.b.dtype);
      }
      pack_panel(from, cols, count, b_at(n, g) + p_.steps(k) * kStripCols);
    }
  }
  void pack_panel(const Corner& from, int64_t cols, int64_t count, float* to) const {
    if (!x_.trans_b) return (p_.pairs ? pairs_of_rows : pack_copy)(from, count, cols, to, kStripCols);
    if (p_.pairs) return pairs_transposed(from, cols, count, to, kStripCols);
    pack_transposed(from, cols, count, to, kStripCols);
  }
  void pack_b(int64_t n, int64_t cols, int64_t g, float* decoded) const {
    if (blocks_) return pack_blocks(n, cols, g, decoded);
    pack_panel(b_from(n, g), cols, depth(g), b_at(n, g));
  }

  // Returns the strip of rows from m on, panel from n on, group g, with packed operands.
  Strip strip(int64_t m, int64_t height, int64_t n, int64_t cols, int64_t g, float* decoded) const {
    Strip s;
    s.rows = height, s.cols = cols, s.depth = p_.steps(depth(g));
    b_(b_number(n, g), [&] { pack_b(n, cols, g, decoded); });
    s.b = b_at(n, g);
    if (p_.pack_a) {
      a_(a_number(m, g), [&] { pack_a(m, height, g); });
      s.a = a_at(m, g), s.a_row = a_pitch(p_), s.a_sixes = x_.trans_a;
    } else {
      s.a = a_from(m, g).f32(), s.a_row = p_.pairs ? x_.a.stride / 2 : x_.a.stride;
    }
    return s;
  }

  static Fetch rows_of(const Corner& from, int64_t rows, int64_t cols) {
    const int64_t size = size_of(from.dtype);
    return {from.data, rows, cols * size, from.stride * size};
  }
  // Returns part q of `parts` of a run of floats, in whole lines.
  static Fetch part_of(const float* from, int64_t count, int64_t q, int64_t parts) {
    const int64_t begin = count * q / parts / 16 * 16;
    return {from + begin, 1, (count * (q + 1) / parts - begin) * 4, 0};
  }
  // Adds part q of `parts` of the rows of a that a later tile (from row m on) reads, and the memory they are packed to.
  Fetch* fetch_a(int64_t m, int64_t q, int64_t parts, int64_t g, Fetch* to) const {
    if (m >= r_.rows()) return to;
    if (p_.pack_a) *to++ = part_of(a_at(m, g), a_piece(p_), q, parts);
    if (p_.pack_a && a_.done(a_number(m, g))) return to;
    const int64_t height = std::min(kStripRows, r_.rows() - m), rows = x_.trans_a ? depth(g) : height;
    const int64_t begin = rows * q / parts, count = rows * (q + 1) / parts - begin;
    *to++ = rows_of(a_from(m, g).at(begin, 0), count, x_.trans_a ? height : depth(g));
    return to;
  }
  // Adds the memory of b that the next strip reads, packed or not.
  void fetch_b(int64_t n, int64_t cols, int64_t g, Fetch* to) const {
    const bool packed = b_.done(b_number(n, g));
    if (!packed && !blocks_) *to++ = x_.trans_b ? rows_of(b_from(n, g), cols, depth(g)) : rows_of(b_from(n, g), depth(g), cols);
    *to = part_of(b_at(n, g), p_.steps(depth(g)) * kStripCols, 0, 1);
  }

  const Matmul& x_;
  const Nf4View* blocks_;
  const Plan& p_;
  const Round& r_;
  const Memory& mem_;
  const FirstUse &a_, &b_;
  int64_t groups_;
};

void multiply(const Product& x, const Plan& p, const Memory& mem) {
  for (int64_t k0 = 0; k0 < p.k; k0 += p.depth) {
    for (int64_t n0 = 0; n0 < p.n; n0 += p.cols) {
      const FirstUse b(mem.states, mem.pieces_b);
      for (int64_t m0 = 0; m0 < p.m; m0 += p.rows) {
        const FirstUse a(static_cast<char*>(mem.states) + FirstUse::bytes(mem.pieces_b), mem.pieces_a);
        const Round r{m0, std::min(p.m, m0 + p.rows), n0, std::min(p.n, n0 + p.cols), k0, std::min(p.k, k0 + p.depth)};
        const Tiles tiles(x, p, r, mem, a, b);
        const int64_t tile_rows = ceil_div(r.rows(), kStripRows), tile_cols = ceil_div(r.cols(), p.tile_cols);
        parallel_for_threads(tile_rows * tile_cols, [&](int64_t t, int thread) {
          const int64_t m = t % tile_rows * kStripRows, n = t / tile_rows * p.tile_cols;
          tiles.compute(m, std::min(kStripRows, r.rows() - m), n, std::min(p.tile_cols, r.cols() - n),
                        mem.threads + thread * mem.per_thread);
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
  require(cpu_type(x.a.dtype) && (x.b.dtype == x.a.dtype || x.b.dtype == DType::bf16) &&
              (x.out.dtype == x.a.dtype || x.out.dtype == DType::f32),
          "matmul: a has a type of f32, bf16, f16, b has it or bf16, and out has it or f32, got {}, {} and {}", name(x.a.dtype),
          name(x.b.dtype), name(x.out.dtype));
  require(x.bias.absent() || (x.bias.count() == n && cpu_type(x.bias.dtype)),
          "matmul: bias has one f32, bf16 or f16 per column of out, got {} {} for {}", x.bias.count(), name(x.bias.dtype), n);
}

Product product_of(const Matmul& x) { return {x}; }
Product product_of(const Nf4Matmul& x) {
  const Matmul plain{.a = x.a,
                     .b = view_of(nullptr, x.a.dtype, {x.w.rows, x.w.cols}),
                     .bias = x.bias,
                     .out = x.out,
                     .trans_b = x.trans_w,
                     .accumulate = x.accumulate};
  return {plain, &x.w};
}

template <Bf16Products kProducts, class Args>
void run(const Args& args, void* workspace) {
  const Product product = product_of(args);
  const Matmul& x = product.x;
  check(x);
  const Plan p = plan_of(product, kProducts);
  if (p.m == 0 || p.n == 0) return;
  const Memory mem = lay_out(product, p, workspace, thread_count());
  if (mem.bias) pack_copy(x.bias, 1, p.n, mem.bias, p.n);
  if (p.k == 0) {
    std::fill(mem.threads, mem.threads + kWideTile, 0.0f);
    for (int64_t n = 0; n < p.n; n += kWideTile)
      unpack(mem.threads, 0, p.m, std::min(kWideTile, p.n - n), mem.bias ? mem.bias + n : nullptr, x.accumulate,
             Corner(x.out, 0, n));
    return;
  }
  if (p.skinny) return skinny_product(x, mem.bias, mem.wide_a);
  multiply(product, p, mem);
}

template <Bf16Products kProducts, class Args>
int64_t workspace(const Args& args, int threads) {
  const Product product = product_of(args);
  return lay_out(product, plan_of(product, kProducts), nullptr, threads).bytes;
}

template <class Args>
Kernel<Args> by_products(Bf16Products products) {
  if (products == Bf16Products::widen) return {run<Bf16Products::widen, Args>, workspace<Bf16Products::widen, Args>};
  require(has_bf16_dot(), "matmul: this machine has no bf16 dot product");
  return {run<Bf16Products::dot, Args>, workspace<Bf16Products::dot, Args>};
}

}  // namespace

Kernel<Matmul> cpu_matmul(Bf16Products products) { return by_products<Matmul>(products); }
Kernel<Nf4Matmul> cpu_nf4_matmul(Bf16Products products) { return by_products<Nf4Matmul>(products); }

}  // namespace ravine
