// The row kernels of the cpu backend on each instruction set of this machine. Cases: every mix of types, gaps between
// rows, row ends that fill no vector, and in place if the contract allows it.
#include "tests/unit/cpu_rows.h"

namespace ravine {
namespace test_cpu_rows {

double sigmoid(double g) { return 1 / (1 + std::exp(-g)); }

TEST(CpuRows, AddAllMixes) {
  each_target([] {
    for (DType ta : kTypes)
      for (DType tb : kTypes)
        for (DType to : kTypes)
          for (Size s : kSizes) {
            RowBuffer a(ta, s.rows, s.cols, 1), b(tb, s.rows, s.cols, 2), out(to, s.rows, s.cols);
            run(Add{a.view(), b.view(), out.view()});
            for (int64_t i = 0; i < s.rows; ++i)
              for (int64_t j = 0; j < s.cols; ++j) NEAR_ALL(out, i, j, a.get(i, j) + b.get(i, j), 0, 0);
            ASSERT_TRUE(out.gaps_untouched());
          }
  });
}

TEST(CpuRows, ConversionsAreThoseOfHalfH) {
  each_target([] {
    for (DType from : {DType::bf16, DType::f16}) {  // all bit patterns to f32 and back
      std::vector<uint16_t> in(65536), back(65536);
      std::vector<float> mid(65536);
      for (int i = 0; i < 65536; ++i) in[i] = static_cast<uint16_t>(i);
      convert_run(from, in.data(), DType::f32, mid.data(), 65536);
      convert_run(DType::f32, mid.data(), from, back.data(), 65536);
      for (int i = 0; i < 65536; ++i) {
        bf16 b;
        f16 h;
        b.bits = h.bits = in[i];
        float want = from == DType::bf16 ? static_cast<float>(b) : static_cast<float>(h);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(mid[i])) << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(mid[i]), std::bit_cast<uint32_t>(want)) << i;
          ASSERT_EQ(back[i], in[i]) << i;
        }
      }
    }
    const int n = 1 << 18;  // f32 bit patterns of the whole range
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) x[i] = std::bit_cast<float>(philox(5, {static_cast<uint32_t>(i), 0, 0, 0})[0]);
    for (int i = 0; i < 4096; ++i)
      x[i] = std::ldexp(1.0f + static_cast<float>(i) * 0x1p-12f, i % 50 - 30);  // ties, subnormal f16
    std::vector<bf16> b(n);
    std::vector<f16> h(n);
    convert_run(DType::f32, x.data(), DType::bf16, b.data(), n);
    convert_run(DType::f32, x.data(), DType::f16, h.data(), n);
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(b[i].bits, bf16(x[i]).bits) << x[i];
      ASSERT_EQ(h[i].bits, f16(x[i]).bits) << x[i];
    }
  });
}

