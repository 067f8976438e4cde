// Attention as a model sees it: the unfused definition beside the fused kernels under caps and dropout; what the mask
// of dropout depends on, how much it drops, that every backend drops the same, and that it is for training.
#include "engine/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "kernels/backend.h"
#include "parallel/stash.h"
#include "tests/unit/engine_help.h"

namespace ravine {
namespace test_engine_attention {

struct AttentionCase {
  const char* name;
  Kernels kernels;
  DType type;
  bool fused;
};
std::vector<AttentionCase> cases() {
  return {{"ref, f64", ref_kernels(), DType::f64, true},           {"ref, f64, unfused", ref_kernels(), DType::f64, false},
          {"ref, bf16", ref_kernels(), DType::bf16, true},         {"cpu, f32", cpu_kernels(), DType::f32, true},
          {"cpu, f32, unfused", cpu_kernels(), DType::f32, false}, {"cpu, bf16", cpu_kernels(), DType::bf16, true},
          {"cpu, f16", cpu_kernels(), DType::f16, true},           {"cpu, bf16, unfused", cpu_kernels(), DType::bf16, false}};
}

struct Setting {
  Setting(const AttentionCase& test_case, double p, uint64_t seed = 5, const Group* tensor = nullptr)
      : kernels(test_case.kernels), type(test_case.type) {
    if (!test_case.fused) recipe.unfuse("attention");
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.recipe = &recipe,
    s.types = Types::of(test_case.type);
    s.seed = seed, s.attention_dropout = p;
    s.groups[static_cast<size_t>(Axis::tensor)] = tensor;
    c = std::make_unique<Ctx>(s);
  }
  // Sequences of these lengths, each in documents of at most `document` rows.
  void sequences_of(const std::vector<int64_t>& lengths, int64_t document, int64_t first_sequence = 100) {
    for (int64_t n : lengths) {
      for (int64_t i = 0; i < n; ++i) token_index.push_back(static_cast<int32_t>(i)), sequences.push_back(first_sequence);
      for (int64_t i = 0; i < n; i += document, batch.tokens = static_cast<int64_t>(token_index.size())) {
        const int64_t begin = static_cast<int64_t>(token_index.size()) - n + i, count = std::min(document, n - i);
        batch.segments.push_back({begin, count, begin, count});
      }
      ++first_sequence;
    }
    batch.token_index = view_of(token_index.data(), DType::i32, {batch.tokens}),
    batch.sequences = view_of(sequences.data(), DType::i64, {batch.tokens});
  }
  Tensor tensor(int64_t rows, int64_t cols, auto value) {
    Tensor t = c->empty({rows, cols}, DType::f64), narrow = c->empty({rows, cols}, type);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) t.view().row<double>(i)[j] = value(i, j);
    c->call(Cast{t.view(), narrow.view()});
    return narrow;
  }
  std::vector<double> numbers(const TensorView& v) {
    Tensor wide = c->empty({v.rows(), v.cols()}, DType::f64);
    ref_kernels().of<Cast>().run({v, wide.view()}, nullptr);
    return {wide.view().as<double>(), wide.view().as<double>() + v.count()};
  }
  Kernels kernels;
  DType type;
  HeapArena arena;
  Recipe recipe;
  LoggingStore store;
  std::unique_ptr<Stash> stash = make_stash(Recompute::none);
  Unit unit{"model.layers.0", {}, 0};
  std::vector<int32_t> token_index;
  std::vector<int64_t> sequences;
  Batch batch;
  std::unique_ptr<Ctx> c;
};

// Output and gradients of q, k, v for a loss with random weights.
std::vector<std::vector<double>> results(Setting& s, const AttentionShape& at) {
  const int64_t n = s.batch.tokens, wide = at.heads * at.head_size, narrow = at.kv_heads * at.head_size;
  auto random = [&](uint64_t key, double spread) {
    return [=](int64_t i, int64_t j) {
      return spread * (2 * uniform24(philox(key, {static_cast<uint32_t>(i), static_cast<uint32_t>(j), 0, 0})[0]) - 1);
    };
  };
  std::vector<std::vector<double>> out;
  TensorRef refs[3];
  s.batch.step = 3;
  s.c->begin(s.batch, true);
  s.c->block("model.layers.0", s.unit, {}, [&](Ctx& c, Flow) {
    Ctx::Scope scope(c, "self_attn");
    Tensor q = s.tensor(n, wide, random(1, 2)), k = s.tensor(n, narrow, random(2, 2)), v = s.tensor(n, narrow, random(3, 1));
    refs[0] = q.ref(), refs[1] = k.ref(), refs[2] = v.ref();
    Tensor y = attention(c, q, k, v, at);
    out.push_back(s.numbers(y.view()));
    c.record("loss", {}, [&s, n, wide, random, yr = y.ref()](Ctx& c) { c.give_grad(yr, s.tensor(n, wide, random(4, 1))); });
    return Flow{};
  });
  s.c->backward({refs[0], refs[1], refs[2]});
  for (const TensorRef& r : refs) out.push_back(s.numbers(s.c->grads().get(r).view()));
  return out;
}

TEST(Attention, TheUnfusedDefinitionIsWhatTheKernelsDo) {
  for (double cap : {0.0, 0.9})
    for (double p : {0.0, 0.3})
      for (int64_t window : {0, 5}) {
        AttentionShape at;
        at.heads = 4, at.kv_heads = 2, at.head_size = 6, at.scale = 0.4, at.window = window, at.cap = cap;
        std::vector<std::vector<double>> want;
        for (const AttentionCase& test_case : cases()) {
          Setting s(test_case, p);
          s.sequences_of({11, 30, 1}, 13);
          const auto got = results(s, at);
          if (want.empty()) want = got;
          // The bf16 and f16 of q, k, v and of the probabilities are of the sizes of what they are compared with; f32
          // sums 30 of them.
          const double bound = test_case.type == DType::f64   ? 1e-13
                               : test_case.type == DType::f32 ? 1e-5
                                                              : 40 * epsilon(test_case.type);
          for (size_t t = 0; t < want.size(); ++t)
            for (size_t i = 0; i < want[t].size(); ++i)
              ASSERT_NEAR(got[t][i], want[t][i], bound * 4)
                  << test_case.name << " cap " << cap << " p " << p << " tensor " << t << " " << i;
        }
      }
}

// The mask: queries that see all keys alike, and values that are columns of the identity, so that element (i, j) of the
// output is what becomes of key j.
constexpr int64_t kKeysSeen = 64, kHeads = 4;

std::vector<bool> mask(Setting& s, uint32_t step, const std::string& path = "self_attn", bool training = true,
                       int64_t heads = kHeads) {
  AttentionShape at;
  at.heads = heads, at.kv_heads = 1, at.head_size = kKeysSeen, at.causal = false;
  std::vector<bool> kept;
  s.batch.step = step;
  s.c->begin(s.batch, training);
  s.c->block("model.layers.0", s.unit, {}, [&](Ctx& c, Flow) {
    Ctx::Scope scope(c, path);
    const int64_t n = s.batch.tokens;
    std::vector<int64_t> key(static_cast<size_t>(n));
    for (const Segment& g : s.batch.segments)
      for (int64_t j = 0; j < g.k_count; ++j) key[static_cast<size_t>(g.k_begin + j)] = j;
    Tensor y = attention(c, s.tensor(n, heads * kKeysSeen, [](int64_t, int64_t) { return 0; }),
                         s.tensor(n, kKeysSeen, [](int64_t, int64_t) { return 1; }),
                         s.tensor(n, kKeysSeen, [&](int64_t i, int64_t j) { return key[static_cast<size_t>(i)] == j; }), at);
    for (double x : s.numbers(y.view())) kept.push_back(x != 0);
    return Flow{};
  });
  return kept;
}

// 32 sequences of two documents each.
struct Many : Setting {
  Many(const AttentionCase& test_case, double p, uint64_t seed = 5, int64_t first_sequence = 100)
      : Setting(test_case, p, seed) {
    sequences_of(std::vector<int64_t>(32, 2 * kKeysSeen), kKeysSeen, first_sequence);
  }
};

double share_of(const std::vector<bool>& a, auto f) {
  int64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += f(i);
  return static_cast<double>(n) / static_cast<double>(a.size());
}

// The share of n draws with probability p is within 5 standard deviations of p.
double spread(double p, double n) { return 5 * std::sqrt(p * (1 - p) / n); }

void expect_independent(const std::vector<bool>& a, const std::vector<bool>& b, double drop, const std::string& what) {
  const double p = 2 * drop * (1 - drop);
  EXPECT_NEAR(share_of(a, [&](size_t i) { return a[i] != b[i]; }), p, spread(p, static_cast<double>(a.size()))) << what;
}

TEST(AttentionDropout, DropsItsShareOfAMillion) {
  for (double p : {0.1, 0.5, 0.9}) {
    Many s(cases()[3], p);
    const std::vector<bool> m = mask(s, 3);
    ASSERT_GE(m.size(), 1000000u);
    EXPECT_NEAR(share_of(m, [&](size_t i) { return !m[i]; }), p, spread(p, static_cast<double>(m.size())));
  }
}

TEST(AttentionDropout, AnotherMaskForEveryStepPathSeedSequenceHeadQueryAndKey) {
  const double p = 0.3;
  const AttentionCase test_case = cases()[3];
  Many s(test_case, p), other_seed(test_case, p, 6), other_sequences(test_case, p, 5, 100000);
  const std::vector<bool> m = mask(s, 3);
  EXPECT_EQ(m, mask(s, 3)) << "the same place has the same mask, so recompute and backward agree";
  expect_independent(m, mask(s, 4), p, "steps");
  expect_independent(m, mask(s, 3, "other"), p, "paths");
  expect_independent(m, mask(other_seed, 3), p, "seeds");
  expect_independent(m, mask(other_sequences, 3), p, "sequences");
  // Row i of the output has the keys of one head after another.
  const size_t row = kHeads * kKeysSeen;
  for (auto [shift, what] : {std::pair{size_t{1}, "keys"},
                             {size_t{4}, "keys four apart"},
                             {size_t{kKeysSeen}, "heads"},
                             {row, "queries"},
                             {row * kKeysSeen, "documents of a sequence"},
                             {2 * row * kKeysSeen, "neighbouring sequences"}})
    expect_independent({m.begin(), m.end() - static_cast<int64_t>(shift)}, {m.begin() + static_cast<int64_t>(shift), m.end()},
                       p, what);
}

TEST(AttentionDropout, EveryBackendAndTheUnfusedDefinitionDropTheSame) {
  std::vector<bool> want;
  for (const AttentionCase& test_case : cases()) {
    Setting s(test_case, 0.3);
    s.sequences_of({kKeysSeen, 3, 2 * kKeysSeen - 5, 17}, kKeysSeen);
    const std::vector<bool> got = mask(s, 7);
    if (want.empty()) want = got;
    EXPECT_TRUE(got == want) << test_case.name;
  }
}

// Not by the place in the micro batch: sequences may come in any order and in any company.
TEST(AttentionDropout, TheMaskFollowsTheSequence) {
  const AttentionCase test_case = cases()[3];
  Setting together(test_case, 0.3), alone(test_case, 0.3);
  together.sequences_of({50, kKeysSeen, 20}, kKeysSeen, 100), alone.sequences_of({kKeysSeen}, kKeysSeen, 101);
  const std::vector<bool> all = mask(together, 3), one = mask(alone, 3);
  const int64_t row = kHeads * kKeysSeen;
  EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + 50 * row));
}

