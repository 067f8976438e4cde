// The row kernels of cpu against ref: embedding, RMSNorm, RoPE, SwiGLU, dropout, add, cast, fill, sum_rows, softmax.
#include <bit>

#include "tests/unit/harness.h"

namespace ravine {
namespace test_cpu_row_ops {

struct Size {
  int64_t rows, cols;
};
const Size kSizes[] = {{1, 10}, {7, 40}, {3, 257}, {5, 768}, {1030, 33}, {2100, 16}, {1, 1}};

// exp flushes results to zero below e^-87 relative to 1; times a factor of at most 30 each.
constexpr double kFlushed = 0x1p-110;

std::string at(DType t, Size s) { return fmt::format("{} [{}, {}]", name(t), s.rows, s.cols); }

std::vector<int64_t> some_ids(int64_t n, int64_t below) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(philox(11, {static_cast<uint32_t>(i), 0, 0, 0})[0] % below);
  return ids;
}

// Copies and conversions: there is no arithmetic, so results have the bits of one rounding.
TEST(CpuRowOps, Embedding) {
  SKIP_WITHOUT(EmbeddingForward);
  for (DType t : kFloats)
    for (DType out : kFloats)
      for (Size s : kSizes) {
        Case c;
        EmbeddingForward a{c.integers(DType::i32, some_ids(s.rows, 13)), c.input(1, t, {13, s.cols}),
                           c.output(out, {s.rows, s.cols}, 3)};
        expect_equal(run_both(a)["out"], at(t, s));
        c.expect_intact();
      }
}

// One product, with a factor that is rounded.
TEST(CpuRowOps, ScaledEmbedding) {
  SKIP_WITHOUT(EmbeddingForward);
  for (DType t : kFloats)
    for (DType out : kFloats)
      for (Size s : kSizes) {
        Case c;
        EmbeddingForward a{c.integers(DType::i32, some_ids(s.rows, 13)), c.input(1, t, {13, s.cols}, 2),
                           c.output(out, {s.rows, s.cols}, 3), 3.46};
        auto o = run_both(a)["out"];
        expect_close(
            o, [&](int64_t i) { return gamma32(2) * std::fabs(o.want[i]); }, at(t, s));
        c.expect_intact();
      }
}

// A row of dweight sums at most N rows of dout, scaled, and its old value: gamma(N + 3) times their magnitudes.
TEST(CpuRowOps, EmbeddingBackward) {
  SKIP_WITHOUT(EmbeddingBackward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool accumulate : {false, true})
        for (auto [padding, scale] : {std::pair{-1, 1.0}, {3, 1.0}, {-1, 3.46}}) {
          Case c;
          Buffer& dweight = accumulate ? c.input(2, DType::f32, {13, s.cols}) : c.output(DType::f32, {13, s.cols});
          EmbeddingBackward a{c.integers(DType::i32, some_ids(s.rows, 7)),
                              c.input(1, t, {s.rows, s.cols}, 5),
                              dweight,
                              padding,
                              accumulate,
                              scale};
          auto magnitude = run_ref(a, true)["dweight"];
          expect_close(
              run_both(a)["dweight"], [&](int64_t i) { return gamma32(s.rows + 3) * magnitude[i]; }, at(t, s));
          c.expect_intact();
        }
}

// The mean of C squares is a sum of positive terms: relative error gamma(C + 2), halved by the root; then 1/sqrt and
// two products. A stored 16-bit sum is normalised as stored. If it is rounded to the other side of a tie, it differs by
// epsilon, in rstd and in the row.
TEST(CpuRowOps, RmsNorm) {
  SKIP_WITHOUT(RmsNormForward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool branch : {false, true})
        for (auto [in_place, offset] : {std::pair{false, 0.0}, {true, 0.0}, {false, 1.0}}) {
          if (in_place && !branch) continue;
          Case c;
          RmsNormForward a;
          a.x = c.input(1, t, {s.rows, s.cols}, 3);
          a.weight = c.input(2, t, {s.cols});
          if (branch)
            a.branch = c.input(3, t, {s.rows, s.cols}, 1), a.sum = in_place ? a.x : c.output(t, {s.rows, s.cols}, 2).view();
          a.out = c.output(t, {s.rows, s.cols}, 4);
          a.rstd = c.output(DType::f32, {s.rows});
          a.eps = 1e-5, a.offset = offset;
          auto o = run_both(a);
          double sum_error = branch ? 2 * unit(t) : 0;
          double rstd_error = gamma32((s.cols + 2) / 2.0 + 2 * kFunction) + sum_error;
          auto relative = [&](const Output& out, double r) {
            return [&out, r](int64_t i) { return r * std::fabs(out.want[i]); };
          };
          if (branch) expect_close(o["sum"], relative(o["sum"], kU32), "sum " + at(t, s));
          expect_close(o["rstd"], relative(o["rstd"], rstd_error), "rstd " + at(t, s));
          expect_close(o["out"], relative(o["out"], rstd_error + sum_error + gamma32(offset != 0 ? 3 : 2)), "out " + at(t, s));
          c.expect_intact();
        }
}

// dx = dsum + rstd (h - xhat m): the terms and their roundings, with an error of m of gamma(C + 4) mean |h xhat|.
// dweight: a sum over N tokens of products of three: gamma(N + 4) times their magnitudes.
TEST(CpuRowOps, RmsNormBackward) {
  SKIP_WITHOUT(RmsNormBackward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (int variant = 0; variant < 5;
           ++variant) {  // 0 bare, 1 dsum, 2 dx in place of dsum and a branch, 3 accumulate, 4 offset
        Case c;
        RmsNormBackward a;
        a.offset = variant == 4 ? 1 : 0;
        a.dout = c.input(1, t, {s.rows, s.cols}, 3);
        a.x = c.input(2, t, {s.rows, s.cols}, 1);
        a.weight = c.input(3, t, {s.cols});
        a.rstd = c.input(4, DType::f32, {s.rows}).random(4, 0.5, 1);
        if (variant > 0) a.dsum = c.input(5, t, {s.rows, s.cols}, 2);
        a.dx = variant == 2 ? a.dsum : c.output(t, {s.rows, s.cols}, 2).view();
        if (variant == 2) a.dbranch = c.output(t == DType::f32 ? DType::bf16 : t, {s.rows, s.cols}, 6);
        if (variant > 0) a.dweight = variant == 3 ? c.input(6, DType::f32, {s.cols}) : c.output(DType::f32, {s.cols});
        a.accumulate = variant == 3;
        std::vector<double> dx_error(s.rows * s.cols), dw(s.cols);
        for (int64_t i = 0; i < s.rows; ++i) {
          double rstd = get(a.rstd, 0, i), mean = 0;
          for (int64_t j = 0; j < s.cols; ++j)
            mean += std::fabs(get(a.dout, i, j) * (a.offset + get(a.weight, 0, j)) * get(a.x, i, j) * rstd) /
                    static_cast<double>(s.cols);
          for (int64_t j = 0; j < s.cols; ++j) {
            double h = std::fabs(get(a.dout, i, j) * (a.offset + get(a.weight, 0, j))), xhat = std::fabs(get(a.x, i, j) * rstd);
            double side = a.dsum.absent() ? 0 : std::fabs(get(a.dsum, i, j));
            dx_error[i * s.cols + j] = kU32 * side + rstd * (gamma32(6) * h + gamma32(s.cols + 11) * xhat * mean);
            dw[j] += std::fabs(get(a.dout, i, j)) * xhat;
          }
        }
        for (int64_t j = 0; a.accumulate && j < s.cols; ++j) dw[j] += std::fabs(get(a.dweight, 0, j));
        auto o = run_both(a);
        auto error = [&](int64_t i) { return dx_error[i]; };
        expect_close(o["dx"], error, "dx " + at(t, s));
        if (variant == 2) expect_close(o["dbranch"], error, "dbranch " + at(t, s));
        if (variant > 0)
          expect_close(
              o["dweight"], [&](int64_t j) { return gamma32(s.rows + 4) * dw[j]; }, "dweight " + at(t, s));
        c.expect_intact();
      }
}

// The residual stream may be wider than the compute type.
TEST(CpuRowOps, RmsNormMixedTypes) {
  SKIP_WITHOUT(RmsNormForward);
  for (Size s : kSizes) {
    Case c;
    RmsNormForward a;
    a.x = c.input(1, DType::f32, {s.rows, s.cols}), a.branch = c.input(2, DType::bf16, {s.rows, s.cols});
    a.weight = c.input(3, DType::f32, {s.cols}), a.sum = a.x;
    a.out = c.output(DType::bf16, {s.rows, s.cols}), a.rstd = c.output(DType::f32, {s.rows});
    auto o = run_both(a);
    double r = gamma32((s.cols + 2) / 2.0 + 2 * kFunction + 6);
    for (const char* what : {"sum", "out", "rstd"})
      expect_close(
          o[what], [&](int64_t i) { return r * std::fabs(o[what].want[i]); }, what + at(DType::bf16, s));
  }
}

// Sums of N: gamma(N) times the magnitudes.
TEST(CpuRowOps, SumRows) {
  SKIP_WITHOUT(SumRows);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool accumulate : {false, true}) {
        Case c;
        Buffer& out = accumulate ? c.input(2, DType::f32, {s.cols}) : c.output(DType::f32, {s.cols});
        SumRows a{c.input(1, t, {s.rows, s.cols}, 7), out, accumulate};
        auto magnitude = run_ref(a, true)["out"];
        expect_close(
            run_both(a)["out"], [&](int64_t i) { return gamma32(s.rows + 1) * magnitude[i]; }, at(t, s));
        c.expect_intact();
      }
}

// Two products and a sum, with table entries of at most 1: 3 roundings of |x lo| + |x hi|, which is at most the pair's
// magnitude.
TEST(CpuRowOps, Rope) {
  SKIP_WITHOUT(Rope);
  for (DType t : kFloats)
    for (int64_t d : {8, 10, 16, 64, 128})
      for (int64_t rotated : {d, d / 4 * 2})
        for (bool inverse : {false, true})
          for (int64_t n : {1, 7, 1030}) {
            if (n == 1030 && d > 10) continue;
            Case c;
            int64_t heads = 3;
            Buffer& whole = c.input(1, t, {n, 2 + heads * d}, 5);
            Rope a{whole.view().columns(2, heads * d), c.integers(DType::i32, some_ids(n, 40)),
                   c.input(2, DType::f32, {40, rotated}), heads, inverse};
            auto x = values(a.x);
            auto o = run_both(a);
            auto error = [&](int64_t i) {
              int64_t j = i % d, half = rotated / 2;
              if (j >= rotated) return 0.0;
              int64_t other = j < half ? i + half : i - half;
              return gamma32(3) * (std::fabs(x[i]) + std::fabs(x[other]));
            };
            expect_close(o["x"], error, fmt::format("{} heads of {}, {} rotated, {} rows", name(t), d, rotated, n));
            for (size_t i = 0; i < x.size(); ++i)
              ASSERT_TRUE(static_cast<int64_t>(i) % d < rotated || o["x"].got[i] == x[i]) << "dims from R on stay";
            c.expect_intact();
          }
}

// A chain of products, a quotient and an exponential. Its error reaches the sigmoid with a factor of at most 1.
TEST(CpuRowOps, Swiglu) {
  SKIP_WITHOUT(SwigluForward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (auto [scale, alone] : {std::pair{1.0, false}, {30.0, false}, {1.0, true}}) {
        Case c;
        SwigluForward a{c.input(1, t, {s.rows, s.cols}, 3, scale), c.input(2, t, {s.rows, s.cols}, 1),
                        c.output(t, {s.rows, s.cols}, 2)};
        if (alone) a.up = {};
        auto o = run_both(a)["out"];
        expect_close(
            o, [&](int64_t i) { return gamma32(2 * kFunction + 3) * std::fabs(o.want[i]); }, at(t, s));
        c.expect_intact();
      }
}

// gelu(g) = g sigmoid(u): u has 6 roundings, and the logarithm of the sigmoid has a derivative of at most 1. Then exp,
// a quotient, products.
double geglu_error(double g) {
  double u = 1.5957691216057308 * std::fabs(g) * (1 + 0.044715 * g * g);
  return std::expm1(gamma32(6) * std::min(u, 120.0)) + gamma32(2 * kFunction + 4);
}

TEST(CpuRowOps, Geglu) {
  SKIP_WITHOUT(GegluForward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (auto [scale, alone] : {std::pair{1.0, false}, {30.0, false}, {1.0, true}}) {
        Case c;
        GegluForward a{c.input(1, t, {s.rows, s.cols}, 3, scale), c.input(2, t, {s.rows, s.cols}, 1),
                       c.output(t, {s.rows, s.cols}, 2)};
        if (alone) a.up = {};
        auto gate = values(a.gate);
        auto o = run_both(a)["out"];
        expect_close(
            o, [&](int64_t i) { return geglu_error(gate[i]) * std::fabs(o.want[i]) + kFlushed; }, at(t, s));
        c.expect_intact();
      }
}

// The derivative s + g s' u', with s' = s (1 - s): two terms, which cancel for g < 0.
TEST(CpuRowOps, GegluBackward) {
  SKIP_WITHOUT(GegluBackward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool in_place : {false, true})
        for (auto [scale, alone] : {std::pair{1.0, false}, {30.0, false}, {1.0, true}}) {
          Case c;
          GegluBackward a;
          a.gate = c.input(1, t, {s.rows, s.cols}, 3, scale), a.up = c.input(2, t, {s.rows, s.cols}, 1),
          a.dout = c.input(3, t, {s.rows, s.cols}, 2);
          a.dgate = in_place ? a.gate : c.output(t, {s.rows, s.cols}, 3).view(),
          a.dup = in_place ? a.up : c.output(t, {s.rows, s.cols}, 1).view();
          if (alone) a.up = a.dup = {};
          auto gate = values(a.gate), up = alone ? std::vector<double>(gate.size(), 1) : values(a.up), dout = values(a.dout);
          auto want = run_ref(a);
          auto o = run_both(a);
          auto error = [&](int64_t i) {
            double g = gate[i], u = 1.5957691216057308 * g * (1 + 0.044715 * g * g),
                   du = 1.5957691216057308 * (1 + 3 * 0.044715 * g * g);
            double s1 = 1 / (1 + std::exp(-u)), s2 = 1 / (1 + std::exp(u));
            return (2 * geglu_error(g) + gamma32(2 * kFunction)) * std::fabs(dout[i] * up[i]) *
                       (s1 + std::fabs(g) * s1 * s2 * du) +
                   kFlushed;
          };
          expect_close(o["dgate"], error, "dgate " + at(t, s));
          if (!alone)
            expect_close(
                o["dup"], [&](int64_t i) { return geglu_error(gate[i]) * std::fabs(want["dup"][i]) + kFlushed; },
                "dup " + at(t, s));
          c.expect_intact();
        }
}

// tanh: all floats in the relevant range in steps of 509, within 3 units in the last place of double; and infinities
// and NaN.
TEST(CpuRowOps, TanhOfTheSoftCap) {
  SKIP_WITHOUT(SoftCapForward);
  std::vector<float> x;
  for (uint32_t bits = 0; bits <= std::bit_cast<uint32_t>(64.0f); bits += 509)
    x.push_back(std::bit_cast<float>(bits)), x.push_back(-x.back());
  const float infinity = std::numeric_limits<float>::infinity();
  for (float more : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) x.push_back(more);
  std::vector<float> y(x.size());
  const auto n = static_cast<int64_t>(x.size());
  run_kernel(cpu_kernels(), SoftCapForward{view_of(x.data(), DType::f32, {1, n}), view_of(y.data(), DType::f32, {1, n})});
  double worst = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    const double want = std::tanh(static_cast<double>(x[i]));
    const double ulp = std::max(std::exp2(std::floor(std::log2(std::fabs(want))) - 23), 0x1p-149);
    worst = std::max(worst, want == y[i] ? 0 : std::fabs(y[i] - want) / ulp);
    ASSERT_EQ(std::signbit(x[i]), std::signbit(y[i])) << x[i];
  }
  EXPECT_LE(worst, 3);
  EXPECT_TRUE(std::isnan(y.back()));
  RecordProperty("worst_ulp", std::to_string(worst));
}

// cap tanh(u): u has 2 roundings, which tanh does not increase; tanh has 3 ulp = 6; one for cap and one product.
TEST(CpuRowOps, SoftCap) {
  SKIP_WITHOUT(SoftCapForward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool in_place : {false, true})
        for (double scale : {0.1, 8.0}) {
          Case c;
          SoftCapForward a{c.input(1, t, {s.rows, s.cols}, 3, scale), {}, 1.7, 0.6};
          a.y = in_place ? a.x : c.output(t, {s.rows, s.cols}, 2).view();
          auto o = run_both(a)["y"];
          expect_close(
              o, [&](int64_t i) { return gamma32(10) * std::fabs(o.want[i]); }, at(t, s));
          c.expect_intact();
        }
}

// 1 - t^2 with 2 roundings of t: at most 4 of 1, and one of its own; three products.
TEST(CpuRowOps, SoftCapBackward) {
  SKIP_WITHOUT(SoftCapBackward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool in_place : {false, true}) {
        Case c;
        SoftCapBackward a{c.input(1, t, {s.rows, s.cols}, 3, 1.7), c.input(2, t, {s.rows, s.cols}, 1), {}, 1.7, 0.6};
        a.dx = in_place ? a.dy : c.output(t, {s.rows, s.cols}, 2).view();
        auto dy = values(a.dy);
        auto o = run_both(a)["dx"];
        expect_close(
            o, [&](int64_t i) { return gamma32(5) * a.scale * std::fabs(dy[i]) + gamma32(4) * std::fabs(o.want[i]); },
            at(t, s));
        c.expect_intact();
      }
}

TEST(CpuRowOps, SwigluBackward) {
  SKIP_WITHOUT(SwigluBackward);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool in_place : {false, true})
        for (auto [scale, alone] : {std::pair{1.0, false}, {30.0, false}, {1.0, true}}) {
          Case c;
          SwigluBackward a;
          a.gate = c.input(1, t, {s.rows, s.cols}, 3, scale), a.up = c.input(2, t, {s.rows, s.cols}, 1);
          a.dout = c.input(3, t, {s.rows, s.cols}, 2);
          a.dgate = in_place ? a.gate : c.output(t, {s.rows, s.cols}, 3).view();
          a.dup = in_place ? a.up : c.output(t, {s.rows, s.cols}, 1).view();
          if (alone) a.up = a.dup = {};
          auto gate = values(a.gate), up = alone ? std::vector<double>(gate.size(), 1) : values(a.up), dout = values(a.dout);
          auto want = run_ref(a);
          auto o = run_both(a);
          auto error = [&](int64_t i) {  // 1 + g (1 - s): the terms, not their sum, since they may cancel
            double s1 = 1 / (1 + std::exp(-gate[i]));
            return gamma32(4 * kFunction) * std::fabs(dout[i] * up[i]) * s1 * (1 + std::fabs(gate[i]));
          };
          expect_close(o["dgate"], error, "dgate " + at(t, s));
          if (!alone)
            expect_close(
                o["dup"], [&](int64_t i) { return gamma32(2 * kFunction + 3) * std::fabs(want["dup"][i]); }, "dup " + at(t, s));
          c.expect_intact();
        }
}

// The dropped elements are exact; the others are scaled by 1/(1-p): 3 roundings.
TEST(CpuRowOps, Dropout) {
  SKIP_WITHOUT(Dropout);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool in_place : {false, true})
        for (double p : {0.0, 0.1, 0.7}) {
          Case c;
          Dropout a;
          a.x = c.input(1, t, {s.rows, s.cols}, 3);
          a.out = in_place ? a.x : c.output(t, {s.rows, s.cols}, 1).view();
          std::vector<int64_t> sequences = some_ids(s.rows, 5);
          for (int64_t& q : sequences) q += int64_t{1} << 33;
          a.positions = c.integers(DType::i32, some_ids(s.rows, 4000)), a.sequences = c.integers(DType::i64, sequences);
          a.p = p, a.key = 0x123456789abcdefull, a.step = 42;
          auto o = run_both(a)["out"];
          for (size_t i = 0; i < o.got.size(); ++i)
            ASSERT_EQ(o.got[i] == 0, std::fabs(o.want[i]) <= smallest(t)) << at(t, s) << " element " << i;
          expect_close(
              o, [&](int64_t i) { return gamma32(3) * std::fabs(o.want[i]); }, at(t, s));
          c.expect_intact();
        }
}