TEST(CpuRows, CastRoundsTheValues) {
  each_target([] {
    for (DType from : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (DType to : {DType::f64, DType::f32, DType::bf16, DType::f16})
        for (DType by : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
          RowBuffer x(from, 3, 37, 9), out(to, 3, 37);
          run(Cast{x.view(), out.view(), by});
          for (int64_t i = 0; i < 3; ++i)
            for (int64_t j = 0; j < 37; ++j) {
              auto rounded = [](double v, DType t) -> double {
                if (t == DType::f64) return v;
                if (t == DType::f32) return static_cast<float>(v);
                double unit = std::ldexp(epsilon(t), std::max(std::ilogb(v == 0 ? 1 : v), t == DType::f16 ? -14 : -126));
                return std::nearbyint(v / unit) * unit;
              };
              ASSERT_EQ(out.get(i, j), rounded(rounded(x.get(i, j), by), to)) << name(from) << name(by) << name(to);
            }
          ASSERT_TRUE(out.gaps_untouched());
        }
  });
}

TEST(CpuRows, RmsNorm) {
  each_target([] {
    for (DType tx : kTypes)
      for (DType tb : kTypes)
        for (Size s : kSizes)
          for (int how : {0, 1, 2}) {  // alone, with branch, and sum
            RowBuffer x(tx, s.rows, s.cols, 1), branch(tb, s.rows, s.cols, 2), sum(tx, s.rows, s.cols), out(tb, s.rows, s.cols);
            RowBuffer weight = vector_of(how == 1 ? tb : DType::f32, s.cols, 3), rstd = vector_of(DType::f32, s.rows);
            RmsNormForward a{x.view(), {}, flat(weight), {}, out.view(), flat(rstd), 1e-5};
            if (how) a.branch = branch.view();
            if (how == 2) a.sum = sum.view();
            run(a);
            for (int64_t i = 0; i < s.rows; ++i) {
              double squares = 0;
              auto value = [&](int64_t j) { return how == 2 ? sum.get(i, j) : x.get(i, j) + (how ? branch.get(i, j) : 0); };
              for (int64_t j = 0; j < s.cols; ++j) {
                if (how == 2) NEAR_ALL(sum, i, j, x.get(i, j) + branch.get(i, j), 0, 0);
                squares += value(j) * value(j);
              }
              double r = 1 / std::sqrt(squares / s.cols + a.eps), steps = 4 + s.cols / 16.0;
              ASSERT_NEAR(rstd.get(0, i), r, r * kF32 * steps);
              for (int64_t j = 0; j < s.cols; ++j) {
                double want = value(j) * r * weight.get(0, j);
                NEAR_ALL(out, i, j, want, std::abs(want), steps);
              }
            }
            ASSERT_TRUE(out.gaps_untouched() && sum.gaps_untouched());
          }
  });
}

TEST(CpuRows, RmsNormBackward) {
  each_target([] {
    for (DType tx : kTypes)
      for (DType tb : kTypes)
        for (Size s : kSizes)
          for (int how : {0, 1}) {
            RowBuffer x(tx, s.rows, s.cols, 1), dout(tb, s.rows, s.cols, 2), dsum(tx, s.rows, s.cols, 4),
                dx(tx, s.rows, s.cols);
            RowBuffer before = dsum, dbranch(tb, s.rows, s.cols), weight = vector_of(DType::f32, s.cols, 3),
                      rstd = vector_of(DType::f32, s.rows);
            RowBuffer dweight = vector_of(DType::f32, s.cols, 5), old = dweight;
            for (int64_t i = 0; i < s.rows; ++i) {
              double squares = 0;
              for (int64_t j = 0; j < s.cols; ++j) squares += x.get(i, j) * x.get(i, j);
              rstd.set(0, i, 1 / std::sqrt(squares / s.cols + 1e-5));
            }
            RmsNormBackward a{dout.view(), x.view(), flat(weight), flat(rstd), {}, dx.view(), {}, {}, how == 1};
            a.dweight = flat(dweight);
            if (how) a.dsum = dsum.view(), a.dx = dsum.view(), a.dbranch = dbranch.view();  // in place
            run(a);
            RowBuffer& got = how ? dsum : dx;
            std::vector<double> dw(s.cols), dw_size(s.cols);
            for (int64_t i = 0; i < s.rows; ++i) {
              double r = rstd.get(0, i), mean = 0, mean_size = 0;
              for (int64_t j = 0; j < s.cols; ++j) {
                double t = dout.get(i, j) * weight.get(0, j) * x.get(i, j) * r / s.cols;
                mean += t, mean_size += std::abs(t);
              }
              for (int64_t j = 0; j < s.cols; ++j) {
                double xhat = x.get(i, j) * r, h = dout.get(i, j) * weight.get(0, j), add = how ? before.get(i, j) : 0;
                double size = std::abs(add) + r * (std::abs(h) + std::abs(xhat) * mean_size), steps = 8 + s.cols / 16.0;
                NEAR_ALL(got, i, j, add + r * (h - xhat * mean), size, steps);
                if (how) NEAR_ALL(dbranch, i, j, add + r * (h - xhat * mean), size, steps);
                dw[j] += dout.get(i, j) * xhat, dw_size[j] += std::abs(dout.get(i, j) * xhat);
              }
            }
            for (int64_t j = 0; j < s.cols; ++j) {
              double base = how ? old.get(0, j) : 0;
              NEAR_ALL(dweight, 0, j, base + dw[j], std::abs(base) + dw_size[j], 4.0 + s.rows);
            }
            ASSERT_TRUE(got.gaps_untouched() && dbranch.gaps_untouched());
          }
  });
}

TEST(CpuRows, SumRows) {
  each_target([] {
    for (DType t : kTypes)
      for (bool more : {false, true}) {
        RowBuffer x(t, 1503, 53, 1), out = vector_of(DType::f32, 53, 2), old = out;
        run(SumRows{x.view(), flat(out), more});
        for (int64_t j = 0; j < 53; ++j) {
          double sum = more ? old.get(0, j) : 0, size = std::abs(sum);
          for (int64_t i = 0; i < 1503; ++i) sum += x.get(i, j), size += std::abs(x.get(i, j));
          NEAR_ALL(out, 0, j, sum, size, 64);  // 16 groups in a chunk, 24 chunks, 2 in a group
        }
      }
  });
}

TEST(CpuRows, Embedding) {
  each_target([] {
    for (DType tw : kTypes)
      for (DType to : kTypes) {
        const int64_t n = 70, v = 50, c = 37;
        RowBuffer weight(tw, v, c, 1), out(to, n, c), ids = vector_of(DType::i32, n);
        for (int64_t i = 0; i < n; ++i) ids.set(0, i, static_cast<double>(i * i % 41 + (i % 3 == 0)));
        run(EmbeddingForward{flat(ids), weight.view(), out.view()});
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < c; ++j) NEAR_ALL(out, i, j, weight.get(static_cast<int64_t>(ids.get(0, i)), j), 0, 0);
        if (size_of(tw) < size_of(to)) continue;  // dweight is at least as wide as dout
        for (bool more : {false, true}) {
          RowBuffer dout(to, n, c, 2), dweight(tw, v, c, 3), old = dweight;
          run(EmbeddingBackward{flat(ids), dout.view(), dweight.view(), 4, more});
          for (int64_t r = 0; r < v; ++r)
            for (int64_t j = 0; j < c; ++j) {
              double sum = more ? old.get(r, j) : 0, size = std::abs(sum);
              for (int64_t i = 0; i < n && r != 4; ++i)
                if (ids.get(0, i) == r) sum += dout.get(i, j), size += std::abs(dout.get(i, j));
              NEAR_ALL(dweight, r, j, sum, size, 8);
            }
          ASSERT_TRUE(dweight.gaps_untouched());
        }
        ids.set(0, 3, v);
        EXPECT_THROW(run(EmbeddingForward{flat(ids), weight.view(), out.view()}), Error);
      }
  });
}

