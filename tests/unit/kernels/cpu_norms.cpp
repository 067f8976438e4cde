// LayerNorm, the norm of heads, rows of length 1 and GELU of cpu against ref. Bounds as in cpu_rows.cpp.
#include <numbers>

#include "tests/unit/harness.h"

namespace ravine {
namespace test_cpu_norms {

struct Size {
  int64_t rows, cols;
};
const Size kSizes[] = {{1, 10}, {7, 40}, {3, 257}, {5, 768}, {1030, 33}, {2100, 16}, {1, 1}};

std::string at(DType t, Size s) { return fmt::format("{} [{}, {}]", name(t), s.rows, s.cols); }

// Statistics of a row, in double, from the values that were normalised.
struct RowFigures {
  double mean = 0, spread = 0 /* mean |x - mean| */, magnitude = 0 /* mean |x| */, rstd = 0;
};
RowFigures figures(const std::vector<double>& x, int64_t row, int64_t cols, double eps) {
  RowFigures f;
  double squares = 0;
  auto n = static_cast<double>(cols);
  for (int64_t j = 0; j < cols; ++j) f.mean += x[row * cols + j] / n, f.magnitude += std::fabs(x[row * cols + j]) / n;
  for (int64_t j = 0; j < cols; ++j) {
    double d = x[row * cols + j] - f.mean;
    squares += d * d / n, f.spread += std::fabs(d) / n;
  }
  f.rstd = 1 / std::sqrt(squares + eps);
  return f;
}

// The mean has an error of m = gamma(C + 1) mean|x|. It shifts every deviation, which also has a rounding of |x| +
// |mean|. The sum of squares changes by at most C m^2 (a shift of the mean is of second order), and by its own
// roundings. So the relative error of rstd is r = gamma(C + 2) / 2 + (m rstd)^2 + 2 roundings of the deviations against
// rstd. A stored 16-bit sum has one more rounding.
TEST(CpuNorms, LayerNorm) {
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool branch : {false, true})
        for (bool in_place : {false, true}) {
          if (in_place && !branch) continue;
          Case c;
          LayerNormForward a;
          a.x = c.input(1, t, {s.rows, s.cols}, 3);
          a.weight = c.input(2, t, {s.cols}), a.bias = c.input(5, t, {s.cols});
          if (branch)
            a.branch = c.input(3, t, {s.rows, s.cols}, 1), a.sum = in_place ? a.x : c.output(t, {s.rows, s.cols}, 2).view();
          a.out = c.output(t, {s.rows, s.cols}, 4);
          a.mean = c.output(DType::f32, {s.rows}), a.rstd = c.output(DType::f32, {s.rows});
          a.eps = 1e-3;
          auto weight = values(a.weight), bias = values(a.bias), x = values(a.x);
          auto o = run_both(a);
          if (branch) x = o["sum"].want;
          double stored = branch ? 2 * unit(t) : 0;
          std::vector<double> mean_error(s.rows), rstd_error(s.rows), out_error(s.rows * s.cols);
          for (int64_t i = 0; i < s.rows; ++i) {
            RowFigures f = figures(x, i, s.cols, a.eps);
            double largest = 0;
            for (int64_t j = 0; j < s.cols; ++j) largest = std::max(largest, std::fabs(x[i * s.cols + j]));
            double m = gamma32(s.cols + 1) * f.magnitude + stored * f.magnitude + kU32 * std::fabs(f.mean);
            double d = m + (kU32 + stored) * (largest + std::fabs(f.mean));  // of a deviation
            mean_error[i] = m;
            double relative =
                gamma32(s.cols + 2) / 2 + d * d * f.rstd * f.rstd + 2 * d * f.spread * f.rstd * f.rstd + gamma32(2 * kFunction);
            rstd_error[i] = relative * f.rstd;
            for (int64_t j = 0; j < s.cols; ++j) {
              double xhat = std::fabs(x[i * s.cols + j] - f.mean) * f.rstd;
              out_error[i * s.cols + j] =
                  std::fabs(weight[j]) * (xhat * (relative + gamma32(4)) + d * f.rstd) + gamma32(2) * std::fabs(bias[j]);
            }
          }
          if (branch)
            expect_close(
                o["sum"], [&](int64_t i) { return kU32 * std::fabs(o["sum"].want[i]); }, "sum " + at(t, s));
          expect_close(
              o["mean"], [&](int64_t i) { return mean_error[i]; }, "mean " + at(t, s));
          expect_close(
              o["rstd"], [&](int64_t i) { return rstd_error[i]; }, "rstd " + at(t, s));
          expect_close(
              o["out"], [&](int64_t i) { return out_error[i]; }, "out " + at(t, s));
          c.expect_intact();
        }
}

// dx = dsum + rstd (h - m1 - xhat m2): the terms and their roundings, with an error of m1 of gamma(C + 2) mean|h| and
// of m2 of gamma(C + 5) mean|h xhat|.
TEST(CpuNorms, LayerNormBackward) {
  for (DType t : kFloats)
    for (Size s : kSizes)
      // 0: bare; 1: dsum; 2: dx in place of dsum, and a branch; 3: accumulate
      for (int variant = 0; variant < 4; ++variant) {
        Case c;
        LayerNormBackward a;
        a.dout = c.input(1, t, {s.rows, s.cols}, 3);
        a.x = c.input(2, t, {s.rows, s.cols}, 1);
        a.weight = c.input(3, t, {s.cols});
        a.mean = c.input(7, DType::f32, {s.rows}), a.rstd = c.input(4, DType::f32, {s.rows}).random(4, 0.5, 1);
        if (variant > 0) a.dsum = c.input(5, t, {s.rows, s.cols}, 2);
        a.dx = variant == 2 ? a.dsum : c.output(t, {s.rows, s.cols}, 2).view();
        if (variant == 2) a.dbranch = c.output(t == DType::f32 ? DType::bf16 : t, {s.rows, s.cols}, 6);
        if (variant > 0) {
          a.dweight = variant == 3 ? c.input(6, DType::f32, {s.cols}) : c.output(DType::f32, {s.cols});
          a.dbias = variant == 3 ? c.input(8, DType::f32, {s.cols}) : c.output(DType::f32, {s.cols});
        }
        a.accumulate = variant == 3;
        std::vector<double> dx_error(s.rows * s.cols), dw(s.cols), db(s.cols);
        for (int64_t i = 0; i < s.rows; ++i) {
          double rstd = get(a.rstd, 0, i), mean = get(a.mean, 0, i), m1 = 0, m2 = 0;
          auto xhat_of = [&](int64_t j) { return (std::fabs(get(a.x, i, j)) + std::fabs(mean)) * rstd; };
          for (int64_t j = 0; j < s.cols; ++j) {
            double h = std::fabs(get(a.dout, i, j) * get(a.weight, 0, j)) / static_cast<double>(s.cols);
            m1 += h, m2 += h * xhat_of(j);
          }
          for (int64_t j = 0; j < s.cols; ++j) {
            double h = std::fabs(get(a.dout, i, j) * get(a.weight, 0, j)),
                   side = a.dsum.absent() ? 0 : std::fabs(get(a.dsum, i, j));
            dx_error[i * s.cols + j] =
                kU32 * side + rstd * (gamma32(6) * h + gamma32(s.cols + 6) * m1 + gamma32(s.cols + 12) * xhat_of(j) * m2);
            dw[j] += std::fabs(get(a.dout, i, j)) * xhat_of(j), db[j] += std::fabs(get(a.dout, i, j));
          }
        }
        for (int64_t j = 0; a.accumulate && j < s.cols; ++j)
          dw[j] += std::fabs(get(a.dweight, 0, j)), db[j] += std::fabs(get(a.dbias, 0, j));
        auto o = run_both(a);
        auto error = [&](int64_t i) { return dx_error[i]; };
        expect_close(o["dx"], error, "dx " + at(t, s));
        if (variant == 2) expect_close(o["dbranch"], error, "dbranch " + at(t, s));
        if (variant > 0) {
          expect_close(
              o["dweight"], [&](int64_t j) { return gamma32(s.rows + 5) * dw[j]; }, "dweight " + at(t, s));
          expect_close(
              o["dbias"], [&](int64_t j) { return gamma32(s.rows + 2) * db[j]; }, "dbias " + at(t, s));
        }
        c.expect_intact();
      }
}

// The residual stream may be wider than the compute type, and the result as wide as the stream.
TEST(CpuNorms, LayerNormMixedTypes) {
  for (DType out : {DType::bf16, DType::f32})
    for (Size s : kSizes) {
      Case c;
      LayerNormForward a;
      a.x = c.input(1, DType::f32, {s.rows, s.cols}), a.branch = c.input(2, DType::bf16, {s.rows, s.cols});
      a.weight = c.input(3, DType::f32, {s.cols}), a.bias = c.input(4, DType::f32, {s.cols}), a.sum = a.x;
      a.out = c.output(out, {s.rows, s.cols}), a.mean = c.output(DType::f32, {s.rows}), a.rstd = c.output(DType::f32, {s.rows});
      // Sums are at most 2, so 1/rstd is at least a sixth of them, and errors below are multiplied by at most six.
      a.eps = 0.1;
      auto o = run_both(a);
      expect_close(
          o["out"], [&](int64_t) { return 2 * 6 * 6 * gamma32(s.cols + 20) * 2; }, "out " + at(out, s));
    }
}

const Size kHeads[] = {{3, 8}, {1, 10}, {4, 64}, {2, 128}, {5, 7}};  // heads and their size

TEST(CpuNorms, HeadNorm) {
  for (DType t : kFloats)
    for (int64_t rows : {1, 7, 1030})
      for (Size h : kHeads) {
        Case c;
        TensorView wide = c.input(1, t, {rows, 2 * h.rows * h.cols}, 3);  // q is a slice of a product's output
        HeadNormForward a;
        a.x = wide.columns(h.rows * h.cols, h.rows * h.cols), a.weight = c.input(2, t, {h.cols});
        a.out = c.output(t, {rows, h.rows * h.cols}, 1), a.rstd = c.output(DType::f32, {rows, h.rows}, 2), a.eps = 1e-5;
        auto o = run_both(a);
        double r = gamma32((h.cols + 2) / 2.0 + 2 * kFunction);
        expect_close(
            o["rstd"], [&](int64_t i) { return r * o["rstd"].want[i]; }, "rstd " + at(t, h));
        expect_close(
            o["out"], [&](int64_t i) { return (r + gamma32(2)) * std::fabs(o["out"].want[i]); }, "out " + at(t, h));
        c.expect_intact();
      }
}

TEST(CpuNorms, HeadNormBackward) {
  for (DType t : kFloats)
    for (int64_t rows : {1, 7, 1030})
      for (Size h : kHeads)
        for (bool accumulate : {false, true}) {
          Case c;
          int64_t cols = h.rows * h.cols;
          HeadNormBackward a;
          a.dout = c.input(1, t, {rows, cols}, 2), a.weight = c.input(2, t, {h.cols});
          a.x = c.input(3, t, {rows, 2 * cols}, 1).view().columns(cols, cols);
          a.rstd = c.input(4, DType::f32, {rows, h.rows}).random(4, 0.5, 1);
          a.dx = c.output(t, {rows, cols}, 5);
          a.dweight = accumulate ? c.input(5, DType::f32, {h.cols}) : c.output(DType::f32, {h.cols});
          a.accumulate = accumulate;
          std::vector<double> error(rows * cols), dw(h.cols);
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t g = 0; g < h.rows; ++g) {
              double rstd = get(a.rstd, i, g), mean = 0;
              auto hat = [&](int64_t j) { return std::fabs(get(a.x, i, g * h.cols + j)) * rstd; };
              auto in = [&](int64_t j) { return std::fabs(get(a.dout, i, g * h.cols + j) * get(a.weight, 0, j)); };
              for (int64_t j = 0; j < h.cols; ++j) mean += in(j)*hat(j) / static_cast<double>(h.cols);
              for (int64_t j = 0; j < h.cols; ++j) {
                error[i * cols + g * h.cols + j] = rstd * (gamma32(5) * in(j) + gamma32(h.cols + 10) * hat(j) * mean);
                dw[j] += std::fabs(get(a.dout, i, g * h.cols + j)) * hat(j);
              }
            }
          for (int64_t j = 0; accumulate && j < h.cols; ++j) dw[j] += std::fabs(get(a.dweight, 0, j));
          auto o = run_both(a);
          expect_close(
              o["dx"], [&](int64_t i) { return error[i]; }, "dx " + at(t, h));
          expect_close(
              o["dweight"], [&](int64_t j) { return gamma32(rows * h.rows + 4) * dw[j]; }, "dweight " + at(t, h));
          c.expect_intact();
        }
}