TEST(CpuRowOps, Add) {
  SKIP_WITHOUT(Add);
  for (DType ta : kFloats)
    for (DType tb : kFloats)
      for (Size s : kSizes)
        for (bool in_place : {false, true}) {
          Case c;
          Add a{c.input(1, ta, {s.rows, s.cols}, 3), c.input(2, tb, {s.rows, s.cols}, 1), {}};
          a.out = in_place ? a.a : c.output(tb, {s.rows, s.cols}, 2).view();
          auto o = run_both(a)["out"];
          expect_close(
              o, [&](int64_t i) { return kU32 * std::fabs(o.want[i]); }, at(ta, s));
          c.expect_intact();
        }
}

// At most two roundings; one if the scale is 1 or -1.
TEST(CpuRowOps, Multiply) {
  SKIP_WITHOUT(Multiply);
  for (DType ta : kFloats)
    for (DType tb : kFloats)
      for (Size s : kSizes)
        for (auto [in_place, scale] : {std::pair{0, 1.0}, {1, -1.0}, {2, 0.3}}) {
          Case c;
          Multiply a{c.input(1, ta, {s.rows, s.cols}, 3), c.input(2, tb, {s.rows, s.cols}, 1), {}, scale};
          a.out = in_place == 1 ? a.a : in_place == 2 ? a.b : c.output(tb, {s.rows, s.cols}, 2).view();
          auto o = run_both(a)["out"];
          expect_close(
              o, [&](int64_t i) { return (scale == 0.3 ? gamma32(3) : kU32) * std::fabs(o.want[i]); }, at(ta, s));
          c.expect_intact();
        }
}