TEST(CpuRows, RopeTurnsAndReturns) {
  each_target([] {
    for (DType t : kTypes)
      for (const auto& [half, begin, pairs] : {std::tuple<int64_t, int64_t, bool>{4, 0, false},
                                               {16, 0, false},
                                               {19, 0, false},
                                               {19, 2, false},
                                               {4, 3, true},
                                               {16, 0, true},
                                               {19, 2, true}}) {
        const int64_t n = 9, heads = 3, size = 40, p = 13;
        RowBuffer x(t, n, heads * size, 1), was = x, table(DType::f32, p, 2 * half, 2, 0, 1), at = vector_of(DType::i32, n);
        for (int64_t i = 0; i < n; ++i) at.set(0, i, static_cast<double>((i * 5) % p));
        for (bool inverse : {false, true}) {
          x = was;
          run(Rope{x.view(), flat(at), table.view(), heads, inverse, begin, pairs});
          for (int64_t i = 0; i < n; ++i)
            for (int64_t h = 0; h < heads; ++h)
              for (int64_t j = 0; j < size; ++j) {
                int64_t row = static_cast<int64_t>(at.get(0, i)), col = h * size + j;
                double a = was.get(i, col), want = a, big = 0;
                if (const int64_t k = j - begin; k >= 0 && k < 2 * half) {
                  const int64_t angle = pairs ? k / 2 : k % half, apart = pairs ? 1 : half;
                  const bool first = pairs ? k % 2 == 0 : k < half;
                  double c = table.get(row, angle), s = table.get(row, half + angle) * (inverse ? -1 : 1);
                  double b = was.get(i, first ? col + apart : col - apart);
                  want = first ? a * c - b * s : a * c + b * s;
                  big = std::abs(a * c) + std::abs(b * s);
                }
                NEAR_ALL(x, i, col, want, big, 2);
              }
          ASSERT_TRUE(x.gaps_untouched());
        }
        at.set(0, 2, p);
        EXPECT_THROW(run(Rope{x.view(), flat(at), table.view(), heads}), Error);
      }
  });
}