// The parts of a norm over rows that are divided over ranks, from squares and dots of whole rows.
TEST(CpuNorms, PartNorm) {
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool weighted : {false, true}) {
        Case c;
        const TensorView x = c.input(1, t, {s.rows, 2 * s.cols}, 3).view().columns(s.cols, s.cols),
                         y = c.input(2, t, {s.rows, s.cols}, 2), weight = c.input(3, t, {s.cols});
        RowDot dot{.x = x, .y = y, .weight = weighted ? weight : TensorView{}, .out = c.output(DType::f32, {s.rows}, 4)};
        auto d = run_both(dot);
        std::vector<double> terms(static_cast<size_t>(s.rows));
        for (int64_t i = 0; i < s.rows; ++i)
          for (int64_t j = 0; j < s.cols; ++j)
            terms[i] += std::fabs(get(x, i, j) * get(y, i, j) * (weighted ? get(weight, 0, j) : 1));
        expect_close(
            d["out"], [&](int64_t i) { return gamma32(s.cols + 3) * terms[i]; }, "dot " + at(t, s));
        PartNormForward f{.x = x,
                          .weight = weight,
                          .squares = c.input(4, DType::f32, {s.rows}).random(5, 0.5, 9),
                          .out = c.output(t, {s.rows, s.cols}, 6),
                          .rstd = c.output(DType::f32, {s.rows}, 7),
                          .width = 3 * s.cols,
                          .eps = 1e-5};
        auto o = run_both(f);
        expect_close(
            o["rstd"], [&](int64_t i) { return gamma32(2) * o["rstd"].want[i]; }, "rstd " + at(t, s));
        expect_close(
            o["out"], [&](int64_t i) { return gamma32(4) * std::fabs(o["out"].want[i]); }, "out " + at(t, s));
        c.expect_intact();
      }
}

