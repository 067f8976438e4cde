// The kernels of update rules other than AdamW and SGD: each against its formula as a plain loop in double. Each runs
// on each instruction set, with the same bits for any number of threads. Bounds count f32 roundings of the added terms.
#include <algorithm>
#include <bit>

#include "tests/unit/cpu_rows.h"

namespace ravine {
namespace test_cpu_rules {

const int64_t kCounts[] = {1, 15, 17, 300, 40001};

// Runs f on copies of the tensors that it changes, with 1, 2 and 3 threads on each instruction set, and compares bits;
// then check().
template <class F, class C>
void each_vector_width(std::vector<RowBuffer*> changed, F f, C check) {
  std::vector<RowBuffer> before;
  for (RowBuffer* b : changed) before.push_back(*b);
  const int usual = thread_count();
  each_target([&] {
    std::vector<std::vector<char>> first;
    for (int threads : {1, 2, 3}) {
      set_thread_count(threads);
      for (size_t i = 0; i < changed.size(); ++i) *changed[i] = before[i];
      f();
      std::vector<std::vector<char>> got;
      for (RowBuffer* b : changed) got.push_back(b->bytes);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first) << threads << " threads";
    }
    check(before);
  });
  set_thread_count(usual);
}

void make_positive(RowBuffer& b) {
  for (int64_t i = 0; i < b.rows; ++i)
    for (int64_t j = 0; j < b.cols; ++j) b.set(i, j, std::abs(b.get(i, j)) + 1e-3);
}

TEST(CpuRules, Lion) {
  for (int64_t n : kCounts)
    for (DType tg : kTypes) {
      RowBuffer p = vector_of(DType::f32, n, 1), g = vector_of(tg, n, 2), m = vector_of(DType::f32, n, 3),
                copy = vector_of(DType::bf16, n, 4);
      const std::vector<UpdateSpan> spans = {{0, n / 3, 1, 0.1}, {n / 3, n - n / 3, 2, 0}};
      std::vector<double> scalars = {0.01, 0, 0, 0.5};
      each_vector_width(
          {&p, &m, &copy},
          [&] {
            run(Lion{flat(p), flat(g), flat(m), flat(copy), view_of(scalars.data(), DType::f64, {kStepScalars}), spans, 0.9,
                     0.99});
          },
          [&](std::vector<RowBuffer>& was) {
            for (int64_t i = 0; i < n; ++i) {
              const bool first = i < n / 3;
              const double lr = first ? 0.01 : 0.02, x = was[0].get(0, i), old = was[1].get(0, i), d = 0.5 * g.get(0, i),
                           direction = 0.9 * old + 0.1 * d, size = std::abs(old) + std::abs(d);
              NEAR_ALL(m, 0, i, 0.99 * old + 0.01 * d, size, 4);
              if (std::abs(direction) > 4 * kF32 * size)  // near 0 the sign is not determined
                NEAR_ALL(p, 0, i, x * (1 - lr * (first ? 0.1 : 0)) - std::copysign(lr, direction), std::abs(x) + lr, 3);
              ASSERT_EQ(copy.get(0, i), static_cast<double>(static_cast<float>(bf16(static_cast<float>(p.get(0, i))))));
            }
          });
    }
}

TEST(CpuRules, LionsZeroIsPositive) {
  RowBuffer p = vector_of(DType::f32, 20), g = vector_of(DType::f32, 20), m = vector_of(DType::f32, 20);
  std::vector<double> scalars = {0.25, 0, 0, 1};
  const std::vector<UpdateSpan> spans = {{0, 20, 1, 0}};
  run(Lion{flat(p), flat(g), flat(m), {}, view_of(scalars.data(), DType::f64, {kStepScalars}), spans, 0.9, 0.99});
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(p.get(0, i), -0.25);
}

TEST(CpuRules, Adagrad) {
  for (int64_t n : kCounts)
    for (bool first : {false, true}) {
      RowBuffer p = vector_of(DType::f32, n, 1), g = vector_of(DType::bf16, n, 2), sum = vector_of(DType::f32, n, 3);
      make_positive(sum);
      const std::vector<UpdateSpan> spans = {{0, n, 1, 0.25}};
      std::vector<double> scalars = {0.125, 0, 0, 0.5};
      each_vector_width(
          {&p, &sum},
          [&] {
            run(Adagrad{
                flat(p), flat(g), flat(sum), {}, view_of(scalars.data(), DType::f64, {kStepScalars}), spans, 1e-3, 0.5, first});
          },
          [&](std::vector<RowBuffer>& was) {
            for (int64_t i = 0; i < n; ++i) {
              const double x = was[0].get(0, i), d = 0.5 * g.get(0, i) + 0.25 * x, size = std::abs(g.get(0, i)) + std::abs(x);
              const double total = (first ? 0.5 : was[1].get(0, i)) + d * d;
              NEAR_ALL(sum, 0, i, total, total + size * size, 4);
              NEAR_ALL(p, 0, i, x - 0.125 * d / (std::sqrt(total) + 1e-3), std::abs(x) + 0.125 * size / std::sqrt(total), 12);
            }
          });
    }
}

TEST(CpuRules, WeightedSumsAndTheDirectionOfAdam) {
  for (int64_t n : kCounts) {
    RowBuffer y = vector_of(DType::f32, n, 1), x = vector_of(DType::f16, n, 2);
    each_vector_width(
        {&y},
        [&] {
          run(WeightedSum{flat(y), flat(x), 0.75, -0.3});
        },
        [&](std::vector<RowBuffer>& was) {
          for (int64_t i = 0; i < n; ++i)
            NEAR_ALL(y, 0, i, 0.75 * was[0].get(0, i) - 0.3 * x.get(0, i), std::abs(was[0].get(0, i)) + std::abs(x.get(0, i)),
                     3);
        });
    RowBuffer p = vector_of(DType::f32, n, 3), m = vector_of(DType::f32, n, 4), v = vector_of(DType::f32, n, 5),
              out = vector_of(DType::f32, n);
    make_positive(v);
    for (bool frozen : {false, true})
      each_vector_width(
          {&m, &v, &out},
          [&] {
            run(AdamDirection{flat(p), flat(x), flat(m), flat(v), flat(out), frozen ? 1 : 0.9, frozen ? 1 : 0.99, 1e-3, 0.25,
                              0.5});
          },
          [&](std::vector<RowBuffer>& was) {
            for (int64_t i = 0; i < n; ++i) {
              const double g = 0.5 * x.get(0, i), old = was[0].get(0, i);
              const double mean = frozen ? old : 0.9 * old + 0.1 * g,
                           square = frozen ? was[1].get(0, i) : 0.99 * was[1].get(0, i) + 0.01 * g * g;
              if (frozen) ASSERT_TRUE(m.get(0, i) == old && v.get(0, i) == was[1].get(0, i)) << "a beta of 1 changes no bit";
              NEAR_ALL(m, 0, i, mean, std::abs(old) + std::abs(g), 4);
              NEAR_ALL(v, 0, i, square, square, 5);
              const double root = std::sqrt(square) + 1e-3;
              NEAR_ALL(out, 0, i, mean / root + 0.25 * p.get(0, i),
                       (std::abs(old) + std::abs(g)) / root + std::abs(p.get(0, i)), 10);
            }
          });
  }
}

TEST(CpuRules, RowsAndColumnsOfSquares) {
  for (auto [matrices, rows, columns] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {2, 3, 5}, {1, 33, 70}, {1, 600, 130}, {3, 7, 16400}})
    for (bool difference : {false, true}) {
      RowBuffer x = vector_of(DType::f32, matrices * rows * columns, 1), minus = vector_of(DType::f32, x.cols, 2),
                row = vector_of(DType::f32, matrices * rows, 3), col = vector_of(DType::f32, matrices * columns, 4),
                out = vector_of(DType::f32, x.cols);
      make_positive(row), make_positive(col);
      const Shape shape = {matrices, rows, columns};
      const TensorView xs = view_of(x.bytes.data(), DType::f32, shape), ms = view_of(minus.bytes.data(), DType::f32, shape),
                       os = view_of(out.bytes.data(), DType::f32, shape);
      each_vector_width(
          {&row, &col, &out},
          [&] {
            run(FactoredMoments{xs, difference ? ms : TensorView{}, flat(row), flat(col), 0.7, 1e-3, 0.5});
            run(FactoredScale{xs, flat(row), flat(col), os, 2});
          },
          [&](std::vector<RowBuffer>& was) {
            std::vector<double> across(static_cast<size_t>(row.cols)), down(static_cast<size_t>(col.cols)),
                mean(static_cast<size_t>(matrices));
            for (int64_t i = 0; i < x.cols; ++i) {
              const double d = 0.5 * x.get(0, i) - (difference ? minus.get(0, i) : 0), square = d * d + 1e-3;
              across[static_cast<size_t>(i / columns)] += square / static_cast<double>(columns);
              down[static_cast<size_t>(i / (rows * columns) * columns + i % columns)] += square / static_cast<double>(rows);
            }
            // Differences of numbers of size 2; sums in runs of at most 64 lanes or 256 rows, and sums of these runs.
            const double steps =
                16 + std::max<double>(static_cast<double>(columns) / 16, 256 + static_cast<double>(rows) / 256);
            for (int64_t i = 0; i < row.cols; ++i) {
              NEAR_ALL(row, 0, i, 0.7 * was[0].get(0, i) + 0.3 * across[static_cast<size_t>(i)], 8, steps);
              mean[static_cast<size_t>(i / rows)] += row.get(0, i) / static_cast<double>(rows);
            }
            for (int64_t i = 0; i < col.cols; ++i)
              NEAR_ALL(col, 0, i, 0.7 * was[1].get(0, i) + 0.3 * down[static_cast<size_t>(i)], 8, steps);
            for (int64_t i = 0; i < x.cols; ++i) {
              const double want = 2 * x.get(0, i) /
                                  std::sqrt(row.get(0, i / columns) / mean[static_cast<size_t>(i / (rows * columns))]) /
                                  std::sqrt(col.get(0, i / (rows * columns) * columns + i % columns));
              NEAR_ALL(out, 0, i, want, std::abs(want), 5);
            }
          });
    }
}