TEST(AttentionDropout, TensorRanksHaveTheMasksOfTheirHeads) {
  const AttentionCase test_case = cases()[3];
  Setting whole(test_case, 0.3);
  whole.sequences_of({kKeysSeen}, kKeysSeen);
  const std::vector<bool> want = mask(whole, 3);
  for (int rank = 0; rank < 2; ++rank) {
    FakeGroup group(rank, 2);
    Setting part(test_case, 0.3, 5, &group);
    part.sequences_of({kKeysSeen}, kKeysSeen);
    const std::vector<bool> got = mask(part, 3, "self_attn", true, kHeads / 2);
    for (int64_t i = 0; i < kKeysSeen; ++i)
      for (int64_t j = 0; j < kHeads / 2 * kKeysSeen; ++j)
        ASSERT_EQ(got[static_cast<size_t>(i * kHeads / 2 * kKeysSeen + j)],
                  want[static_cast<size_t>(i * kHeads * kKeysSeen + rank * kHeads / 2 * kKeysSeen + j)])
            << rank;
  }
}

TEST(AttentionDropout, IsForTrainingOnly) {
  for (const AttentionCase& test_case : cases()) {
    Setting s(test_case, 0.3);
    s.sequences_of({kKeysSeen}, kKeysSeen);
    const std::vector<bool> m = mask(s, 3, "self_attn", false);
    EXPECT_EQ(share_of(m, [&](size_t i) { return m[i]; }), 1) << test_case.name;
  }
}

}  // namespace test_engine_attention
}  // namespace ravine