// Copies are exact; the sum over heads has one rounding.
TEST(CpuRows, LatentKeysAndTheirGradient) {
  each_target([] {
    for (DType t : kTypes)
      for (const auto& [own, shared, size] : {std::tuple<int64_t, int64_t, int64_t>{8, 4, 8}, {5, 18, 7}, {0, 33, 3}}) {
        const int64_t n = 7, heads = 3;
        RowBuffer kv(t, n, heads * (own + size), 1), rope(t, n, shared, 2), keys(t, n, heads * (own + shared)),
            values(t, n, heads * size);
        run(LatentKeysForward{kv.view(), rope.view(), keys.view(), values.view(), heads});
        RowBuffer dkv(t, n, heads * (own + size)), drope(t, n, shared);
        run(LatentKeysBackward{keys.view(), values.view(), dkv.view(), drope.view(), heads});
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t h = 0; h < heads; ++h) {
            for (int64_t j = 0; j < own; ++j) ASSERT_EQ(keys.get(i, h * (own + shared) + j), kv.get(i, h * (own + size) + j));
            for (int64_t j = 0; j < shared; ++j) ASSERT_EQ(keys.get(i, h * (own + shared) + own + j), rope.get(i, j));
            for (int64_t j = 0; j < size; ++j) ASSERT_EQ(values.get(i, h * size + j), kv.get(i, h * (own + size) + own + j));
          }
          for (int64_t j = 0; j < kv.cols; ++j) ASSERT_EQ(dkv.get(i, j), kv.get(i, j)) << "back where they came from";
          for (int64_t j = 0; j < shared; ++j) {
            const double want = 3 * rope.get(i, j);
            NEAR_ALL(drope, i, j, want, std::abs(want), 3);
          }
        }
        for (RowBuffer* b : {&keys, &values, &dkv, &drope}) ASSERT_TRUE(b->gaps_untouched());
      }
  });
}

