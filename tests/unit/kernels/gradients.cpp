// Every backward pass of ref against finite differences of its forward pass, all in f64.
//
// For L(x) = sum of w * output with random w, the central difference D(h) has an error in even powers of h.
// Richardson's R(h) = (4 D(h/2) - D(h)) / 3 removes h^2. |R(h) - R(h/2)| is about 15 times the truncation error of
// R(h/2). The rounding of L is at most roundings * 2^-53 * sum |w output|. This rounding enters D(h/4) divided by h/4,
// with a factor of 4/3, twice.
#include "tests/unit/harness.h"

namespace ravine {
namespace test_gradients {

const Kernels kRef = ref_kernels();
constexpr double kStep = 0x1p-8;

struct Value {
  double sum = 0, magnitude = 0;
  void add(const TensorView& y, const TensorView& w) {
    for (int64_t i = 0; i < y.rows(); ++i)
      for (int64_t j = 0; j < y.cols(); ++j)
        sum += get(w, i, j) * get(y, i, j), magnitude += std::fabs(get(w, i, j) * get(y, i, j));
  }
};

// `roundings`: the longest chain of roundings from an input to L. The bound must be small relative to the gradient, or
// the test proves nothing.
void expect_gradient(const std::function<Value()>& loss, int64_t roundings, const TensorView& x, const TensorView& gradient,
                     const std::string& what) {
  auto g = values(gradient);
  double largest = 0;
  for (double v : g) largest = std::max(largest, std::fabs(v));
  for (int64_t i = 0; i < x.rows(); ++i)
    for (int64_t j = 0; j < x.cols(); ++j) {
      double at = get(x, i, j), magnitude = 0;
      auto difference = [&](double h) {
        put(x, i, j, at + h);
        Value up = loss();
        put(x, i, j, at - h);
        Value down = loss();
        put(x, i, j, at);
        magnitude = std::max({magnitude, up.magnitude, down.magnitude});
        return (up.sum - down.sum) / (2 * h);
      };
      double d1 = difference(kStep), d2 = difference(kStep / 2), d4 = difference(kStep / 4);
      double coarse = (4 * d2 - d1) / 3, fine = (4 * d4 - d2) / 3;
      double bound =
          std::fabs(coarse - fine) + 2 * 4 / 3.0 * static_cast<double>(roundings) * 0x1p-53 * magnitude / (kStep / 4);
      double got = g[i * x.cols() + j];
      ASSERT_LE(std::fabs(got - fine), bound)
          << what << " at [" << i << ", " << j << "]: " << got << ", differences say " << fine;
      ASSERT_LE(bound, 1e-6 * largest) << what << ": a difference this coarse says nothing";
    }
}

TensorView f64(Case& c, uint64_t key, Shape s, double scale = 1) {
  return c.input(key, DType::f64, s, s.rank() > 1 ? 2 : 0, scale);
}

TEST(Gradients, Embedding) {
  for (double scale : {1.0, 3.46}) {
    Case c;
    TensorView ids = c.integers(DType::i32, {3, 1, 3, 0, 2, 3}), weight = f64(c, 1, {5, 7}), out = c.output(DType::f64, {6, 7});
    TensorView dout = f64(c, 2, {6, 7}), dweight = c.output(DType::f64, {5, 7});
    kRef.of<EmbeddingBackward>().run({ids, dout, dweight, -1, false, scale}, nullptr);
    auto loss = [&] {
      kRef.of<EmbeddingForward>().run({ids, weight, out, scale}, nullptr);
      Value v;
      v.add(out, dout);
      return v;
    };
    expect_gradient(loss, 50, weight, dweight, "dweight");
  }
}

void check_rms_norm(double offset) {
  Case c;
  int64_t n = 3, w = 10;
  RmsNormForward f;
  f.x = f64(c, 1, {n, w}, 2), f.branch = f64(c, 2, {n, w}), f.weight = f64(c, 3, {w}), f.sum = c.output(DType::f64, {n, w});
  f.out = c.output(DType::f64, {n, w}), f.rstd = c.output(DType::f64, {n}), f.eps = 1e-3, f.offset = offset;
  RmsNormBackward b;
  b.offset = offset;
  b.dout = f64(c, 4, {n, w}), b.dsum = f64(c, 5, {n, w}), b.x = f.sum, b.weight = f.weight, b.rstd = f.rstd;
  b.dx = c.output(DType::f64, {n, w}), b.dbranch = c.output(DType::f64, {n, w}), b.dweight = c.output(DType::f64, {w});
  auto loss = [&] {
    kRef.of<RmsNormForward>().run(f, nullptr);
    Value v;
    v.add(f.out, b.dout), v.add(f.sum, b.dsum);
    return v;
  };
  loss();
  kRef.of<RmsNormBackward>().run(b, nullptr);
  int64_t roundings = w + 10 + 2 * n * w;
  expect_gradient(loss, roundings, f.x, b.dx, "dx");
  expect_gradient(loss, roundings, f.branch, b.dbranch, "dbranch");
  expect_gradient(loss, roundings, f.weight, b.dweight, "dweight");
}

TEST(Gradients, RmsNormWithResidual) { check_rms_norm(0), check_rms_norm(1); }

TEST(Gradients, LayerNormWithResidual) {
  Case c;
  int64_t n = 3, w = 10;
  LayerNormForward f;
  f.x = f64(c, 1, {n, w}, 2), f.branch = f64(c, 2, {n, w}), f.weight = f64(c, 3, {w}), f.bias = f64(c, 6, {w});
  f.sum = c.output(DType::f64, {n, w}), f.out = c.output(DType::f64, {n, w}), f.mean = c.output(DType::f64, {n});
  f.rstd = c.output(DType::f64, {n}), f.eps = 1e-3;
  LayerNormBackward b;
  b.dout = f64(c, 4, {n, w}), b.dsum = f64(c, 5, {n, w}), b.x = f.sum, b.weight = f.weight, b.mean = f.mean, b.rstd = f.rstd;
  b.dx = c.output(DType::f64, {n, w}), b.dbranch = c.output(DType::f64, {n, w});
  b.dweight = c.output(DType::f64, {w}), b.dbias = c.output(DType::f64, {w});
  auto loss = [&] {
    kRef.of<LayerNormForward>().run(f, nullptr);
    Value v;
    v.add(f.out, b.dout), v.add(f.sum, b.dsum);
    return v;
  };
  loss();
  kRef.of<LayerNormBackward>().run(b, nullptr);
  int64_t roundings = 2 * w + 12 + 2 * n * w;
  expect_gradient(loss, roundings, f.x, b.dx, "dx");
  expect_gradient(loss, roundings, f.branch, b.dbranch, "dbranch");
  expect_gradient(loss, roundings, f.weight, b.dweight, "dweight");
  expect_gradient(loss, roundings, f.bias, b.dbias, "dbias");
}

TEST(Gradients, HeadNorm) {
  Case c;
  int64_t n = 3, heads = 2, d = 6;
  HeadNormForward f;
  f.x = f64(c, 1, {n, heads * d}, 2), f.weight = f64(c, 2, {d}), f.out = c.output(DType::f64, {n, heads * d});
  f.rstd = c.output(DType::f64, {n, heads}), f.eps = 1e-3;
  HeadNormBackward b;
  b.dout = f64(c, 3, {n, heads * d}), b.x = f.x, b.weight = f.weight, b.rstd = f.rstd,
  b.dx = c.output(DType::f64, {n, heads * d});
  b.dweight = c.output(DType::f64, {d});
  auto loss = [&] {
    kRef.of<HeadNormForward>().run(f, nullptr);
    Value v;
    v.add(f.out, b.dout);
    return v;
  };
  loss();
  kRef.of<HeadNormBackward>().run(b, nullptr);
  expect_gradient(loss, d + 10 + n * heads * d, f.x, b.dx, "dx");
  expect_gradient(loss, d + 10 + n * heads * d, f.weight, b.dweight, "dweight");
}

// Two ranks with 4 and 7 columns of each row, and the sums between them.
TEST(Gradients, PartNorm) {
  Case c;
  const int64_t n = 3, w = 11;
  const TensorView x = f64(c, 1, {n, w}, 2), weight = f64(c, 2, {w}), dout = f64(c, 3, {n, w}),
                   out = c.output(DType::f64, {n, w}), dx = c.output(DType::f64, {n, w});
  const TensorView dweight = c.output(DType::f64, {w}), rstd = c.output(DType::f64, {n}), sum = c.output(DType::f64, {n}),
                   one = c.output(DType::f64, {n});
  const std::pair<int64_t, int64_t> parts[] = {{0, 4}, {4, 7}};
  auto of = [](const TensorView& v, std::pair<int64_t, int64_t> p) {
    TensorView part = v;
    if (v.shape.rank() == 2) return v.columns(p.first, p.second);
    part.shape = {p.second}, part.data = static_cast<double*>(v.data) + p.first;
    return part;
  };
  auto total = [&](const TensorView& y, bool weighted) {
    for (int64_t i = 0; i < n; ++i) sum.as<double>()[i] = 0;
    for (const auto& p : parts) {
      kRef.of<RowDot>().run({of(x, p), of(y, p), weighted ? of(weight, p) : TensorView{}, one}, nullptr);
      for (int64_t i = 0; i < n; ++i) sum.as<double>()[i] += one.as<double>()[i];
    }
  };
  auto loss = [&] {
    total(x, false);
    for (const auto& p : parts)
      kRef.of<PartNormForward>().run({of(x, p), of(weight, p), sum, of(out, p), rstd, w, 1e-3}, nullptr);
    Value v;
    v.add(out, dout);
    return v;
  };
  loss();
  total(dout, true);
  for (const auto& p : parts)
    kRef.of<PartNormBackward>().run({of(dout, p), of(x, p), of(weight, p), rstd, sum, of(dx, p), of(dweight, p), w}, nullptr);
  expect_gradient(loss, w + 10 + n * w, x, dx, "dx");
  expect_gradient(loss, w + 10 + n * w, weight, dweight, "dweight");
}

TEST(Gradients, UnitRows) {
  Case c;
  int64_t n = 4, w = 7;
  TensorView x = f64(c, 1, {n, w}), out = c.output(DType::f64, {n, w}), dout = f64(c, 2, {n, w}),
             dx = c.output(DType::f64, {n, w});
  kRef.of<UnitRowsBackward>().run({dout, x, dx}, nullptr);
  auto loss = [&] {
    kRef.of<UnitRowsForward>().run({x, out}, nullptr);
    Value v;
    v.add(out, dout);
    return v;
  };
  expect_gradient(loss, w + 6 + n * w, x, dx, "dx");
}

TEST(Gradients, Gelu) {
  for (GeluForm form : {GeluForm::exact, GeluForm::tanh}) {
    Case c;
    int64_t n = 3, w = 17;
    TensorView x = f64(c, 1, {n, w}, 4), out = c.output(DType::f64, {n, w}), dout = f64(c, 2, {n, w}),
               dx = c.output(DType::f64, {n, w});
    kRef.of<GeluBackward>().run({x, dout, dx, form}, nullptr);
    auto loss = [&] {
      kRef.of<GeluForward>().run({x, out, form}, nullptr);
      Value v;
      v.add(out, dout);
      return v;
    };
    expect_gradient(loss, 20 + n * w, x, dx, "dx");
  }
}

TEST(Gradients, MatmulAndBias) {  // out = x W^T + bias
  Case c;
  int64_t m = 5, n = 7, k = 6;
  Matmul f;
  f.a = f64(c, 1, {m, k}), f.b = f64(c, 2, {n, k}), f.bias = f64(c, 3, {n}), f.out = c.output(DType::f64, {m, n}),
  f.trans_b = true;
  TensorView dout = f64(c, 4, {m, n}), dx = c.output(DType::f64, {m, k}), dw = c.output(DType::f64, {n, k});
  TensorView db = c.output(DType::f64, {n});
  Matmul to_x, to_w;
  to_x.a = dout, to_x.b = f.b, to_x.out = dx;
  to_w.a = dout, to_w.b = f.a, to_w.out = dw, to_w.trans_a = true, to_w.tokens_reduced = true;
  kRef.of<Matmul>().run(to_x, nullptr), kRef.of<Matmul>().run(to_w, nullptr), kRef.of<SumRows>().run({dout, db}, nullptr);
  auto loss = [&] {
    kRef.of<Matmul>().run(f, nullptr);
    Value v;
    v.add(f.out, dout);
    return v;
  };
  expect_gradient(loss, k + 2 + m * n, f.a, dx, "dx");
  expect_gradient(loss, k + 2 + m * n, f.b, dw, "dweight");
  expect_gradient(loss, k + 2 + m * n, f.bias, db, "dbias");
}

void check_rope(int64_t begin, bool interleaved) {
  Case c;
  int64_t n = 4, heads = 2, d = 10, r = 8;
  TensorView x = f64(c, 1, {n, heads * d}), dout = f64(c, 2, {n, heads * d}), y = c.output(DType::f64, {n, heads * d});
  TensorView positions = c.integers(DType::i32, {5, 0, 3, 3}), table = f64(c, 3, {6, r}),
             dx = c.output(DType::f64, {n, heads * d});
  kRef.of<Cast>().run({dout, dx}, nullptr);
  kRef.of<Rope>().run({dx, positions, table, heads, true, begin, interleaved}, nullptr);
  auto loss = [&] {
    kRef.of<Cast>().run({x, y}, nullptr);
    kRef.of<Rope>().run({y, positions, table, heads, false, begin, interleaved}, nullptr);
    Value v;
    v.add(y, dout);
    return v;
  };
  expect_gradient(loss, 3 + n * heads * d, x, dx, "dx");
}

TEST(Gradients, Rope) {
  check_rope(0, false);
  check_rope(2, false);
  check_rope(0, true);
  check_rope(1, true);
}

TEST(Gradients, LatentKeys) {
  for (int64_t own : {3, 0}) {
    Case c;
    const int64_t n = 4, heads = 3, shared = 2, size = 5;
    TensorView kv = f64(c, 1, {n, heads * (own + size)}), rope = f64(c, 2, {n, shared});
    TensorView keys = c.output(DType::f64, {n, heads * (own + shared)}), values = c.output(DType::f64, {n, heads * size});
    TensorView dkeys = f64(c, 3, {n, heads * (own + shared)}), dvalues = f64(c, 4, {n, heads * size});
    TensorView dkv = c.output(DType::f64, {n, heads * (own + size)}), drope = c.output(DType::f64, {n, shared});
    kRef.of<LatentKeysBackward>().run({dkeys, dvalues, dkv, drope, heads}, nullptr);
    auto loss = [&] {
      kRef.of<LatentKeysForward>().run({kv, rope, keys, values, heads}, nullptr);
      Value v;
      v.add(keys, dkeys), v.add(values, dvalues);
      return v;
    };
    const int64_t roundings = n * heads * (own + shared + size);
    expect_gradient(loss, roundings, kv, dkv, "dkv");
    expect_gradient(loss, roundings, rope, drope, "drope");
  }
}

void check_attention(AttentionShape at, int64_t q_rows, int64_t k_rows, const std::string& what) {
  Case c;
  int64_t wide = at.heads * at.head_size, narrow = at.kv_heads * at.head_size;
  int64_t out = at.heads * at.values(), of_values = at.kv_heads * at.values();
  AttentionForward f;
  f.q = f64(c, 1, {q_rows, wide}), f.k = f64(c, 2, {k_rows, narrow}), f.v = f64(c, 3, {k_rows, of_values});
  f.out = c.output(DType::f64, {q_rows, out}), f.lse = c.output(DType::f64, {at.heads, q_rows}), f.at = at;
  AttentionBackward b;
  b.dout = f64(c, 4, {q_rows, out}), b.q = f.q, b.k = f.k, b.v = f.v, b.out = f.out, b.lse = f.lse, b.at = at;
  b.dq = c.output(DType::f64, {q_rows, wide}), b.dk = c.output(DType::f64, {k_rows, narrow}),
  b.dv = c.output(DType::f64, {k_rows, of_values});
  auto loss = [&] {
    kRef.of<AttentionForward>().run(f, nullptr);
    Value v;
    v.add(f.out, b.dout);
    return v;
  };
  loss();
  kRef.of<AttentionBackward>().run(b, nullptr);
  int64_t roundings = at.head_size + at.values() + 3 * k_rows + 20 + q_rows * out;
  expect_gradient(loss, roundings, f.q, b.dq, what + " dq");
  expect_gradient(loss, roundings, f.k, b.dk, what + " dk");
  expect_gradient(loss, roundings, f.v, b.dv, what + " dv");
}

TEST(Gradients, Attention) {
  const Segment packed[] = {{1, 4, 1, 4}, {6, 3, 6, 3}};
  const Segment cache[] = {{0, 2, 1, 6}, {3, 1, 8, 3}};
  const Segment shared[] = {{0, 2, 0, 5}, {2, 3, 0, 5}};  // two continuations of the same keys
  check_attention({packed, 4, 2, 3, 0.6, true, 0}, 10, 10, "packed, causal");
  check_attention({packed, 2, 2, 3, 0.6, false, 0}, 10, 10, "packed, all");
  check_attention({packed, 2, 1, 3, 0.6, true, 2}, 10, 10, "packed, window");
  check_attention({cache, 3, 1, 4, 0.5, true, 0}, 5, 12, "cache");
  check_attention({shared, 2, 1, 4, 0.5, false, 3}, 6, 6, "shared keys");
  for (int64_t values : {2, 5}) {
    AttentionShape at{packed, 4, 2, 3, 0.6, true, 0};
    at.value_size = values;
    check_attention(at, 10, 10, "packed, values of another width");
    at.segments = cache, at.window = 3;
    check_attention(at, 5, 12, "cache, values of another width");
  }
  const double slopes[] = {0.5, 0.0625};
  check_attention({packed, 2, 1, 3, 0.6, true, 0, slopes}, 10, 10, "packed, ALiBi");
  check_attention({cache, 2, 2, 4, 0.5, false, 3, slopes}, 5, 12, "cache, window and ALiBi");
  for (double cap : {0.8, 5.0}) {
    check_attention({packed, 4, 2, 3, 0.6, true, 0, {}, cap}, 10, 10, "packed, cap");
    check_attention({packed, 2, 1, 3, 0.6, true, 2, {}, cap}, 10, 10, "packed, window, cap");
    check_attention({cache, 3, 1, 4, 0.5, false, 0, {}, cap}, 5, 12, "cache, cap");
  }
  std::vector<int32_t> token_index = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3};
  std::vector<int64_t> sequences = {7, 7, 7, 7, 7, 7, 8, 8, 8, 8};
  auto dropout = [&](int64_t rows) {
    return AttentionDropout{
        0.4, 99, 7, 2, view_of(token_index.data(), DType::i32, {rows}), view_of(sequences.data(), DType::i64, {rows})};
  };
  check_attention({packed, 4, 2, 3, 0.6, true, 0, {}, 0, dropout(10)}, 10, 10, "packed, dropout");
  check_attention({packed, 2, 1, 3, 0.6, true, 2, {}, 0.8, dropout(10)}, 10, 10, "packed, window, cap, dropout");
  check_attention({packed, 2, 1, 3, 0.6, true, 0, slopes, 0, dropout(10)}, 10, 10, "packed, ALiBi, dropout");
  check_attention({cache, 3, 1, 4, 0.5, false, 0, {}, 0, dropout(5)}, 5, 12, "cache, dropout");
}

TEST(Gradients, Softmax) {
  for (double slope : {0.0, 0.3})
    for (bool causal : {false, true})
      for (int64_t window : {0, 2}) {
        Case c;
        int64_t q = 4, k = 6;
        TensorView scores = f64(c, 1, {q, k}, 2), probs = c.output(DType::f64, {q, k}), dprobs = f64(c, 2, {q, k});
        TensorView dscores = c.output(DType::f64, {q, k});
        auto loss = [&] {
          kRef.of<SoftmaxForward>().run({scores, probs, 0.7, causal, window, slope}, nullptr);
          Value v;
          v.add(probs, dprobs);
          return v;
        };
        loss();
        kRef.of<SoftmaxBackward>().run({probs, dprobs, dscores, 0.7}, nullptr);
        expect_gradient(loss, 3 * k + 20 + q * k, scores, dscores, "dscores");
      }
}

TEST(Gradients, SoftCap) {
  Case c;
  int64_t n = 4, w = 9;
  TensorView x = f64(c, 1, {n, w}, 6), y = c.output(DType::f64, {n, w}), dy = f64(c, 2, {n, w}),
             dx = c.output(DType::f64, {n, w});
  auto loss = [&] {
    kRef.of<SoftCapForward>().run({x, y, 1.5, 0.7}, nullptr);
    Value v;
    v.add(y, dy);
    return v;
  };
  loss();
  kRef.of<SoftCapBackward>().run({y, dy, dx, 1.5, 0.7}, nullptr);
  expect_gradient(loss, 20 + n * w, x, dx, "dx");
}

template <class Forward, class Backward>
void check_gated() {
  Case c;
  int64_t n = 3, w = 11;
  TensorView gate = f64(c, 1, {n, w}, 4), up = f64(c, 2, {n, w}), out = c.output(DType::f64, {n, w}), dout = f64(c, 3, {n, w});
  TensorView dgate = c.output(DType::f64, {n, w}), dup = c.output(DType::f64, {n, w});
  kRef.of<Backward>().run({gate, up, dout, dgate, dup}, nullptr);
  auto loss = [&] {
    kRef.of<Forward>().run({gate, up, out}, nullptr);
    Value v;
    v.add(out, dout);
    return v;
  };
  expect_gradient(loss, 20 + n * w, gate, dgate, "dgate");
  expect_gradient(loss, 20 + n * w, up, dup, "dup");
}

TEST(Gradients, Swiglu) { check_gated<SwigluForward, SwigluBackward>(); }
TEST(Gradients, Geglu) { check_gated<GegluForward, GegluBackward>(); }

TEST(Gradients, Dropout) {
  Case c;
  int64_t n = 5, w = 10;
  TensorView x = f64(c, 1, {n, w}), out = c.output(DType::f64, {n, w}), dout = f64(c, 2, {n, w}),
             dx = c.output(DType::f64, {n, w});
  Dropout f{x, c.integers(DType::i32, {0, 1, 2, 0, 1}), c.integers(DType::i64, {4, 4, 4, 5, 5}), out, 0.4, 99, 7};
  Dropout b = f;
  b.x = dout, b.out = dx;
  kRef.of<Dropout>().run(b, nullptr);
  auto loss = [&] {
    kRef.of<Dropout>().run(f, nullptr);
    Value v;
    v.add(out, dout);
    return v;
  };
  expect_gradient(loss, 2 + n * w, x, dx, "dx");
}

void check_loss_head(double cap, const std::vector<double>& weights = {}) {
  Case c;
  int64_t n = 5, w = 6, vocabulary = 9;
  LossHead a;
  a.x = f64(c, 1, {n, w}), a.weight = f64(c, 2, {vocabulary, w}), a.labels = c.integers(DType::i32, {3, -100, 0, 8, 3});
  a.losses = c.output(DType::f64, {n}), a.dx = c.output(DType::f64, {n, w}), a.dweight = c.output(DType::f64, {vocabulary, w});
  a.grad_scale = 0.3, a.cap = cap;
  std::vector<double> scales(n, a.grad_scale);
  for (size_t i = 0; i < weights.size(); ++i) scales[i] *= weights[i];
  if (!weights.empty()) a.row_weights = c.doubles(weights);
  kRef.of<LossHead>().run(a, nullptr);
  TensorView ones = c.doubles(scales);
  LossHead forward = a;
  forward.dx = {}, forward.dweight = {};
  auto loss = [&] {
    kRef.of<LossHead>().run(forward, nullptr);
    Value v;
    v.add(a.losses, ones);
    return v;
  };
  int64_t roundings = 3 * w + vocabulary + 20;
  expect_gradient(loss, roundings, a.x, a.dx, "dx");
  expect_gradient(loss, roundings, a.weight, a.dweight, "dweight");

  CrossEntropy e;
  e.logits = f64(c, 3, {n, vocabulary}, 3), e.labels = a.labels, e.losses = a.losses, e.grad_scale = a.grad_scale;
  e.row_weights = a.row_weights;
  e.dlogits = c.output(DType::f64, {n, vocabulary});
  kRef.of<CrossEntropy>().run(e, nullptr);
  CrossEntropy plain = e;
  plain.dlogits = {};
  auto entropy = [&] {
    kRef.of<CrossEntropy>().run(plain, nullptr);
    Value v;
    v.add(e.losses, ones);
    return v;
  };
  expect_gradient(entropy, vocabulary + 20, e.logits, e.dlogits, "dlogits");
}

TEST(Gradients, LossHeadAndCrossEntropy) {
  for (double cap : {0.0, 0.7, 4.0}) check_loss_head(cap), check_loss_head(cap, {2.5, 1, 0, -0.75, 0.125});
}

}  // namespace test_gradients
}  // namespace ravine
