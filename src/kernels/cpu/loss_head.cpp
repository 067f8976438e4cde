// Output product and cross-entropy in chunks of tokens. Logits are kept transposed, [V, tokens]: the softmax of a token runs
// down a vector lane, and all three products read the weight and the logits as they lie. Three passes over the vocabulary, each
// with one operand that stays in the second-level cache while the others stream by: logits and their sums (x stays); gradients
// of the logits, and dweight (x stays); dx (each task gathers the share of a run of blocks, which stays; shares are added in
// order).
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loss_tile.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/tile_run.h"

namespace ravine {
namespace {

constexpr int64_t kVocabulary = 256;      // rows of the weight per block
constexpr int64_t kMostTokens = 512;      // per chunk
constexpr int64_t kMostLogits = 1 << 24;  // that a chunk aims at: 64 MiB
constexpr int64_t kShares = 16;           // of dx
constexpr int64_t kRows = 64;             // of the weight per product, so that little else is in the cache beside what stays
constexpr int64_t kSharedRows = 128;      // likewise for dx, whose sums are read and written each time
constexpr int64_t kPanel = 64, kRun = 384;
constexpr double kLn2 = 0.6931471805599453;

struct Plan {
  int64_t tokens, vocabulary, channels, chunk, blocks, pitch, shares;
};

Plan plan_of(const LossHead& x) {
  Plan p{x.x.rows(), x.weight.rows(), x.x.cols(), 0, 0, 0, 0};
  const int64_t fit = kMostLogits / std::max<int64_t>(p.vocabulary, 1) / kPanel * kPanel;
  p.chunk = std::min(round_up(p.tokens, 16), std::clamp(fit, kPanel, kMostTokens));
  p.pitch = p.chunk + 16;  // rows that do not alias in cache
  p.blocks = ceil_div(p.vocabulary, kVocabulary);
  p.shares = std::min(p.blocks, kShares);
  return p;
}

struct Memory {
  float *x_t, *x, *logits, *tops, *sums, *top, *factor, *hit, *shares, *threads;
  int64_t per_thread, bytes;
};

Memory lay_out(const LossHead& a, const Plan& p, void* workspace, int threads) {
  Memory m{};
  Scratch s(workspace);
  const int64_t columns = round_up(p.channels, kPanel);
  m.x_t = s.floats(p.channels * round_up(p.chunk, kPanel));
  m.logits = s.floats(p.blocks * kVocabulary * p.pitch);
  m.tops = s.floats(p.blocks * p.chunk), m.sums = s.floats(p.blocks * p.chunk);
  m.top = s.floats(p.chunk), m.factor = s.floats(p.chunk);
  if (a.cap != 0) m.hit = s.floats(p.chunk);
  if (!a.dweight.absent()) m.x = s.floats(p.chunk * columns);
  if (!a.dx.absent()) m.shares = s.floats(p.shares * p.chunk * p.channels);
  m.per_thread = std::max(kRows * (columns + 16), kSharedRows * kPanel);
  m.threads = s.floats(threads * m.per_thread);
  m.bytes = s.bytes();
  return m;
}

struct Chunk {
  int64_t first, count, lanes;
};

// x of the chunk in two forms: transposed panels of 64 tokens [C][64], and panels of 64 channels [tokens][64].
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

// f(first row, rows) over the rows of a block.
template <class F>
void each_rows(const Plan& p, int64_t block, int64_t rows, F&& f) {
  const int64_t begin = block * kVocabulary, end = std::min(p.vocabulary, begin + kVocabulary);
  for (int64_t v = begin; v < end; v += rows) f(v, std::min(rows, end - v));
}

void logits_of_block(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* scratch) {
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
  const int64_t v = block * kVocabulary;
  if (a.cap != 0)
    cap_logits(m.logits + v * p.pitch, p.pitch, std::min(kVocabulary, p.vocabulary - v), c.lanes, static_cast<float>(a.cap));
  logit_sums(m.logits + v * p.pitch, p.pitch, std::min(kVocabulary, p.vocabulary - v), c.lanes, m.tops + block * p.chunk,
             m.sums + block * p.chunk);
}

// Losses, and per token what turns logits into gradients (hit: what the label's loses, under a cap). The sum is over blocks in
// order, in double.
void finish_losses(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c) {
  for (int64_t t = 0; t < c.lanes; ++t) {
    float top = m.tops[t];
    for (int64_t b = 1; b < p.blocks; ++b) top = std::max(top, m.tops[b * p.chunk + t]);
    double sum = 0;
    for (int64_t b = 0; b < p.blocks; ++b)
      sum += m.sums[b * p.chunk + t] * std::exp2(static_cast<double>(m.tops[b * p.chunk + t]) - top);
    const int32_t label = t < c.count ? a.labels.as<int32_t>()[c.first + t] : -1;
    m.top[t] = top;
    m.factor[t] = label >= 0 ? static_cast<float>(a.grad_scale / sum) : 0.0f;
    if (m.hit) {
      const double share = label >= 0 ? m.logits[label * p.pitch + t] / a.cap : 0;
      m.hit[t] = static_cast<float>(a.grad_scale * (1 - share * share));
    }
    if (t < c.count)
      a.losses.as<double>()[c.first + t] = label >= 0 ? (top + std::log2(sum)) * kLn2 - m.logits[label * p.pitch + t] : 0.0;
  }
}

// Logits become their gradients.
void gradients_of_rows(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t v, int64_t rows) {
  float* d = m.logits + v * p.pitch;
  logit_gradient(d, p.pitch, rows, c.lanes, m.top, m.factor, static_cast<float>(a.cap));
  for (int64_t t = 0; t < c.count; ++t)
    if (const int64_t label = a.labels.as<int32_t>()[c.first + t]; label >= v && label < v + rows)
      d[(label - v) * p.pitch + t] -= m.hit ? m.hit[t] : static_cast<float>(a.grad_scale);
  if (a.x.dtype != DType::f32)
    for (int64_t i = 0; i < rows; ++i) round_run(d + i * p.pitch, c.lanes, a.x.dtype);
}

void dweight_of_block(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t block, float* tile) {
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

// The share of dx of blocks [from, to): panels of 64 channels, [tokens][64] each.
void share_of_blocks(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c, int64_t from, int64_t to, float* share,
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
  for (int64_t t = 0; t < a.x.rows(); ++t)
    require(a.labels.as<int32_t>()[t] < a.weight.rows(), "loss_head: labels lie below the vocabulary of {}, got {} at token {}",
            a.weight.rows(), a.labels.as<int32_t>()[t], t);
}

void run_chunk(const LossHead& a, const Plan& p, const Memory& m, const Chunk& c) {
  pack_tokens(a, p, m, c);
  parallel_for_threads(p.blocks,
                       [&](int64_t b, int thread) { logits_of_block(a, p, m, c, b, m.threads + thread * m.per_thread); });
  finish_losses(a, p, m, c);
  if (a.dx.absent() && a.dweight.absent()) return;
  if (!a.dweight.absent())
    parallel_for_threads(p.blocks,
                         [&](int64_t b, int thread) { dweight_of_block(a, p, m, c, b, m.threads + thread * m.per_thread); });
  if (a.dx.absent()) return;
  const int64_t size = p.chunk * p.channels;
  parallel_for_threads(p.shares, [&](int64_t i, int thread) {
    share_of_blocks(a, p, m, c, p.blocks * i / p.shares, p.blocks * (i + 1) / p.shares, m.shares + i * size,
                    m.threads + thread * m.per_thread);
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

void run(const LossHead& a, void* workspace) {
  check(a);
  const Plan p = plan_of(a);
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

template <>
Kernel<LossHead> cpu_kernel() {
  return {run, [](const LossHead& a, int threads) { return lay_out(a, plan_of(a), nullptr, threads).bytes; }};
}

}  // namespace ravine