TEST(CpuRows, SoftmaxAndItsGradient) {
  each_target([] {
    for (DType ts : kTypes)
      for (DType tp : kTypes)
        for (Size s : {Size{1, 1}, Size{5, 5}, Size{7, 40}, Size{9, 4}, Size{20, 133}})
          for (int64_t window : {0, 3})
            for (bool causal : {false, true}) {
              RowBuffer scores(ts, s.rows, s.cols, 1, 3, 8), probs(tp, s.rows, s.cols, 3), dprobs(tp, s.rows, s.cols, 2),
                  dscores(ts, s.rows, s.cols);
              run(SoftmaxForward{scores.view(), probs.view(), 0.7, causal, window});
              run(SoftmaxBackward{probs.view(), dprobs.view(), dscores.view(), 0.7});
              for (int64_t i = 0; i < s.rows; ++i) {
                int64_t p = s.cols - s.rows + i;
                auto open = [&](int64_t j) { return (!causal || j <= p) && (window == 0 || p - j < window); };
                double sum = 0, dot = 0, dot_size = 0;
                for (int64_t j = 0; j < s.cols; ++j) {
                  if (open(j)) sum += std::exp(0.7 * scores.get(i, j));
                  double t = probs.get(i, j) * dprobs.get(i, j);
                  dot += t, dot_size += std::abs(t);
                }
                for (int64_t j = 0; j < s.cols; ++j) {
                  double want = open(j) ? std::exp(0.7 * scores.get(i, j)) / sum : 0;
                  NEAR_ALL(probs, i, j, want, want, 40 + s.cols);  // the argument, up to 12, is rounded three times
                  if (!open(j)) {
                    ASSERT_EQ(probs.get(i, j), 0);
                  }
                  double q = 0.7 * probs.get(i, j);
                  NEAR_ALL(dscores, i, j, q * (dprobs.get(i, j) - dot), q * (std::abs(dprobs.get(i, j)) + dot_size),
                           5.0 + s.cols);
                }
              }
              ASSERT_TRUE(probs.gaps_untouched() && dscores.gaps_untouched());
            }
  });
}

TEST(CpuRows, SwigluAndItsGradient) {
  each_target([] {
    for (DType tg : kTypes)
      for (DType to : kTypes)
        for (Size s : kSizes)
          for (double scale : {1.0, 200.0}) {
            RowBuffer gate(tg, s.rows, s.cols, 1, 3, scale), up(tg, s.rows, s.cols, 2), out(to, s.rows, s.cols),
                dout(to, s.rows, s.cols, 3);
            RowBuffer g0 = gate, u0 = up;
            run(SwigluForward{gate.view(), up.view(), out.view()});
            run(SwigluBackward{gate.view(), up.view(), dout.view(), gate.view(), up.view()});  // in place
            for (int64_t i = 0; i < s.rows; ++i)
              for (int64_t j = 0; j < s.cols; ++j) {
                double g = g0.get(i, j), u = u0.get(i, j), d = dout.get(i, j), sg = sigmoid(g), silu = g * sg;
                NEAR_ALL(out, i, j, silu * u, std::abs(silu * u), 5);
                NEAR_ALL(up, i, j, d * silu, std::abs(d * silu), 5);
                NEAR_ALL(gate, i, j, d * u * sg * (1 + g * (1 - sg)), std::abs(d * u) * sg * (1 + std::abs(g) * (2 - sg)), 9);
              }
            ASSERT_TRUE(out.gaps_untouched() && gate.gaps_untouched() && up.gaps_untouched());
          }
  });
}

// exp within 1 ulp, then a sum, a quotient and a product with half an ulp each; down to subnormal results of exp.
TEST(CpuRows, SwigluIsAccurate) {
  each_target([] {
    const int64_t n = 50000;
    RowBuffer gate(DType::f32, 1, n), one(DType::f32, 1, n), out(DType::f32, 1, n);
    for (int64_t i = 0; i < n; ++i) gate.set(0, i, -104.0 * i / n), one.set(0, i, 1);
    run(SwigluForward{gate.view(), one.view(), out.view()});
    for (int64_t i = 0; i < n; ++i) {
      double g = gate.get(0, i), want = g * sigmoid(g), subnormal = g < -87 ? 104 * 0x1p-149 : 0;
      ASSERT_NEAR(out.get(0, i), want, 2.5 * kF32 * std::abs(want) + subnormal) << g;
    }
  });
}