TEST(CpuRules, RootsOfVectors) {
  for (int64_t n : kCounts) {
    RowBuffer x = vector_of(DType::bf16, n, 1), square = vector_of(DType::f32, n, 2), out = vector_of(DType::f32, n),
              direction = vector_of(DType::f32, n, 3);
    make_positive(square);
    double largest = 0;
    each_vector_width(
        {&square, &out, &direction},
        [&] {
          run(RootScale{flat(x), flat(square), flat(out), 0.75, 1e-3, 0.5});
          run(TimesRoot{flat(direction), flat(square), 1e-3});
          run(LargestRatio{flat(square), flat(square), view_of(&largest, DType::f64, {1}), 1e-3});
        },
        [&](std::vector<RowBuffer>& was) {
          for (int64_t i = 0; i < n; ++i) {
            const double g = 0.5 * x.get(0, i), s = 0.75 * was[0].get(0, i) + 0.25 * (g * g + 1e-3);
            NEAR_ALL(square, 0, i, s, s, 5);
            NEAR_ALL(out, 0, i, g / std::sqrt(s), std::abs(g) / std::sqrt(s), 6);
            NEAR_ALL(direction, 0, i, was[2].get(0, i) * (std::sqrt(square.get(0, i)) + 1e-3), std::abs(was[2].get(0, i)) * 2,
                     3);
          }
          ASSERT_EQ(largest, 1) << "of a vector to itself";
        });
    RowBuffer v = vector_of(DType::f32, n, 4), fresh = vector_of(DType::f32, n, 5);
    make_positive(v), make_positive(fresh);
    double want = 0;
    for (int64_t i = 0; i < n; ++i)
      want = std::max(want, (std::sqrt(v.get(0, i)) + 1e-3) / (std::sqrt(fresh.get(0, i)) + 1e-3));
    each_target([&] {
      run(LargestRatio{flat(v), flat(fresh), view_of(&largest, DType::f64, {1}), 1e-3});
      EXPECT_NEAR(largest, want, 6 * kF32 * want);
    });
  }
}