TEST(CpuNorms, PartNormBackward) {
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool accumulate : {false, true}) {
        Case c;
        PartNormBackward a;
        a.dout = c.input(1, t, {s.rows, s.cols}, 2), a.weight = c.input(2, t, {s.cols});
        a.x = c.input(3, t, {s.rows, 2 * s.cols}, 1).view().columns(s.cols, s.cols);
        a.rstd = c.input(4, DType::f32, {s.rows}).random(4, 0.5, 1), a.dots = c.input(5, DType::f32, {s.rows}, 3);
        a.dx = c.output(t, {s.rows, s.cols}, 5);
        a.dweight = accumulate ? c.input(6, DType::f32, {s.cols}) : c.output(DType::f32, {s.cols});
        a.width = 2 * s.cols, a.accumulate = accumulate;
        std::vector<double> error(static_cast<size_t>(s.rows * s.cols)), dw(static_cast<size_t>(s.cols));
        for (int64_t i = 0; i < s.rows; ++i) {
          const double rstd = get(a.rstd, 0, i), mean = std::fabs(get(a.dots, 0, i)) * rstd / static_cast<double>(a.width);
          for (int64_t j = 0; j < s.cols; ++j) {
            const double hat = std::fabs(get(a.x, i, j)) * rstd, dout = std::fabs(get(a.dout, i, j));
            error[i * s.cols + j] = rstd * (gamma32(4) * dout * std::fabs(get(a.weight, 0, j)) + gamma32(6) * hat * mean);
            dw[j] += dout * hat;
          }
        }
        for (int64_t j = 0; accumulate && j < s.cols; ++j) dw[j] += std::fabs(get(a.dweight, 0, j));
        auto o = run_both(a);
        expect_close(
            o["dx"], [&](int64_t i) { return error[i]; }, "dx " + at(t, s));
        expect_close(
            o["dweight"], [&](int64_t j) { return gamma32(s.rows + 4) * dw[j]; }, "dweight " + at(t, s));
        c.expect_intact();
      }
}

