// ref in f64 against what PyTorch computed in f64 (tests/golden/ops.safetensors, made by tools/golden/make_ops.py).
//
// Both sides have an error of gamma(K) = K 2^-53 times the magnitudes of the terms; K is the longest chain of
// roundings. The magnitudes are bounded by norms: `largest` of a tensor, times the length of each sum. So a bound is 2
// gamma(K) * scale; each test sets K and scale.
#include "files/safetensors.h"
#include "tests/unit/attention_errors.h"

namespace ravine {
namespace test_torch_golden {

const Kernels kRef = ref_kernels();

double gamma64(int64_t roundings) { return static_cast<double>(roundings) * 0x1p-53; }

double largest(const TensorView& v) {
  double m = 0;
  for (double x : values(v)) m = std::max(m, std::isinf(x) ? 0 : std::fabs(x));
  return m;
}

// Returns the largest norm of the parts with d columns. A dot product is at most the product of two such norms.
double largest_norm(const TensorView& v, int64_t d) {
  auto x = values(v);
  double m = 0;
  for (size_t i = 0; i < x.size(); i += d) {
    double squares = 0;
    for (int64_t j = 0; j < d; ++j) squares += x[i + j] * x[i + j];
    m = std::max(m, std::sqrt(squares));
  }
  return m;
}

class TorchGolden : public testing::Test {
 protected:
  TensorView in(const std::string& name) {
    const TensorInfo& info = file_.tensor(name);
    Buffer& b = case_.output(info.dtype, info.shape);
    auto bytes = file_.bytes(info);
    std::memcpy(b.view().data, bytes.data(), bytes.size());
    return b;
  }
  TensorView fresh(const Shape& s) { return case_.output(DType::f64, s); }
  TensorView like(const TensorView& v) { return fresh(v.shape); }
  TensorView scalars(const std::vector<double>& x) { return case_.doubles(x); }
  // `errors`: of one side, per element; the other side has the same errors.
  void expect(const TensorView& got, const std::string& name, const std::vector<double>& errors) {
    auto g = values(got), w = values(in(name));
    ASSERT_EQ(g.size(), w.size()) << name;
    for (size_t i = 0; i < g.size(); ++i) {
      double difference = g[i] == w[i] ? 0 : std::fabs(g[i] - w[i]);  // infinities are equal
      ASSERT_LE(difference, 2 * errors[i]) << name << " element " << i << ": " << g[i] << ", PyTorch " << w[i];
      ASSERT_LE(errors[i], 1e-11 * std::max(1.0, largest(got))) << name << ": a bound this coarse says nothing";
    }
  }
  void expect(const TensorView& got, const std::string& name, int64_t roundings, double scale) {
    expect(got, name, std::vector<double>(got.count(), gamma64(roundings) * scale));
  }