TEST(CpuRules, CadamKeepsItsMomentInSixteenBits) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {40, 33}, {2, 20000}}) {
    RowBuffer p = vector_of(DType::f32, rows * columns, 1), g = vector_of(DType::f32, p.cols, 2),
              q = vector_of(DType::f16, p.cols, 3, 60000), s = vector_of(DType::f32, rows, 4);
    for (int64_t r = 0; r < rows; ++r) s.set(0, r, 1e-5 * static_cast<double>(r + 1));
    const Shape shape = {rows, columns};
    each_vector_width(
        {&p, &q, &s},
        [&] {
          run(Cadam{view_of(p.bytes.data(), DType::f32, shape), view_of(g.bytes.data(), DType::f32, shape),
                    view_of(q.bytes.data(), DType::f16, shape), flat(s), 0.9, 0.01, 0.5, 2});
        },
        [&](std::vector<RowBuffer>& was) {
          for (int64_t r = 0; r < rows; ++r) {
            double largest = 0, size = 0;
            std::vector<double> m;
            for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
              m.push_back(0.9 * was[1].get(0, i) * was[2].get(0, r) + 0.1 * 2 * g.get(0, i));
              largest = std::max(largest, std::abs(m.back()));
              size = std::max(size, std::abs(was[1].get(0, i) * was[2].get(0, r)) + std::abs(g.get(0, i)));
            }
            NEAR_ALL(s, 0, r, largest / 65503 + 1e-8, size / 65503, 6);
            for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
              const double x = m[static_cast<size_t>(i - r * columns)];
              // Half a unit of f16, and the error of x in units of the scale.
              ASSERT_NEAR(q.get(0, i), x / s.get(0, r),
                          0x1p-11 * std::abs(x / s.get(0, r)) + 0x1p-24 + 8 * kF32 * size / s.get(0, r));
              if (std::abs(x) > 4 * kF32 * size)
                NEAR_ALL(p, 0, i, was[0].get(0, i) * (1 - 0.01 * 0.5) - std::copysign(0.01, x),
                         std::abs(was[0].get(0, i)) + 0.01, 3);
            }
          }
        });
  }
}