// A row of zeros has no direction and stays zero; also in place.
TEST(CpuNorms, UnitRows) {
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool in_place : {false, true}) {
        Case c;
        UnitRowsForward a;
        a.x = c.input(1, DType::f32, {s.rows, s.cols}, 3);
        for (int64_t j = 0; j < s.cols; ++j) put(a.x, 0, j, 0);
        a.out = in_place ? a.x : c.output(t, {s.rows, s.cols}, 2).view();
        if (in_place && t != DType::f32) continue;
        std::vector<double> want = run_ref(a)["out"];
        auto o = run_both(a)["out"];
        expect_close(
            o, [&](int64_t i) { return gamma32((s.cols + 1) / 2.0 + 2 * kFunction + 1) * std::fabs(o.want[i]); }, at(t, s));
        c.expect_intact();
      }
}

// dx = r (dout - y (y . dout)): the error of y . dout is gamma(C + 3 + rounding of y) times the magnitudes.
TEST(CpuNorms, UnitRowsBackward) {
  for (DType t : kFloats)
    for (Size s : kSizes)
      for (bool accumulate : {false, true}) {
        Case c;
        UnitRowsBackward a;
        a.dout = c.input(1, t, {s.rows, s.cols}, 3), a.x = c.input(2, DType::f32, {s.rows, s.cols}, 1);
        a.dx = accumulate ? c.input(3, DType::f32, {s.rows, s.cols}, 2) : c.output(DType::f32, {s.rows, s.cols}, 2);
        a.accumulate = accumulate;
        std::vector<double> error(s.rows * s.cols);
        for (int64_t i = 0; i < s.rows; ++i) {
          double squares = 0, dot = 0;
          for (int64_t j = 0; j < s.cols; ++j) squares += get(a.x, i, j) * get(a.x, i, j);
          double r = 1 / std::sqrt(squares);
          for (int64_t j = 0; j < s.cols; ++j) dot += std::fabs(get(a.x, i, j) * r * get(a.dout, i, j));
          for (int64_t j = 0; j < s.cols; ++j)
            error[i * s.cols + j] = r * gamma32(1.5 * static_cast<double>(s.cols) + 4 * kFunction) *
                                        (std::fabs(get(a.dout, i, j)) + std::fabs(get(a.x, i, j)) * r * dot) +
                                    (accumulate ? kU32 * std::fabs(get(a.dx, i, j)) : 0);
        }
        auto o = run_both(a);
        expect_close(
            o["dx"], [&](int64_t i) { return error[i]; }, "dx " + at(t, s));
        c.expect_intact();
      }
}