 private:
  SafetensorsReader file_{RAVINE_SOURCE_DIR "/tests/golden/ops.safetensors"};
  Case case_;
};

constexpr int64_t kCall = 8;  // roundings in exp, log, sqrt: at most 4 ulp

TEST_F(TorchGolden, RmsNorm) {
  RmsNormForward f;
  f.x = in("rms_norm.x"), f.branch = in("rms_norm.branch"), f.weight = in("rms_norm.weight"), f.eps = 1e-5;
  f.sum = like(f.x), f.out = like(f.x), f.rstd = fresh({f.x.rows()});
  kRef.of<RmsNormForward>().run(f, nullptr);
  int64_t c = f.x.cols(), n = f.x.rows(), chain = c + 4 + 2 * kCall;
  expect(f.out, "rms_norm.out", chain, largest(f.out));
  RmsNormBackward b;
  b.dout = in("rms_norm.dout"), b.dsum = in("rms_norm.dsum"), b.x = f.sum, b.weight = f.weight, b.rstd = f.rstd;
  b.dx = like(f.x), b.dweight = like(f.weight);
  kRef.of<RmsNormBackward>().run(b, nullptr);
  double xhat = largest(f.sum) * largest(f.rstd), h = largest(b.dout) * largest(f.weight);
  expect(b.dx, "rms_norm.dx", 2 * chain, largest(b.dsum) + largest(f.rstd) * h * (1 + xhat * xhat));
  expect(b.dweight, "rms_norm.dweight", chain + n, static_cast<double>(n) * largest(b.dout) * xhat);
}

TEST_F(TorchGolden, Attention) {
  struct Variant {
    const char* name;
    bool causal;
    int64_t window;
  };
  const Segment documents[] = {{0, 20, 0, 20}, {22, 13, 22, 13}};
  for (const Variant& variant : {Variant{"causal", true, 0}, Variant{"window", true, 6}, Variant{"full", false, 0}}) {
    std::string at = std::string("attention.") + variant.name + ".";
    AttentionForward f;
    f.q = in(at + "q"), f.k = in(at + "k"), f.v = in(at + "v"), f.out = like(f.q), f.lse = like(in(at + "lse"));
    f.at = {documents, 4, 2, 8, 0.3, variant.causal, variant.window};
    kRef.of<AttentionForward>().run(f, nullptr);
    ForwardErrors forward = forward_errors(f, 0x1p-53);
    expect(f.out, at + "out", forward.out);
    expect(f.lse, at + "lse", forward.lse);
    AttentionBackward b;
    b.dout = in(at + "dout"), b.q = f.q, b.k = f.k, b.v = f.v, b.out = f.out, b.lse = f.lse, b.at = f.at;
    b.dq = like(f.q), b.dk = like(f.k), b.dv = like(f.v);
    kRef.of<AttentionBackward>().run(b, nullptr);
    BackwardErrors backward = backward_errors(b, 0x1p-53);
    expect(b.dq, at + "dq", backward.dq);
    expect(b.dk, at + "dk", backward.dk);
    expect(b.dv, at + "dv", backward.dv);
  }
}

TEST_F(TorchGolden, Swiglu) {
  TensorView gate = in("swiglu.gate"), up = in("swiglu.up"), dout = in("swiglu.dout"), out = like(gate), dgate = like(gate),
             dup = like(up);
  kRef.of<SwigluForward>().run({gate, up, out}, nullptr);
  kRef.of<SwigluBackward>().run({gate, up, dout, dgate, dup}, nullptr);
  double g = largest(gate);
  expect(out, "swiglu.out", 2 * kCall, g * largest(up));
  expect(dgate, "swiglu.dgate", 4 * kCall, largest(dout) * largest(up) * (1 + g));
  expect(dup, "swiglu.dup", 2 * kCall, largest(dout) * g);
}

TEST_F(TorchGolden, LossHeadAndCrossEntropy) {
  CrossEntropy e;
  e.logits = in("loss.logits"), e.labels = in("loss.labels"), e.losses = like(in("loss.losses")), e.dlogits = like(e.logits);
  e.grad_scale = 1.0 / 9;
  kRef.of<CrossEntropy>().run(e, nullptr);
  LossHead a;
  a.x = in("loss.x"), a.weight = in("loss.weight"), a.labels = e.labels, a.losses = like(e.losses), a.dx = like(a.x);
  a.dweight = like(a.weight), a.grad_scale = 1.0 / 9;
  kRef.of<LossHead>().run(a, nullptr);
  double logit = largest_norm(a.x, 12) * largest_norm(a.weight, 12), amplified = 2 + 3 * logit;
  int64_t chain = 12 + 19 + 2 * kCall;
  expect(e.losses, "loss.losses", chain, amplified);
  expect(e.dlogits, "loss.dlogits", chain, amplified / 9);
  expect(a.losses, "loss.losses", chain, amplified);
  expect(a.dx, "loss.dx", chain + 19, 2 * amplified / 9 * largest(a.weight));  // softmax - onehot sums to at most 2
  expect(a.dweight, "loss.dweight", chain + 11, 11 * amplified / 9 * largest(a.x));
}

TEST_F(TorchGolden, Rope) {
  TensorView x = in("rope.x"), positions = in("rope.positions"), table = in("rope.table"), dx = in("rope.dout");
  double scale = 2 * largest(x), back = 2 * largest(dx);
  kRef.of<Rope>().run({x, positions, table, 3, false}, nullptr);
  kRef.of<Rope>().run({dx, positions, table, 3, true}, nullptr);
  expect(x, "rope.out", 3 + kCall, scale);
  expect(dx, "rope.dx", 3 + kCall, back);
}

// Five steps; the errors of each step enter the next. A step is lr m / sqrt(v). The error of m is relative to the
// magnitude of its terms, since these cancel. 1 - beta^t, for a beta that is not a binary fraction, has the rounding of
// its terms over its smallest value, 1 - beta; for v it is halved by the root.
TEST_F(TorchGolden, Adam) {
  for (bool l2 : {false, true}) {
    std::string at = l2 ? "optim.adam." : "optim.adamw.";
    TensorView param = in(at + "param"), grads = in(at + "grads"), m = like(param), v = like(param);
    kRef.of<Fill>().run({m, 0}, nullptr), kRef.of<Fill>().run({v, 0}, nullptr);
    int64_t n = param.count();
    UpdateSpan span{0, n, 1, 0.1};
    double beta2 = l2 ? 0.999 : 0.95, lr = 0.01;
    TensorView trail = fresh({grads.rows(), n});
    for (int64_t t = 0; t < grads.rows(); ++t) {
      AdamW a{param, grads.row_range(t, 1), m, v, {}, {}, {&span, 1}, 0.9, beta2, 1e-8, l2};
      a.scalars = scalars({lr, 1 - std::pow(0.9, t + 1), 1 - std::pow(beta2, t + 1), 1});
      kRef.of<AdamW>().run(a, nullptr);
      kRef.of<Cast>().run({param, trail.row_range(t, 1)}, nullptr);
    }
    double least = 1e300;  // of sqrt(v / bias2): the factor of errors of m
    for (double x : values(v)) least = std::min(least, std::sqrt(x));
    double g = largest(grads) + 0.1 * largest(in(at + "param"));
    double scale = largest(trail) + lr * g / least * (1 + 1 / (1 - 0.9) + 0.5 / (1 - beta2));
    expect(trail, at + "params", 5 * (12 + 2 * kCall), scale);
  }
}

TEST_F(TorchGolden, Sgd) {
  struct Variant {
    const char* name;
    double momentum, dampening, decay;
    bool nesterov;
  };
  for (const Variant& s :
       {Variant{"sgd", 0, 0, 0.01, false}, Variant{"momentum", 0.9, 0.1, 0.01, false}, Variant{"nesterov", 0.9, 0, 0, true}}) {
    std::string at = std::string("optim.") + s.name + ".";
    TensorView param = in(at + "param"), grads = in(at + "grads"), buffer = s.momentum ? like(param) : TensorView{};
    int64_t n = param.count();
    double scale = largest(param) + 5 * 0.05 * 5 * (largest(grads) + 0.01 * largest(param));
    UpdateSpan span{0, n, 1, s.decay};
    TensorView trail = fresh({grads.rows(), n}), rates = scalars({0.05, 1, 1, 1});
    for (int64_t t = 0; t < grads.rows(); ++t) {
      kRef.of<Sgd>().run(
          {param, grads.row_range(t, 1), buffer, {}, rates, {&span, 1}, s.momentum, s.dampening, s.nesterov, t == 0}, nullptr);
      kRef.of<Cast>().run({param, trail.row_range(t, 1)}, nullptr);
    }
    expect(trail, at + "params", 5 * 10, scale);
  }
}

}  // namespace test_torch_golden
}  // namespace ravine