TEST(CpuRowOps, Cast) {
  SKIP_WITHOUT(Cast);
  for (DType from : kFloats)
    for (DType to : kFloats)
      for (DType through : {DType::f64, DType::bf16, DType::f16})
        for (Size s : kSizes)
          for (double scale : {1.0, 1e-6, 1e6}) {  // subnormal numbers and overflow of f16
            Case c;
            Cast a{c.input(1, from, {s.rows, s.cols}, 3, scale), c.output(to, {s.rows, s.cols}, 1), through};
            expect_equal(run_both(a)["out"], at(from, s));
            c.expect_intact();
          }
}

// Values next to the middle of two 16-bit numbers, closer than f32 resolves: rounding through f32 would give the wrong
// number.
TEST(CpuRowOps, CastOfDoublesRoundsOnce) {
  SKIP_WITHOUT(Cast);
  for (auto [to, unit] : {std::pair{DType::bf16, 0x1p-7}, std::pair{DType::f16, 0x1p-10}})
    for (double sign : {1.0, -1.0})
      for (double off : {0x1p-40, -0x1p-40, 0.0}) {
        Case c;
        std::vector<double> x, want;
        for (int odd = 0; odd < 2; ++odd) {
          x.push_back(sign * (1 + (odd + 0.5) * unit + off));
          want.push_back(sign * (1 + (off > 0   ? odd + 1
                                      : off < 0 ? odd
                                                : odd + odd % 2) *
                                         unit));  // a tie is rounded to the even number
        }
        Cast a{c.input(1, DType::f64, {1, 2}, 3, 1), c.output(to, {1, 2}, 1)};
        for (size_t i = 0; i < x.size(); ++i) a.x.as<double>()[i] = x[i];
        EXPECT_EQ(run_both(a)["out"].got, want) << name(to) << " " << off;
        c.expect_intact();
      }
}