// x Phi(x): Phi is computed as 1/2 + erf/2, so it has roundings of 1/2 even if it is small. The tanh form is x times a
// sigmoid; a rounding of its argument u is multiplied by |u|.
constexpr double kTiny = 0x1p-148;  // roundings of a sigmoid that is subnormal
double gelu_error(double x, GeluForm form) {
  if (form == GeluForm::exact) return std::fabs(x) * gamma32(kFunction);
  double u = 2 * std::sqrt(2 / std::numbers::pi) * std::fabs(x) * (1 + 0.044715 * x * x),
         s = 1 / (1 + std::exp(x > 0 ? -u : u));
  return std::fabs(x) * (s * gamma32(2 * kFunction + 2 + 5 * std::min(u, 104.0)) + kTiny);
}

const Size kElementwise[] = {{1, 10}, {3, 257}, {5, 768}, {1030, 33}};

TEST(CpuNorms, Gelu) {
  for (GeluForm form : {GeluForm::exact, GeluForm::tanh})
    for (DType t : kFloats)
      for (Size s : kElementwise)
        for (double scale : {1.0, 6.0, 30.0})
          for (bool in_place : {false, true}) {
            Case c;
            GeluForward a;
            a.x = c.input(1, t, {s.rows, s.cols}, 3, scale), a.out = in_place ? a.x : c.output(t, {s.rows, s.cols}, 2).view(),
            a.form = form;
            auto x = values(a.x);
            expect_close(
                run_both(a)["out"], [&](int64_t i) { return gelu_error(x[i], form); }, at(t, s));
            c.expect_intact();
          }
}

// Derivative = Phi + x phi, or s + x s (1 - s) 2u': the terms and their roundings.
TEST(CpuNorms, GeluBackward) {
  for (GeluForm form : {GeluForm::exact, GeluForm::tanh})
    for (DType t : kFloats)
      for (Size s : kElementwise)
        for (double scale : {1.0, 6.0, 30.0})
          for (bool in_place : {false, true}) {
            Case c;
            GeluBackward a;
            a.x = c.input(1, t, {s.rows, s.cols}, 3, scale), a.dout = c.input(2, t, {s.rows, s.cols}, 1), a.form = form;
            a.dx = in_place ? a.dout : c.output(t, {s.rows, s.cols}, 2).view();
            auto x = values(a.x), dout = values(a.dout);
            auto error = [&](int64_t i) {
              double v = std::fabs(x[i]);
              if (form == GeluForm::exact) {
                double density = std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
                return std::fabs(dout[i]) *
                       (gamma32(2 * kFunction) + v * density * gamma32(2 * kFunction + std::min(v * v, 200.0)));
              }
              double root = 2 * std::sqrt(2 / std::numbers::pi), u = root * v * (1 + 0.044715 * v * v), e = std::exp(-u);
              double s1 = x[i] > 0 ? 1 / (1 + e) : e / (1 + e), steep = e / ((1 + e) * (1 + e)),
                     du = root * (1 + 3 * 0.044715 * v * v);
              double wide = gamma32(3 * kFunction + 6 + 5 * std::min(u, 104.0));
              return std::fabs(dout[i]) * (wide * (s1 + v * steep * du) + kTiny * (1 + v * du));
            };
            expect_close(run_both(a)["dx"], error, at(t, s));
            c.expect_intact();
          }
}

}  // namespace test_cpu_norms
}  // namespace ravine