TEST(CpuRows, DropoutFollowsPhilox) {
  const uint64_t key = 0x123456789abcdefull;
  const double drawn = uniform24(philox(key, {3, 0, 1, 17})[2]);  // of row 0, channel 14: slightly below p
  each_target([&] {
    for (DType tx : kTypes)
      for (DType to : kTypes)
        for (double p : {0.0, 0.1, 0.5, drawn}) {
          const int64_t n = 5, c = 203;
          RowBuffer x(tx, n, c, 1), out(to, n, c), at = vector_of(DType::i32, n), sequence = vector_of(DType::i64, n);
          for (int64_t i = 0; i < n; ++i) at.set(0, i, 7.0 * i), sequence.set(0, i, 4294967296.0 * i + 3.0 * i + 1);
          Dropout a{x.view(), flat(at), flat(sequence), out.view(), p, key, 17};
          run(a);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < c; ++j) {
              auto w = philox(a.key, {static_cast<uint32_t>(j / 4), static_cast<uint32_t>(7 * i),
                                      static_cast<uint32_t>(3 * i + 1), a.step});
              double want = uniform24(w[j % 4]) >= p ? x.get(i, j) / (1 - p) : 0;
              NEAR_ALL(out, i, j, want, std::abs(want), 1);
            }
          ASSERT_TRUE(out.gaps_untouched());
        }
  });
}

TEST(CpuRows, CrossEntropy) {
  each_target([] {
    for (DType tl : kTypes)
      for (DType tg : kTypes)
        for (int64_t v : {1, 7, 100, 5003}) {
          const int64_t n = 6;
          RowBuffer logits(tl, n, v, 1, 3, 20), was = logits, grads(tg, n, v), losses = vector_of(DType::f64, n),
                                                labels = vector_of(DType::i32, n);
          for (int64_t i = 0; i < n; ++i) labels.set(0, i, i == 3 ? -100.0 : static_cast<double>(i * 977 % v));
          bool in_place = tl == tg;
          CrossEntropy a{logits.view(), flat(labels), flat(losses), in_place ? logits.view() : grads.view(), 0.25};
          run(a);
          RowBuffer& got = in_place ? logits : grads;
          for (int64_t i = 0; i < n; ++i) {
            int64_t label = static_cast<int64_t>(labels.get(0, i));
            double sum = 0, top = was.get(i, 0);
            for (int64_t j = 0; j < v; ++j) top = std::max(top, was.get(i, j));
            for (int64_t j = 0; j < v; ++j) sum += std::exp(was.get(i, j) - top);
            double loss = label < 0 ? 0 : top + std::log(sum) - was.get(i, label), steps = 60.0 + 4096.0 / 16;
            ASSERT_NEAR(losses.get(0, i), loss, kF32 * (steps + 80));  // arguments reach 40: one rounding is 40 units
            for (int64_t j = 0; j < v; ++j) {
              double p = std::exp(was.get(i, j) - top) / sum;
              NEAR_ALL(got, i, j, label < 0 ? 0 : 0.25 * (p - (j == label)), 0.25 * p, steps);
            }
          }
          ASSERT_TRUE(got.gaps_untouched());
          labels.set(0, 0, static_cast<double>(v));
          EXPECT_THROW(run(a), Error);
        }
  });
}

