// Flat kernels of the cpu backend (fill, sums of squares, optimizers) on each instruction set. For all kernels: the
// same bits for any number of threads, NaN and infinities, errors.
#include "tests/unit/cpu_rows.h"

namespace ravine {
namespace test_cpu_updates {

TEST(CpuUpdates, FillEveryType) {
  for (DType t : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32})
    for (double v : {0.0, -3.0}) {
      RowBuffer out(t, 5, 33);
      run(Fill{out.view(), v});
      for (int64_t i = 0; i < 5; ++i)
        for (int64_t j = 0; j < 33; ++j) ASSERT_EQ(out.get(i, j), v);
      ASSERT_TRUE(out.gaps_untouched());
    }
}

TEST(CpuUpdates, SumSquares) {
  each_target([] {
    for (DType t : kTypes)
      for (int64_t n : {1, 1023, 1025, 300001}) {
        RowBuffer x = vector_of(t, n, 1);
        ExactSum got;
        run(SumSquares{flat(x), &got});
        long double want = 0;
        for (int64_t i = 0; i < n; ++i) want += static_cast<long double>(x.get(0, i)) * x.get(0, i);
        ASSERT_NEAR(got.value(), static_cast<double>(want), 1024 * 0x1p-52 * static_cast<double>(want));
      }
  });
}

TEST(CpuUpdates, AdamW) {
  each_target([] {
    for (DType tg : kTypes)
      for (int copied : {0, 1, 2})
        for (bool l2 : {false, true}) {
          const int64_t n = 40000;
          RowBuffer p = vector_of(DType::f32, n, 1), g = vector_of(tg, n, 2), m = vector_of(DType::f32, n, 3),
                    v = vector_of(DType::f32, n, 4);
          for (int64_t i = 0; i < n; ++i) v.set(0, i, std::abs(v.get(0, i)));
          RowBuffer copy = vector_of(kTypes[copied], n, 9), p0 = p, m0 = m, v0 = v, c0 = copy;
          std::vector<double> scalars = {3e-3, 1 - std::pow(0.9, 3), 1 - std::pow(0.95, 3), 0.3};
          std::vector<UpdateSpan> spans = {{0, 33000, 1, 0.1}, {33001, 500, 0.5, 0}, {33600, 6300, 2, 0.01}};
          AdamW a{flat(p), flat(g), flat(m), flat(v), {}, view_of(scalars.data(), DType::f64, {kStepScalars}),
                  spans,   0.9,     0.95,    1e-8,    l2};
          if (copied) a.copy = flat(copy);
          run(a);
          std::vector<bool> touched(n);
          for (const UpdateSpan& s : spans)
            for (int64_t i = s.begin; i < s.begin + s.count; ++i) {
              touched[i] = true;
              double lr = 3e-3 * s.lr_mult, x = p0.get(0, i), d = g.get(0, i) * 0.3 + (l2 ? s.weight_decay * x : 0);
              double mean = 0.9 * m0.get(0, i) + (1 - 0.9) * d, square = 0.95 * v0.get(0, i) + (1 - 0.95) * d * d;
              double step = lr * (mean / scalars[1]) / (std::sqrt(square / scalars[2]) + 1e-8),
                     decay = l2 ? 0 : lr * s.weight_decay * x;
              double size = std::abs(m0.get(0, i)) + std::abs(g.get(0, i) * 0.3) + (l2 ? s.weight_decay * std::abs(x) : 0);
              NEAR_ALL(m, 0, i, mean, size, 3);
              NEAR_ALL(v, 0, i, square, square + size * size * 0.05, 5);
              double unit = lr / scalars[1] / (std::sqrt(square / scalars[2]) + 1e-8);
              double slack = l2 ? std::abs(step) * size * size * 0.05 / (square + 1e-30) : 0;
              // The decay factor is rounded, as in torch, and so is the result: two of the six roundings have the size
              // of p.
              NEAR_ALL(p, 0, i, x - decay - step, std::abs(x) / 3 + unit * size + std::abs(step) + std::abs(decay) + slack, 6);
              RowBuffer rounded = vector_of(copy.type, 1);
              rounded.set(0, 0, p.get(0, i));
              if (copied) {
                ASSERT_EQ(copy.get(0, i), rounded.get(0, 0));
              }
            }
          for (int64_t i = 0; i < n; ++i)
            ASSERT_TRUE(touched[i] ||
                        (p.get(0, i) == p0.get(0, i) && m.get(0, i) == m0.get(0, i) && copy.get(0, i) == c0.get(0, i)));
        }
  });
}

TEST(CpuUpdates, Sgd) {
  each_target([] {
    for (DType tg : kTypes)
      for (int how : {0, 1, 2, 3}) {  // plain, first step, momentum, nesterov
        const int64_t n = 20001;
        RowBuffer p = vector_of(DType::f32, n, 1), g = vector_of(tg, n, 2), b = vector_of(DType::f32, n, 3),
                  copy = vector_of(DType::bf16, n);
        RowBuffer p0 = p, b0 = b;
        std::vector<double> scalars = {0.01, 1, 1, 0.7};
        std::vector<UpdateSpan> spans = {{0, n, 1, 0.1}};
        Sgd a{flat(p), flat(g), {},  flat(copy), view_of(scalars.data(), DType::f64, {kStepScalars}),
              spans,   0.9,     0.2, how == 3,   how == 1};
        if (how) a.buffer = flat(b);
        run(a);
        for (int64_t i = 0; i < n; ++i) {
          double x = p0.get(0, i), d = g.get(0, i) * 0.7 + 0.1 * x,
                 size = std::abs(g.get(0, i)) + std::abs(x) + std::abs(b0.get(0, i));
          double buffer = how == 1 ? d : 0.9 * b0.get(0, i) + (1 - 0.2) * d;
          double move = how == 0 ? d : how == 3 ? d + 0.9 * buffer : buffer;
          if (how) NEAR_ALL(b, 0, i, buffer, size, 4);
          NEAR_ALL(p, 0, i, x - 0.01 * move, 0.01 * size, 8);
          ASSERT_EQ(copy.get(0, i), static_cast<float>(bf16(static_cast<float>(p.get(0, i)))));
        }
      }
  });
}

// If data ranks divide a buffer, it has more zeros at its end than on one rank. The norm must be equal.
TEST(CpuUpdates, ZerosBehindChangeNoBitOfASumOfSquares) {
  each_target([] {
    for (DType t : kTypes)
      for (int64_t n : {1, 5, 15, 16, 31, 48, 304, 1000, 1008, 1023, 2 * 1024 + 304}) {
        RowBuffer x = vector_of(t, n, 1), padded = vector_of(t, 4096);
        for (int64_t i = 0; i < 4096; ++i) padded.set(0, i, i < n ? x.get(0, i) : 0);
        ExactSum some, more;
        run(SumSquares{flat(x), &some});
        run(SumSquares{flat(padded), &more});
        ASSERT_EQ(some.value(), more.value()) << n << " of " << name(t);
      }
  });
}

// An eps that matters, and both bias corrections separately.
TEST(CpuUpdates, AdamWsEpsIsAddedToTheRoot) {
  each_target([] {
    const int64_t n = 300;
    for (bool l2 : {false, true})
      for (double eps : {0.5, 1e-3}) {
        RowBuffer p = vector_of(DType::f32, n, 1), g = vector_of(DType::f32, n, 2), m = vector_of(DType::f32, n),
                  v = vector_of(DType::f32, n);
        for (int64_t i = 0; i < n; ++i) m.set(0, i, 0.25), v.set(0, i, 0.0625);
        RowBuffer p0 = p;
        std::vector<double> scalars = {0.125, 0.75, 0.5, 1};
        std::vector<UpdateSpan> spans = {{0, n, 1, 0}};
        run(AdamW{flat(p),
                  flat(g),
                  flat(m),
                  flat(v),
                  {},
                  view_of(scalars.data(), DType::f64, {kStepScalars}),
                  spans,
                  0.5,
                  0.5,
                  eps,
                  l2});
        for (int64_t i = 0; i < n; ++i) {
          const double mean = 0.125 + 0.5 * g.get(0, i), square = 0.03125 + 0.5 * g.get(0, i) * g.get(0, i);
          const double step = 0.125 * (mean / 0.75) / (std::sqrt(square / 0.5) + eps),
                       size = 0.125 * (0.125 + 0.5 * std::abs(g.get(0, i))) / 0.75 / (std::sqrt(square / 0.5) + eps);
          NEAR_ALL(p, 0, i, p0.get(0, i) - step, std::abs(p0.get(0, i)) + size, 8);
        }
      }
  });
}

// torch.optim.SGD: in the first step the buffer is the gradient, undamped. Nesterov also applies in the first step.
TEST(CpuUpdates, SgdsFirstStepWithEverySwitch) {
  each_target([] {
    const int64_t n = 77;
    for (bool first : {false, true})
      for (bool nesterov : {false, true})
        for (double dampening : {0.0, 0.25})
          for (bool copied : {false, true}) {
            RowBuffer p = vector_of(DType::f32, n, 1), g = vector_of(DType::bf16, n, 2), b = vector_of(DType::f32, n, 3),
                      copy = vector_of(DType::f16, n), p0 = p, b0 = b;
            std::vector<double> scalars = {0.25, 1, 1, 0.5};
            std::vector<UpdateSpan> spans = {{0, 40, 1, 0.125}, {40, n - 40, 2, 0.5}};
            Sgd a{flat(p), flat(g), flat(b),   {},       view_of(scalars.data(), DType::f64, {kStepScalars}),
                  spans,   0.75,    dampening, nesterov, first};
            if (copied) a.copy = flat(copy);
            run(a);
            for (int64_t i = 0; i < n; ++i) {
              const double lr = i < 40 ? 0.25 : 0.5, x = p0.get(0, i), d = 0.5 * g.get(0, i) + (i < 40 ? 0.125 : 0.5) * x;
              const double size = std::abs(g.get(0, i)) + std::abs(x) + std::abs(b0.get(0, i)),
                           buffer = first ? d : 0.75 * b0.get(0, i) + (1 - dampening) * d;
              NEAR_ALL(b, 0, i, buffer, size, 4);
              NEAR_ALL(p, 0, i, x - lr * (nesterov ? d + 0.75 * buffer : buffer), size, 8);
              if (copied) {
                ASSERT_EQ(copy.get(0, i), static_cast<float>(f16(static_cast<float>(p.get(0, i)))));
              }
            }
          }
  });
}

TEST(CpuUpdates, SameBitsForAnyNumberOfThreads) {
  const int threads = thread_count();
  std::vector<std::vector<char>> first;
  for (int t : {1, 2, 3, 5}) {
    set_thread_count(t);
    const int64_t n = 700, c = 200, v = 300;
    RowBuffer x(DType::f32, n, c, 1), dout(DType::bf16, n, c, 2), dx(DType::f32, n, c), w = vector_of(DType::f32, c, 3),
                                                                                        dw = vector_of(DType::f32, c);
    RowBuffer rstd = vector_of(DType::f32, n, 4), sums = vector_of(DType::f32, c), ids = vector_of(DType::i32, n),
              dv(DType::f32, v, c, 7, 0);
    RowBuffer norm = vector_of(DType::f64, 1);
    for (int64_t i = 0; i < n; ++i) ids.set(0, i, static_cast<double>(i % 5 ? i * 31 % v : 1));
    run(RmsNormBackward{dout.view(), x.view(), flat(w), flat(rstd), {}, dx.view(), {}, flat(dw), false});
    run(SumRows{dout.view(), flat(sums), false});
    run(EmbeddingBackward{flat(ids), dout.view(), dv.view(), -1, true});
    ExactSum squares;
    run(SumSquares{flat(dv), &squares});
    norm.set(0, 0, squares.value());
    std::vector<std::vector<char>> got = {dx.bytes, dw.bytes, sums.bytes, dv.bytes, norm.bytes};
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << t << " threads";
  }
  set_thread_count(threads);
}

TEST(CpuUpdates, NanAndInfinityReachTheResult) {
  each_target([] {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    for (DType t : kTypes)
      for (double bad : {nan, inf, -inf})
        for (int64_t at : {0, 18, 36}) {
          const int64_t c = 37;
          RowBuffer x(t, 1, c, 1), y(t, 1, c, 2), out(t, 1, c), w = vector_of(DType::f32, c, 3),
                                                                rstd = vector_of(DType::f32, 1);
          RowBuffer label = vector_of(DType::i32, 1), loss = vector_of(DType::f64, 1);
          label.set(0, 0, 5);
          x.set(0, at, bad);
          run(RmsNormForward{x.view(), {}, flat(w), {}, out.view(), flat(rstd), 1e-5});
          EXPECT_TRUE(std::isnan(out.get(0, at)));
          EXPECT_EQ(std::isnan(rstd.get(0, 0)), std::isnan(bad));
          run(SwigluForward{x.view(), y.view(), out.view()});
          EXPECT_EQ(std::isnan(out.get(0, at)), bad != inf);
          EXPECT_FALSE(std::isfinite(out.get(0, at)));
          run(SwigluForward{y.view(), x.view(), out.view()});
          EXPECT_FALSE(std::isfinite(out.get(0, at)));
          if (bad != -inf) {  // a logit of -inf is a forbidden token, not an error
            run(SoftmaxForward{x.view(), out.view(), 1.0, false, 0});
            for (int64_t j = 0; j < c; ++j) EXPECT_TRUE(std::isnan(out.get(0, j)) || (bad == inf && j != at));
            EXPECT_TRUE(std::isnan(out.get(0, at)));
            run(CrossEntropy{x.view(), flat(label), flat(loss), out.view(), 1.0});
            EXPECT_TRUE(std::isnan(loss.get(0, 0)));
            EXPECT_TRUE(std::isnan(out.get(0, at)));
          }
          ExactSum squares;
          RowBuffer all = vector_of(t, c, 1);
          all.set(0, at, bad);
          run(SumSquares{flat(all), &squares});
          EXPECT_FALSE(std::isfinite(squares.value()));
        }
  });
}

TEST(CpuUpdates, WrongShapesAreNamed) {
  RowBuffer x(DType::f32, 3, 8, 1), y(DType::f32, 3, 9, 1), w = vector_of(DType::f32, 7, 1), rstd = vector_of(DType::f32, 3);
  try {
    run(RmsNormForward{x.view(), {}, flat(w), {}, x.view(), flat(rstd)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rms_norm: weight has 7 elements, rows of x have 8");
  }
  EXPECT_THROW(run(Add{x.view(), y.view(), x.view()}), Error);
  RowBuffer d(DType::f64, 3, 8, 1);
  EXPECT_THROW(run(Add{x.view(), d.view(), x.view()}), Error);
}

}  // namespace test_cpu_updates
}  // namespace ravine