TEST(CpuRowOps, Fill) {
  SKIP_WITHOUT(Fill);
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (double value : {0.0, 0.3}) {
        Case c;
        Fill a{c.output(t, {s.rows, s.cols}, 3), value};
        expect_equal(run_both(a)["out"], at(t, s));
        c.expect_intact();
      }
}

struct Square {
  int64_t q, k;
  bool causal;
  int64_t window;
};
const Square kSquares[] = {{1, 1, true, 0}, {7, 7, true, 0},     {40, 40, false, 0}, {5, 257, true, 0},   {257, 257, true, 10},
                           {9, 3, true, 0}, {33, 70, false, 20}, {1, 300, true, 0},  {300, 300, true, 1}, {4, 4, false, 2}};

// exp(scale s - top): its argument has an error of u (3 |scale s| + |top|), which becomes relative. Then a positive sum
// and a quotient.
TEST(CpuRowOps, Softmax) {
  SKIP_WITHOUT(SoftmaxForward);
  for (DType t : kFloats)
    for (const Square& s : kSquares)
      for (bool in_place : {false, true}) {
        Case c;
        SoftmaxForward a;
        a.scores = c.input(1, t, {s.q, s.k}, 3, 8), a.probs = in_place ? a.scores : c.output(t, {s.q, s.k}, 1).view();
        a.scale = 0.35, a.causal = s.causal, a.window = s.window;
        auto o = run_both(a)["probs"];
        double argument = 2 * kU32 * 4 * 8 * a.scale;
        double r = std::expm1(argument) + gamma32(s.k + 3 * kFunction);
        expect_close(
            o, [&](int64_t i) { return r * o.want[i]; }, at(t, {s.q, s.k}));
        c.expect_intact();
      }
}

