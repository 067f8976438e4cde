// Output product and cross-entropy in chunks of tokens. Logits are stored transposed, [V, tokens]. So the softmax of a
// token runs along one vector lane, and all three products read the weight and the logits in their layout. There are
// three passes over the vocabulary; in each, one operand stays in the second-level cache. First: logits and their sums
// (x stays). Second: gradients of the logits, and dweight (x stays). Third: dx (each task computes the share of a run
// of blocks, which stays; shares are added in order).
//
// There are two ways to multiply: f32 tiles, to which 16-bit types are widened; or strips of bf16 dot products
// (`pairs`). The strips read the weight in its layout, and gradients of the logits as bf16 in the memory of the logits.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/cpu/bf16_dot.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loss_tile.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/tile_run.h"

namespace ravine {
namespace {

constexpr int64_t kVocabulary = 256;      // rows of the weight per block
constexpr int64_t kMostTokens = 512;      // tokens per chunk at most
constexpr int64_t kMostLogits = 1 << 24;  // logits per chunk that the chunk size aims at: 64 MiB
constexpr int64_t kShares = 16;           // number of shares of dx
// rows of the weight per product, few so that the cache keeps the operand that stays
constexpr int64_t kRows = 64;
constexpr int64_t kSharedRows = 128;  // the same for dx, whose sums are read and written in each product
constexpr int64_t kPanel = 64, kRun = 384;
constexpr int64_t kPairRows = 512;  // rows of the weight per product of dx, with dot products
static_assert(kPanel == kStripCols);
constexpr double kLn2 = 0.6931471805599453;

struct Plan {
  int64_t tokens, vocabulary, channels, chunk, blocks, pitch, shares;
  bool pairs;
  // Returns the floats that a vector of n elements takes in an operand of products.
  int64_t steps(int64_t n) const { return pairs ? ceil_div(n, 2) : n; }
};

Plan plan_of(const LossHead& x, Bf16Products products) {
  Plan p{x.x.rows(), x.weight.rows(), x.x.cols(), 0, 0, 0, 0, products == Bf16Products::dot && x.x.dtype == DType::bf16};
  const int64_t fit = kMostLogits / std::max<int64_t>(p.vocabulary, 1) / kPanel * kPanel;
  p.chunk = std::min(round_up(p.tokens, 16), std::clamp(fit, kPanel, kMostTokens));
  p.pitch = p.chunk + 16;  // not a power of two, so rows do not alias in cache
  p.blocks = ceil_div(p.vocabulary, kVocabulary);
  p.shares = std::min(p.blocks, kShares);
  return p;
}

// Floats of a row of the weight in pairs.
int64_t pair_pitch(const Plan& p) { return round_up(ceil_div(p.channels, 2), 16) + 16; }

struct Memory {
  float *x_t, *x, *logits, *tops, *sums, *top, *factor, *hit, *shares, *threads;
  int64_t per_thread, bytes;
};

Memory lay_out(const LossHead& a, const Plan& p, void* workspace, int threads) {
  Memory m{};
  Scratch s(workspace);
  const int64_t columns = round_up(p.channels, kPanel);
  m.x_t = s.floats(p.steps(p.channels) * round_up(p.chunk, kPanel));
  m.logits = s.floats(p.blocks * kVocabulary * p.pitch);
  m.tops = s.floats(p.blocks * p.chunk), m.sums = s.floats(p.blocks * p.chunk);
  m.top = s.floats(p.chunk), m.factor = s.floats(p.chunk);
  if (a.cap != 0) m.hit = s.floats(p.chunk);
  if (!a.dweight.absent()) m.x = s.floats(p.steps(p.chunk) * columns);
  if (!a.dx.absent()) m.shares = s.floats(p.shares * p.chunk * p.channels);
  m.per_thread = std::max(kRows * (columns + 16), kSharedRows * kPanel);
  if (p.pairs)  // a packed run of rows; or: gradients in sixes, a panel of the weight, a tile
    m.per_thread = std::max(kStripRows * pair_pitch(p),
                            round_up(p.chunk, kStripStep) * (kPairRows / 2 + 8) + kPairRows / 2 * kPanel + kStripRows * kPanel);
  m.threads = s.floats(threads * m.per_thread);
  m.bytes = s.bytes();
  return m;
}

struct Chunk {
  int64_t first, count, lanes;
};

// Packs x of the chunk in two forms, paired along the dim that is summed over: panels of 64 tokens [C/2][64], and of 64
// channels [tokens/2][64].
void pair_tokens(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c) {
  const int64_t steps = p.steps(p.channels);
  parallel_for(ceil_div(c.count, kPanel), [&](int64_t i) {
    const int64_t t = i * kPanel, count = std::min(kPanel, c.count - t);
    float* panel = m.x_t + t * steps;
    if (count % 16) std::fill(panel, panel + steps * kPanel, 0.0f);
    pairs_transposed(Corner(a.x, c.first + t), count, p.channels, panel, kPanel);
  });
  if (!m.x) return;
  parallel_for(ceil_div(p.channels, kPanel), [&](int64_t i) {
    const int64_t j = i * kPanel, width = std::min(kPanel, p.channels - j);
    float* panel = m.x + j * p.steps(c.count);
    if (width % 16) std::fill(panel, panel + p.steps(c.count) * kPanel, 0.0f);
    pairs_of_rows(Corner(a.x, c.first, j), c.count, width, panel, kPanel);
  });
}

// Packs x of the chunk in two forms: transposed panels of 64 tokens [C][64], and panels of 64 channels [tokens][64].
void pack_tokens(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c) {
  parallel_for(ceil_div(c.count, kPanel), [&](int64_t i) {
    const int64_t t = i * kPanel, count = std::min(kPanel, c.count - t);
    float* panel = m.x_t + t * p.channels;
    if (count % 16) std::fill(panel, panel + p.channels * kPanel, 0.0f);
    pack_transposed(Corner(a.x, c.first + t), count, p.channels, panel, kPanel);
  });
  if (!m.x) return;
  parallel_for(ceil_div(p.channels, kPanel), [&](int64_t i) {
    const int64_t j = i * kPanel, width = std::min(kPanel, p.channels - j);
    pack_copy(Corner(a.x, c.first, j), c.count, width, m.x + j * c.count, width);
  });
}

// Calls f(first row, rows) over the rows of a block.
template <class F>
void each_rows(const Plan& p, int64_t block, int64_t rows, F&& f) {
  const int64_t begin = block * kVocabulary, end = std::min(p.vocabulary, begin + kVocabulary);
  for (int64_t v = begin; v < end; v += rows) f(v, std::min(rows, end - v));
}

void paired_logits(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* scratch) {
  const bool lies = p.channels % 2 == 0 && a.weight.stride % 2 == 0;
  each_rows(p, block, kStripRows, [&](int64_t v, int64_t rows) {
    const Corner w(a.weight, v);
    Strip s;
    s.a = w.f32(), s.a_row = w.stride / 2;
    if (!lies) {
      pairs_along_rows(w, rows, p.channels, scratch, pair_pitch(p));
      s.a = scratch, s.a_row = pair_pitch(p);
    }
    s.rows = rows, s.depth = p.steps(p.channels), s.ldc = p.pitch;
    for (int64_t t = 0; t < c.lanes; t += kPanel) {
      s.b = m.x_t + t * s.depth, s.c = m.logits + v * p.pitch + t, s.cols = std::min(kPanel, c.lanes - t);
      strip_bf16(s);
    }
  });
}

void widened_logits(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* scratch) {
  TileRun product;
  each_rows(p, block, kRows, [&](int64_t v, int64_t rows) {
    float* logits = m.logits + v * p.pitch;
    Corner w(a.weight, v);
    if (w.dtype != DType::f32) {
      const int64_t pitch = p.channels + 16;
      pack_copy(w, rows, p.channels, scratch, pitch);
      w.dtype = DType::f32, w.data = scratch, w.stride = pitch;
    }
    for (int64_t k = 0; k < p.channels; k += kRun)
      for (int64_t t = 0; t < c.lanes; t += kPanel)
        product({rows, std::min(kPanel, c.lanes - t), std::min(kRun, p.channels - k), w.stride, kPanel, p.pitch, false, k > 0},
                w.f32() + k, m.x_t + t * p.channels + k * kPanel, logits + t);
  });
}

void logits_of_block(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* scratch) {
  (p.pairs ? paired_logits : widened_logits)(a, p, m, c, block, scratch);
  const int64_t v = block * kVocabulary;
  if (a.cap != 0)
    cap_logits(m.logits + v * p.pitch, p.pitch, std::min(kVocabulary, p.vocabulary - v), c.lanes, static_cast<float>(a.cap));
  logit_sums(m.logits + v * p.pitch, p.pitch, std::min(kVocabulary, p.vocabulary - v), c.lanes, m.tops + block * p.chunk,
             m.sums + block * p.chunk);
}

double scale_of(const LossHead& a, int64_t token) {
  return a.row_weights.absent() ? a.grad_scale : a.grad_scale * a.row_weights.as<double>()[token];
}

// Computes the losses, and per token the factors that turn logits into gradients (hit: the part of the label, under a
// cap). The sum runs over blocks in order, in double.
void finish_losses(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c) {
  for (int64_t t = 0; t < c.lanes; ++t) {
    float top = m.tops[t];
    for (int64_t b = 1; b < p.blocks; ++b) top = std::max(top, m.tops[b * p.chunk + t]);
    double sum = 0;
    for (int64_t b = 0; b < p.blocks; ++b)
      sum += m.sums[b * p.chunk + t] * std::exp2(static_cast<double>(m.tops[b * p.chunk + t]) - top);
    const int32_t label = t < c.count ? a.labels.as<int32_t>()[c.first + t] : -1;
    const double scale = label >= 0 ? scale_of(a, c.first + t) : 0;
    m.top[t] = top;
    m.factor[t] = label >= 0 ? static_cast<float>(scale / sum) : 0.0f;
    if (m.hit) {
      const double share = label >= 0 ? m.logits[label * p.pitch + t] / a.cap : 0;
      m.hit[t] = static_cast<float>(scale * (1 - share * share));
    }
    if (t < c.count)
      a.losses.as<double>()[c.first + t] = label >= 0 ? (top + std::log2(sum)) * kLn2 - m.logits[label * p.pitch + t] : 0.0;
  }
}

// Replaces logits by their gradients; with dot products they are stored as bf16 at the beginning of each row.
void gradients_of_rows(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t v, int64_t rows) {
  float* d = m.logits + v * p.pitch;
  logit_gradient(d, p.pitch, rows, c.lanes, m.top, m.factor, static_cast<float>(a.cap));
  for (int64_t t = 0; t < c.count; ++t)
    if (const int64_t label = a.labels.as<int32_t>()[c.first + t]; label >= v && label < v + rows)
      d[(label - v) * p.pitch + t] -= m.hit ? m.hit[t] : static_cast<float>(scale_of(a, c.first + t));
  for (int64_t i = 0; i < rows; ++i) {
    if (p.pairs)
      narrow_run(d + i * p.pitch, c.lanes);
    else if (a.x.dtype != DType::f32)
      round_run(d + i * p.pitch, c.lanes, a.x.dtype);
  }
}

void paired_dweight(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* tile) {
  const int64_t steps = p.steps(c.count);
  each_rows(p, block, kStripRows, [&](int64_t v, int64_t rows) {
    gradients_of_rows(a, p, m, c, v, rows);
    Strip s;
    s.a = m.logits + v * p.pitch, s.a_row = p.pitch, s.c = tile, s.ldc = kPanel;
    s.rows = rows, s.depth = steps;
    for (int64_t j = 0; j < p.channels; j += kPanel) {
      const Corner to(a.dweight, v, j);
      s.b = m.x + j * steps, s.cols = std::min(kPanel, p.channels - j);
      prefetch(to, rows, s.cols);
      strip_bf16(s);
      unpack(tile, kPanel, rows, s.cols, nullptr, a.accumulate || c.first > 0, to);
    }
  });
}

void widened_dweight(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* tile) {
  TileRun product;
  each_rows(p, block, kRows, [&](int64_t v, int64_t rows) {
    gradients_of_rows(a, p, m, c, v, rows);
    for (int64_t j = 0; j < p.channels; j += kPanel) {
      const int64_t width = std::min(kPanel, p.channels - j);
      const Corner to(a.dweight, v, j);
      prefetch(to, rows, width);
      for (int64_t t = 0; t < c.count; t += kRun)
        product({rows, width, std::min(kRun, c.count - t), p.pitch, width, kPanel, false, t > 0}, m.logits + v * p.pitch + t,
                m.x + j * c.count + t * width, tile);
      unpack(tile, kPanel, rows, width, nullptr, a.accumulate || c.first > 0, to);
    }
  });
}

// The same with dot products: gradients of a run of rows, transposed, in sixes of tokens, by panels of the weight.
void paired_share(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t from, int64_t to, float* share,
                  float* scratch) {
  const int64_t first = from * kVocabulary, last = std::min(p.vocabulary, to * kVocabulary);
  for (int64_t v = first; v < last; v += kPairRows) {
    const int64_t rows = std::min(kPairRows, last - v), steps = ceil_div(rows, 2), pitch = kStripStep * (kPairRows / 2 + 8);
    float *sixes = scratch, *panel = sixes + round_up(p.chunk, kStripStep) * (kPairRows / 2 + 8),
          *tile = panel + kPairRows / 2 * kPanel;
    if (a.dweight.absent()) gradients_of_rows(a, p, m, c, v, rows);
    Corner d;
    d.data = m.logits + v * p.pitch, d.dtype = DType::bf16, d.stride = 2 * p.pitch;
    pairs_of_rows_in_sixes(d, rows, c.count, sixes, pitch);
    Strip s;
    s.a_sixes = true, s.a_row = pitch / kStripStep, s.b = panel, s.c = tile, s.ldc = kPanel, s.depth = steps;
    for (int64_t j = 0; j < p.channels; j += kPanel) {
      s.cols = std::min(kPanel, p.channels - j);
      if (s.cols % 16) std::fill(panel, panel + steps * kPanel, 0.0f);
      pairs_of_rows(Corner(a.weight, v, j), rows, s.cols, panel, kPanel);
      for (int64_t t = 0; t < c.count; t += kStripRows) {
        s.a = sixes + t * s.a_row, s.rows = std::min(kStripRows, c.count - t);
        strip_bf16(s);
        Corner sum;
        sum.data = share + j * c.count + t * s.cols, sum.stride = s.cols;
        unpack(tile, kPanel, s.rows, s.cols, nullptr, v > first, sum);
      }
    }
  }
}

// Computes the share of dx of blocks [from, to): panels of 64 channels, [tokens][64] each.
void widened_share(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t from, int64_t to, float* share,
                   float* scratch) {
  TileRun product;
  for (int64_t block = from; block < to; ++block)
    each_rows(p, block, kSharedRows, [&](int64_t v, int64_t rows) {
      if (a.dweight.absent()) gradients_of_rows(a, p, m, c, v, rows);
      for (int64_t j = 0; j < p.channels; j += kPanel) {
        const int64_t width = std::min(kPanel, p.channels - j);
        pack_copy(Corner(a.weight, v, j), rows, width, scratch, width);
        product({c.count, width, rows, p.pitch, width, width, true, v > from * kVocabulary}, m.logits + v * p.pitch, scratch,
                share + j * c.count);
      }
    });
}

void check(const LossHead& a) {
  require(a.cap >= 0, "loss_head: cap must be 0 or above, got {}", a.cap);
  auto cpu_type = [](DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; };
  require(a.x.cols() == a.weight.cols(), "loss_head: x and weight must have as many columns, got {} and {}", a.x.shape.text(),
          a.weight.shape.text());
  require(cpu_type(a.x.dtype) && a.weight.dtype == a.x.dtype,
          "loss_head: x and weight have one type of f32, bf16, f16, got {} and {}", name(a.x.dtype), name(a.weight.dtype));
  require(a.labels.dtype == DType::i32 && a.labels.count() == a.x.rows() && a.losses.dtype == DType::f64 &&
              a.losses.count() == a.x.rows(),
          "loss_head: one i32 label and one f64 loss per token, got {} {} and {} {} for {} tokens", a.labels.count(),
          name(a.labels.dtype), a.losses.count(), name(a.losses.dtype), a.x.rows());
  require(a.dx.absent() || (a.dx.rows() == a.x.rows() && a.dx.cols() == a.x.cols() && cpu_type(a.dx.dtype)),
          "loss_head: dx is like x, got {} {}", name(a.dx.dtype), a.dx.shape.text());
  require(a.dweight.absent() ||
              (a.dweight.rows() == a.weight.rows() && a.dweight.cols() == a.weight.cols() && cpu_type(a.dweight.dtype)),
          "loss_head: dweight is like weight, got {} {}", name(a.dweight.dtype), a.dweight.shape.text());
  require(a.row_weights.absent() || (a.row_weights.dtype == DType::f64 && a.row_weights.count() == a.x.rows()),
          "loss_head: row_weights are f64, one per token, got {} {}", a.row_weights.count(), name(a.row_weights.dtype));
  for (int64_t t = 0; t < a.x.rows(); ++t)
    require(a.labels.as<int32_t>()[t] < a.weight.rows(), "loss_head: labels lie below the vocabulary of {}, got {} at token {}",
            a.weight.rows(), a.labels.as<int32_t>()[t], t);
}

void run_chunk(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c) {
  (p.pairs ? pair_tokens : pack_tokens)(a, p, m, c);
  parallel_for_threads(p.blocks,
                       [&](int64_t b, int thread) { logits_of_block(a, p, m, c, b, m.threads + thread * m.per_thread); });
  finish_losses(a, p, m, c);
  if (a.dx.absent() && a.dweight.absent()) return;
  if (!a.dweight.absent())
    parallel_for_threads(p.blocks, [&](int64_t b, int thread) {
      (p.pairs ? paired_dweight : widened_dweight)(a, p, m, c, b, m.threads + thread * m.per_thread);
    });
  if (a.dx.absent()) return;
  const int64_t size = p.chunk * p.channels;
  parallel_for_threads(p.shares, [&](int64_t i, int thread) {
    (p.pairs ? paired_share : widened_share)(a, p, m, c, p.blocks * i / p.shares, p.blocks * (i + 1) / p.shares,
                                             m.shares + i * size, m.threads + thread * m.per_thread);
  });
  constexpr int64_t kTokens = 64;
  const int64_t runs = ceil_div(c.count, kTokens);
  parallel_for(ceil_div(p.channels, kPanel) * runs, [&](int64_t i) {
    const int64_t j = i / runs * kPanel, from = i % runs * kTokens, count = std::min(kTokens, c.count - from);
    const int64_t width = std::min(kPanel, p.channels - j), at = j * c.count + from * width;
    Corner sum;
    sum.data = m.shares + at;
    for (int64_t share = 1; share < p.shares; ++share)
      unpack(m.shares + share * size + at, count * width, 1, count * width, nullptr, true, sum);
    unpack(sum.f32(), width, count, width, nullptr, false, Corner(a.dx, c.first + from, j));
  });
}

template <Bf16Products kProducts>
void run(const LossHead& a, void* workspace) {
  check(a);
  const Plan p = plan_of(a, kProducts);
  if (p.tokens == 0 && !a.dweight.absent() && !a.accumulate) {
    for (int64_t v = 0; v < p.vocabulary; ++v) {
      char* row = static_cast<char*>(a.dweight.data) + v * a.dweight.stride * size_of(a.dweight.dtype);
      std::fill(row, row + p.channels * size_of(a.dweight.dtype), 0);
    }
  }
  if (p.tokens == 0 || p.vocabulary == 0 || p.channels == 0) return;
  const Memory m = lay_out(a, p, workspace, thread_count());
  for (int64_t t = 0; t < p.tokens; t += p.chunk) {
    const int64_t count = std::min(p.chunk, p.tokens - t);
    run_chunk(a, p, m, {t, count, round_up(count, 16)});
  }
}

}  // namespace

Kernel<LossHead> cpu_loss_head(Bf16Products products) {
  auto entry = []<Bf16Products kProducts>() -> Kernel<LossHead> {
    return {run<kProducts>,
            [](const LossHead& a, int threads) { return lay_out(a, plan_of(a, kProducts), nullptr, threads).bytes; }};
  };
  if (products == Bf16Products::widen) return entry.operator()<Bf16Products::widen>();
  require(has_bf16_dot(), "loss_head: this machine has no bf16 dot product");
  return entry.operator()<Bf16Products::dot>();
}

}  // namespace ravine