// Each rank has a range of the vocabulary (one rank has none) and the logsumexp of the whole. Losses are on the rank
// with the label. The gradients are the columns of the whole gradient.
TEST(CpuRows, CrossEntropyOfPartsOfAVocabulary) {
  each_target([] {
    for (DType tl : kTypes)
      for (DType tg : kTypes)
        for (int64_t v : {3, 100, 5003}) {
          const int64_t n = 6, parts = 4, ends[] = {0, 1, v / 2, v / 2, v};
          RowBuffer logits(tl, n, v, 1, 3, 20), grads(tg, n, v), sums(DType::f64, parts, n), labels = vector_of(DType::i32, n);
          for (int64_t i = 0; i < n; ++i) labels.set(0, i, i == 3 ? -100.0 : static_cast<double>(i * 977 % v));
          for (int64_t p = 0; p < parts; ++p) {
            TensorView to = sums.view().row_range(p, 1);
            to.shape = {n};
            if (ends[p] == ends[p + 1])
              run(Fill{to, -std::numeric_limits<double>::infinity()});
            else
              run(LogSumExp{logits.view().columns(ends[p], ends[p + 1] - ends[p]), to});
          }
          std::vector<double> loss(n);
          for (int64_t p = 0; p < parts; ++p) {
            const int64_t first = ends[p], width = ends[p + 1] - first;
            if (width == 0) continue;
            RowBuffer losses = vector_of(DType::f64, n);
            CrossEntropy a{.logits = logits.view().columns(first, width),
                           .labels = flat(labels),
                           .losses = flat(losses),
                           .dlogits = grads.view().columns(first, width),
                           .grad_scale = 0.25,
                           .sums = sums.view(),
                           .first = first,
                           .whole = v};
            run(a);
            for (int64_t i = 0; i < n; ++i) {
              const auto label = static_cast<int64_t>(labels.get(0, i));
              if (label < first || label >= first + width) EXPECT_EQ(losses.get(0, i), 0) << "another part has the label";
              loss[i] += losses.get(0, i);
            }
            a.dlogits = {};
            run(a);  // losses alone
            for (int64_t i = 0; i < n; ++i) EXPECT_LE(losses.get(0, i), loss[i]);
            labels.set(0, 0, static_cast<double>(v));
            EXPECT_THROW(run(a), Error);
            labels.set(0, 0, 0);
            a.whole = 0;
            EXPECT_THROW(run(a), Error) << "sums need the size of the whole";
          }
          for (int64_t i = 0; i < n; ++i) {
            const auto label = static_cast<int64_t>(labels.get(0, i));
            double sum = 0, top = logits.get(i, 0), steps = 60.0 + 4096.0 / 16;
            for (int64_t j = 0; j < v; ++j) top = std::max(top, logits.get(i, j));
            for (int64_t j = 0; j < v; ++j) sum += std::exp(logits.get(i, j) - top);
            ASSERT_NEAR(loss[i], label < 0 ? 0 : top + std::log(sum) - logits.get(i, label), kF32 * (steps + 80));
            for (int64_t j = 0; j < v; ++j) {
              double p = std::exp(logits.get(i, j) - top) / sum;
              NEAR_ALL(grads, i, j, label < 0 ? 0 : 0.25 * (p - (j == label)), 0.25 * p, steps);
            }
          }
          ASSERT_TRUE(grads.gaps_untouched());
        }
  });
}

// A part of a table: rows of other parts are zero and get no gradient. ids and padding are indices of the whole table.
TEST(CpuRows, EmbeddingOfPartsOfATable) {
  each_target([] {
    const int64_t n = 11, c = 19, v = 5, first = 3, whole = 10;
    for (double scale : {1.0, 3.5}) {
      RowBuffer weight(DType::f32, v, c, 1), out(DType::f32, n, c, 5), dout(DType::f32, n, c, 2), dweight(DType::f32, v, c, 3),
          ids = vector_of(DType::i32, n);
      for (int64_t i = 0; i < n; ++i) ids.set(0, i, static_cast<double>(i % whole));
      run(EmbeddingForward{flat(ids), weight.view(), out.view(), scale, first, whole});
      run(EmbeddingBackward{flat(ids), dout.view(), dweight.view(), 4, false, scale, first, whole});
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < c; ++j) {
          const auto at = static_cast<int64_t>(ids.get(0, i)) - first;
          ASSERT_EQ(out.get(i, j), at < 0 || at >= v ? 0.0 : static_cast<float>(scale) * static_cast<float>(weight.get(at, j)));
        }
      for (int64_t r = 0; r < v; ++r)
        for (int64_t j = 0; j < c; ++j)
          ASSERT_EQ(dweight.get(r, j),
                    first + r == 4 ? 0.0 : static_cast<float>(scale) * static_cast<float>(dout.get(first + r, j)));
      // A rank without rows.
      run(EmbeddingForward{flat(ids), weight.view().row_range(0, 0), out.view(), scale, whole, whole});
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.get(i, 0), 0);
      ids.set(0, 3, whole);
      EXPECT_THROW(run(EmbeddingForward{flat(ids), weight.view(), out.view(), scale, first, whole}), Error);
    }
  });
}

}  // namespace test_cpu_rows
}  // namespace ravine