// ALiBi, which only the unfused definition uses in this kernel: slope * (key - query's position) is added to the scaled
// score. Distances are below 300: they add to the argument, with two roundings.
TEST(CpuRowOps, SoftmaxWithAlibi) {
  SKIP_WITHOUT(SoftmaxForward);
  for (DType t : {DType::f32, DType::bf16})
    for (const Square& s : kSquares)
      for (double slope : {0.0625, 0.3}) {
        Case c;
        SoftmaxForward a;
        a.scores = c.input(1, t, {s.q, s.k}, 3, 8), a.probs = c.output(t, {s.q, s.k}, 1).view();
        a.scale = 0.35, a.causal = s.causal, a.window = s.window, a.slope = slope;
        auto o = run_both(a)["probs"];
        double argument = 2 * kU32 * (4 * 8 * a.scale + 4 * slope * static_cast<double>(std::max(s.q, s.k)));
        double r = std::expm1(argument) + gamma32(s.k + 3 * kFunction);
        expect_close(
            o, [&](int64_t i) { return r * o.want[i]; }, at(t, {s.q, s.k}));
        c.expect_intact();
      }
}

TEST(CpuRowOps, SoftmaxBackward) {
  SKIP_WITHOUT(SoftmaxBackward);
  for (DType t : kFloats)
    for (const Square& s : kSquares)
      for (bool in_place : {false, true}) {
        Case c;
        SoftmaxBackward a;
        a.probs = c.input(1, t, {s.q, s.k}, 3).random(1, 0.5 / s.k, 0.5 / s.k), a.dprobs = c.input(2, t, {s.q, s.k}, 2);
        a.dscores = in_place ? a.dprobs : c.output(t, {s.q, s.k}, 1).view();
        a.scale = 0.35;
        auto p = values(a.probs), d = values(a.dprobs);
        auto error = [&](int64_t i) {
          double dot = 0;
          for (int64_t j = i / s.k * s.k, end = j + s.k; j < end; ++j) dot += std::fabs(p[j] * d[j]);
          return a.scale * p[i] * (gamma32(s.k + 5) * dot + gamma32(4) * std::fabs(d[i]));
        };
        expect_close(run_both(a)["dscores"], error, at(t, {s.q, s.k}));
        c.expect_intact();
      }
}

}  // namespace test_cpu_row_ops
}  // namespace ravine