TEST(CpuRules, SignsInBits) {
  for (int64_t n : kCounts) {
    RowBuffer x = vector_of(DType::f32, n, 1), out = vector_of(DType::f32, n, 2);
    if (n > 3) x.set(0, 2, 0.0), x.set(0, 3, -0.0);
    std::vector<uint8_t> bits(static_cast<size_t>((n + 7) / 8));
    const TensorView packed = view_of(bits.data(), DType::u8, {static_cast<int64_t>(bits.size())});
    each_vector_width(
        {&x, &out},
        [&] {
          run(PackSigns{flat(x), packed, 0.25});
          run(UnpackSigns{packed, flat(out), 0.5, true});
        },
        [&](std::vector<RowBuffer>& was) {
          for (int64_t i = 0; i < n; ++i) {
            const double sign = was[0].get(0, i) >= 0 ? 1 : -1;
            ASSERT_EQ((bits[static_cast<size_t>(i / 8)] >> (7 - i % 8)) & 1, sign > 0)
                << "the first of eight is the highest bit, and 0 is positive";
            ASSERT_EQ(x.get(0, i), static_cast<double>(static_cast<float>(was[0].get(0, i) - 0.25 * sign)));
            ASSERT_EQ(out.get(0, i), static_cast<double>(static_cast<float>(was[1].get(0, i) + 0.5 * sign)));
          }
        });
    run(UnpackSigns{packed, flat(out), 2});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(std::abs(out.get(0, i)), 2);
  }
}

TEST(CpuRules, WrongShapesAreRefused) {
  RowBuffer a = vector_of(DType::f32, 8, 1), b = vector_of(DType::f32, 9, 1), wide = vector_of(DType::f64, 8, 1);
  EXPECT_THROW(run(WeightedSum{flat(a), flat(b)}), Error);
  EXPECT_THROW(run(WeightedSum{flat(wide), flat(a)}), Error);
  EXPECT_THROW(run(FactoredScale{flat(a), flat(a), flat(a), flat(a)}), Error) << "a vector is no matrix";
}

}  // namespace test_cpu_rules
}  // namespace ravine
