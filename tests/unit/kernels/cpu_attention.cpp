// Attention of cpu against ref, forward and backward. The errors of every step are carried through (derivations at the
// functions).
#include "tests/unit/attention_errors.h"
#include "tests/unit/tiers.h"

namespace ravine {
namespace test_cpu_attention {

struct Heads {
  int64_t heads, kv_heads, size, value_size = 0;
  int64_t values() const { return value_size > 0 ? value_size : size; }
};
struct Batch {
  const char* what;
  std::vector<Segment> segments;
  int64_t q_rows, k_rows;
};
struct Masking {
  bool causal;
  int64_t window;
  bool alibi = false;
  double cap = 0, dropout = 0;
};
const std::vector<double> kSlopes = {0.5, 0.25, 0.0625, 0.7, 0.01, 0.125, 0.3, 0.002, 0.9, 0.03125, 0.4, 0.2};

// Documents of these lengths with `gap` rows of padding before each and at the end.
Batch documents(const char* what, std::vector<int64_t> lengths, int64_t gap) {
  Batch b{what, {}, gap, 0};
  for (int64_t n : lengths) b.segments.push_back({b.q_rows, n, b.q_rows, n}), b.q_rows += n + gap;
  b.k_rows = b.q_rows;
  return b;
}

const std::vector<Batch> kBatches = {
    documents("one token", {1}, 0),
    documents("short", {7}, 0),
    documents("one document", {129}, 0),
    documents("documents with padding", {5, 64, 1, 33}, 3),
    documents("long", {300}, 2),
    {"cache", {{0, 1, 0, 40}, {1, 1, 70, 300}, {2, 5, 380, 130}}, 8, 520},
    {"fewer keys than queries", {{2, 20, 1, 9}}, 25, 12},
    {"keys shared by segments", {{0, 20, 0, 40}, {21, 30, 10, 70}}, 52, 81},
    documents("several blocks of queries per task", {520}, 0),
};
const Heads kHeads[] = {{2, 2, 8}, {4, 2, 10},  {3, 1, 16},     {4, 2, 64},     {2, 1, 128},
                        {6, 1, 8}, {12, 12, 8}, {4, 2, 24, 10}, {3, 3, 10, 40}, {20, 1, 21, 16}};
const Masking kMasks[] = {{true, 0},
                          {false, 0},
                          {true, 17},
                          {false, 33},
                          {true, 1},
                          {true, 0, true},
                          {false, 0, true},
                          {true, 17, true},
                          {true, 0, false, 3},
                          {false, 33, false, 1.5},
                          {true, 17, false, 3},
                          {true, 0, false, 0, 0.3},
                          {false, 33, false, 0, 0.1},
                          {true, 17, false, 3, 0.3},
                          {true, 0, true, 0, 0.5}};

struct KernelCase {
  DType type;
  Bf16Products products;
};

class CpuAttention : public testing::TestWithParam<KernelCase> {
 protected:
  void SetUp() override {
    if (GetParam().products == Bf16Products::dot && !cpu_has_bf16_dot()) GTEST_SKIP() << "this machine has no bf16 dot product";
  }
  DType type() const { return GetParam().type; }
  const Kernels kernels = cpu_kernels(cpu_has_bf16_dot() ? GetParam().products : Bf16Products::widen);
};

void at_dropout(AttentionShape& at, double p, const TensorView& token_index, const TensorView& sequences) {
  at.dropout = {p, 0x123456789abcdefull, 42, 5, token_index, sequences};
}

// q, k, v are column slices of one product's output if they have the same number of rows.
AttentionForward inputs(Case& c, DType t, const Batch& b, const Heads& h, const Masking& mask, double spread = 2) {
  AttentionForward a;
  int64_t wide = h.heads * h.size, narrow = h.kv_heads * h.size, of_values = h.kv_heads * h.values();
  if (b.q_rows == b.k_rows) {
    TensorView qkv = c.input(1, t, {b.q_rows, wide + narrow + of_values}, 2, spread);
    a.q = qkv.columns(0, wide), a.k = qkv.columns(wide, narrow), a.v = qkv.columns(wide + narrow, of_values);
  } else {
    a.q = c.input(1, t, {b.q_rows, wide}, 3, spread), a.k = c.input(2, t, {b.k_rows, narrow}, 1, spread);
    a.v = c.input(3, t, {b.k_rows, of_values}, 5, spread);
    // values may be columns of the keys
    if (h.value_size > 0 && h.value_size < h.size) a.v = a.k.columns(0, of_values);
  }
  a.at = {b.segments,  h.heads,     h.kv_heads, h.size,  1 / std::sqrt(static_cast<double>(h.size)),
          mask.causal, mask.window, {},         mask.cap};
  a.at.value_size = h.value_size;
  if (mask.dropout != 0) {
    std::vector<int64_t> token_index, sequences;
    for (int64_t i = 0; i < b.q_rows; ++i)
      token_index.push_back(1000 + i % 300), sequences.push_back((int64_t{1} << 33) + i / 300);
    at_dropout(a.at, mask.dropout, c.integers(DType::i32, token_index), c.integers(DType::i64, sequences));
  }
  if (mask.alibi) a.at.slopes = std::span(kSlopes).first(static_cast<size_t>(h.heads));
  return a;
}

template <class F>
void each_case(DType t, F&& f) {
  Drawn drawn(5);  // of several hundred for each type
  for (const Batch& b : kBatches)
    for (const Heads& h : kHeads)
      for (const Masking& m : kMasks) {
        if (b.q_rows >= 500 && (h.kv_heads != 12 || m.window > 17))
          continue;  // only with as many heads does a task have its full size
        if (m.alibi && h.heads > static_cast<int64_t>(kSlopes.size())) continue;
        // long batches with some sizes only
        if (b.q_rows >= 300 && h.size > 10 && (m.window > 1 || h.size != 64)) continue;
        if (m.cap != 0 || m.dropout != 0) {  // groups of two and of six; the longest batch with both
          if (b.q_rows < 500 ? h.size != 10 && h.heads != 6 : m.cap == 0 || m.dropout == 0) continue;
        }
        const std::string what =
            fmt::format("{} {}: {} heads, {} kv heads of {}, {}, causal {} window {} alibi {} cap {} dropout {}", name(t),
                        b.what, h.heads, h.kv_heads, h.size, h.values(), m.causal, m.window, m.alibi, m.cap, m.dropout);
        if (drawn(what)) f(b, h, m, what);
      }
}

TEST_P(CpuAttention, Forward) {
  SKIP_WITHOUT(AttentionForward);
  each_case(type(), [&](const Batch& b, const Heads& h, const Masking& m, const std::string& what) {
    Case c;
    AttentionForward a = inputs(c, type(), b, h, m);
    a.out = c.output(type(), {b.q_rows, h.heads * h.values()}, 3);
    a.lse = c.output(DType::f32, {h.heads, b.q_rows});
    ForwardErrors errors = forward_errors(a);
    auto o = run_both(a, kernels);
    expect_close(
        o["out"], [&](int64_t i) { return errors.out[i]; }, "out, " + what);
    expect_close(
        o["lse"], [&](int64_t i) { return std::isinf(o["lse"].want[i]) ? 0 : errors.lse[i]; }, "lse, " + what);
    a.lse = {};
    run_kernel(kernels, a);
    EXPECT_EQ(values(a.out), o["out"].got) << "without lse, " << what;
    c.expect_intact();
  });
}

TEST_P(CpuAttention, Backward) {
  SKIP_WITHOUT(AttentionBackward);
  each_case(type(), [&](const Batch& b, const Heads& h, const Masking& m, const std::string& what) {
    Case c;
    DType t = type();
    AttentionForward f = inputs(c, t, b, h, m);
    f.out = c.output(t, {b.q_rows, h.heads * h.values()}, 1), f.lse = c.output(DType::f32, {h.heads, b.q_rows});
    ref_kernels().of<AttentionForward>().run(f, nullptr);
    AttentionBackward a;
    a.q = f.q, a.k = f.k, a.v = f.v, a.out = f.out, a.lse = f.lse, a.at = f.at;
    a.dout = c.input(4, t, {b.q_rows, h.heads * h.values()}, 2);
    int64_t wide = h.heads * h.size, narrow = h.kv_heads * h.size, of_values = h.kv_heads * h.values();
    if (b.q_rows == b.k_rows) {
      TensorView all = c.output(t, {b.q_rows, wide + narrow + of_values}, 4);
      a.dq = all.columns(0, wide), a.dk = all.columns(wide, narrow), a.dv = all.columns(wide + narrow, of_values);
    } else {
      a.dq = c.output(t, {b.q_rows, wide}, 2), a.dk = c.output(t, {b.k_rows, narrow}, 1),
      a.dv = c.output(t, {b.k_rows, of_values}, 3);
    }
    BackwardErrors errors = backward_errors(a);
    auto o = run_both(a, kernels);
    expect_close(
        o["dq"], [&](int64_t i) { return errors.dq[i]; }, "dq, " + what);
    expect_close(
        o["dk"], [&](int64_t i) { return errors.dk[i]; }, "dk, " + what);
    expect_close(
        o["dv"], [&](int64_t i) { return errors.dv[i]; }, "dv, " + what);
    c.expect_intact();
  });
}

// The result of a document does not depend on its place in the batch or on its neighbours.
TEST_P(CpuAttention, SameBitsAnywhere) {
  SKIP_WITHOUT(AttentionForward);
  Case c;
  DType t = type();
  Batch alone = documents("alone", {61}, 0), packed = documents("packed", {13, 61, 90}, 2);
  Heads h{4, 2, 16};
  AttentionForward a = inputs(c, t, packed, h, {true, 0});
  a.out = c.output(t, {packed.q_rows, 64});
  run_kernel(kernels, a);
  AttentionForward b = a;
  int64_t from = packed.segments[1].q_begin;
  b.q = a.q.row_range(from, 61), b.k = a.k.row_range(from, 61), b.v = a.v.row_range(from, 61);
  b.out = c.output(t, {61, 64}), b.at.segments = alone.segments;
  run_kernel(kernels, b);
  EXPECT_EQ(values(a.out.row_range(from, 61)), values(b.out));
}

// ALiBi far from the beginning of a row, where slope * key position would lose its last digits.
TEST_P(CpuAttention, AlibiFarOut) {
  SKIP_WITHOUT(AttentionForward);
  Case c;
  DType t = type();
  const Batch far{"far", {{0, 1, 0, 30000}, {1, 6, 0, 30000}}, 7, 30000};
  AttentionForward a = inputs(c, t, far, {2, 2, 8}, {true, 0, true});
  a.out = c.output(t, {7, 16}), a.lse = c.output(DType::f32, {2, 7});
  ForwardErrors errors = forward_errors(a);
  auto o = run_both(a, kernels);
  expect_close(
      o["lse"], [&](int64_t i) { return errors.lse[i]; }, "lse far out");
}

// A cache of more keys than 64 chunks of 512: chunks grow, and several segments take several rounds.
TEST_P(CpuAttention, DecodeOfVeryManyKeys) {
  SKIP_WITHOUT(AttentionForward);
  const Batch far{"far", {{0, 1, 100, 33000}, {1, 2, 0, 40000}, {3, 1, 5000, 700}}, 4, 40000};
  for (int64_t window : {0, 35000}) {
    Case c;
    AttentionForward a = inputs(c, type(), far, {2, 1, 8}, {true, window});
    a.out = c.output(type(), {4, 16}), a.lse = c.output(DType::f32, {2, 4});
    ForwardErrors errors = forward_errors(a);
    auto o = run_both(a, kernels);
    expect_close(
        o["out"], [&](int64_t i) { return errors.out[i]; }, "out of many keys");
    expect_close(
        o["lse"], [&](int64_t i) { return errors.lse[i]; }, "lse of many keys");
    c.expect_intact();
  }
}

// Scores that are hundreds apart: e to the power of all but the largest would be infinite without the subtraction.
TEST_P(CpuAttention, ScoresFarApart) {
  SKIP_WITHOUT(AttentionForward);
  for (const Batch& b : kBatches) {
    if (b.q_rows > 200) continue;
    Case c;
    AttentionForward a = inputs(c, type(), b, {4, 2, 16}, {true, 0}, 20);
    a.out = c.output(type(), {b.q_rows, 64}), a.lse = c.output(DType::f32, {4, b.q_rows});
    ForwardErrors errors = forward_errors(a);
    auto o = run_both(a, kernels);
    expect_close(
        o["out"], [&](int64_t i) { return errors.out[i]; }, fmt::format("out, {}", b.what));
    expect_close(
        o["lse"], [&](int64_t i) { return std::isinf(o["lse"].want[i]) ? 0 : errors.lse[i]; }, fmt::format("lse, {}", b.what));
  }
}

// Scores that are exact in f32, around 1024, where the logsumexp in f32 has an error of 2^-14. With an lse of f64
// probabilities have only the roundings of e^x: a few units in the last place each, and one rounding per summed key.
TEST(CpuAttentionF32, WideLogSumsLoseNothing) {
  SKIP_WITHOUT(AttentionBackward);
  for (int64_t n : {3, 7, 8, 100}) {  // few queries use another path
    Case c;
    AttentionForward f;
    const std::vector<Segment> all{{0, n, 0, n}};
    f.q = c.output(DType::f32, {n, 16}), f.k = c.output(DType::f32, {n, 16}), f.v = c.input(3, DType::f32, {n, 16}, 0, 1);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < 16; ++j) {
        f.q.row<float>(i)[j] = j == 0 ? 64.0f : static_cast<float>((i * 7 + j * 3) % 5 - 2) / 4;
        f.k.row<float>(i)[j] = j == 0 ? 64.0f : static_cast<float>((i * 5 + j * 2) % 7 - 3) / 4;
      }
    f.out = c.output(DType::f32, {n, 16}), f.lse = c.output(DType::f64, {1, n});
    f.at = {.segments = all, .heads = 1, .kv_heads = 1, .head_size = 16, .scale = 0.25};
    auto forward = run_both(f);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(forward["lse"].got[static_cast<size_t>(i)], forward["lse"].want[static_cast<size_t>(i)],
                  static_cast<double>(n + 8) * kU32)
          << n << " keys, query " << i;
    ref_kernels().of<AttentionForward>().run(f, nullptr);
    AttentionBackward b;
    b.q = f.q, b.k = f.k, b.v = f.v, b.out = f.out, b.lse = f.lse, b.at = f.at;
    b.dout = c.input(4, DType::f32, {n, 16}, 0, 1);
    b.dq = c.output(DType::f32, {n, 16}), b.dk = c.output(DType::f32, {n, 16}), b.dv = c.output(DType::f32, {n, 16});
    auto backward = run_both(b);
    for (int64_t i = 0; i < n * 16; ++i) {  // dv[k, j] = sum of p[q, k] dout[q, j], each p at most 1
      double most = 0;
      for (int64_t q = i / 16; q < n; ++q) most += std::fabs(b.dout.row<float>(q)[i % 16]);
      EXPECT_NEAR(backward["dv"].got[static_cast<size_t>(i)], backward["dv"].want[static_cast<size_t>(i)],
                  most * static_cast<double>(n + 8) * kU32)
          << n << " keys, element " << i;
    }
  }
}

std::vector<KernelCase> cases() {
  std::vector<KernelCase> all;
  for (DType t : kFloats) all.push_back({t, Bf16Products::widen});
  all.push_back({DType::bf16, Bf16Products::dot});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Types, CpuAttention, testing::ValuesIn(cases()), [](const auto& w) {
  return text_of(w.param.type) + (w.param.products == Bf16Products::dot ? "_dot" : "");
});

}  // namespace test_cpu_attention
}  // namespace ravine
