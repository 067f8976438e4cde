// Two dumps held against each other: errors of pairs, the bounds that a call is given, and who is named.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/philox.h"
#include "files/safetensors.h"
#include "probe/compare_bounds.h"
#include "probe/compare_dumps.h"
#include "probe/hypothesis.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_probe_compare {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
PairErrors between(const std::vector<T>& a, const std::vector<T>& b, DType type) {
  return errors_between(type, std::as_bytes(std::span(a)), type, std::as_bytes(std::span(b)));
}

TEST(PairErrors, KnowNaNInfinityZeroAndSubnormals) {
  const float nan = NAN, inf = INFINITY, tiny = std::numeric_limits<float>::denorm_min();
  PairErrors e = between<float>({nan, inf, -0.0F, tiny}, {nan, inf, 0, 0}, DType::f32);
  EXPECT_EQ(e.differing, 1);
  EXPECT_EQ(e.at, 3);
  EXPECT_EQ(e.max_ulp, 1) << "the smallest number is next to 0";
  EXPECT_EQ(e.not_finite_on_one, 0);
  e = between<float>({1, nan}, {1, 2}, DType::f32);
  EXPECT_EQ(e.not_finite_on_one, 1);
  EXPECT_EQ(e.relative, kInf);
  EXPECT_EQ(e.max_abs, kInf);
  EXPECT_EQ(e.ulps.back(), 1);
  EXPECT_EQ(e.cosine, 1) << "of what is finite on both sides";
  e = between<float>({0}, {0}, DType::f32);
  EXPECT_EQ(e.relative, 0);
  EXPECT_EQ(e.cosine, 1);
  EXPECT_EQ(e.at, -1);
  e = between<float>({0}, {3}, DType::f32);
  EXPECT_EQ(e.relative, kInf);
  EXPECT_EQ(e.cosine, 0);
  e = between<float>({-tiny}, {tiny}, DType::f32);
  EXPECT_EQ(e.max_ulp, 2);
  e = between<int32_t>({1, 5}, {1, -2}, DType::i32);
  EXPECT_EQ(e.max_ulp, 7);
  EXPECT_EQ(e.b_at, -2);
}

TEST(PairErrors, KnowNumbersWhoseSquaresF64DoesNot) {
  for (const double s : {1.0, 1e200, 1e-200, 5e-324}) {
    const PairErrors e = between<double>({s, 0}, {3 * s, s}, DType::f64);
    EXPECT_NEAR(e.relative, std::sqrt(5.0), 1e-12) << s;
    EXPECT_NEAR(e.cosine, 3 / std::sqrt(10.0), 1e-12) << s;
  }
  EXPECT_EQ(between<double>({kInf, 1e200}, {kInf, -1e200}, DType::f64).relative, 2);
  EXPECT_EQ(between<double>({1e308}, {-1e308}, DType::f64).relative, 2);
  const ComparedPair p{.error = NAN, .own = 1, .judged = true};
  EXPECT_TRUE(p.beyond()) << "nothing explains what is no number";
}

TEST(PairErrors, CompareIntegersAsIntegers) {
  constexpr int64_t big = int64_t{1} << 53, most = std::numeric_limits<int64_t>::max();
  for (const auto& [a, b] : {std::pair{big, big + 1}, {most, most - 1}, {-most - 1, -most}}) {
    const PairErrors e = between<int64_t>({a, 7}, {b, 7}, DType::i64);
    EXPECT_EQ(e.differing, 1) << a;
    EXPECT_EQ(e.max_ulp, 1) << a;
    EXPECT_EQ(e.max_abs, 1) << a;
    EXPECT_GT(e.relative, 0) << a;
    EXPECT_EQ(element_text(DType::i64, e.b_at, 9), std::to_string(b));
  }
  EXPECT_EQ(between<int64_t>({-most - 1}, {most}, DType::i64).max_ulp, most);
  const std::vector<int64_t> whole{big, big + 1};
  const std::vector<double> real{1.0 * big, 1.0 * big};
  const PairErrors e = errors_between(DType::i64, std::as_bytes(std::span(whole)), DType::f64, std::as_bytes(std::span(real)));
  EXPECT_EQ(e.differing, 1) << "against a float too";
}

TEST(TensorFigures, OfTheEndsOfF64) {
  for (const double s : {1e200, 1e-200, 5e-324}) {
    std::vector<double> v{3 * s, -4 * s, 0};
    const TensorFigures f = figures_of(view_of(v.data(), DType::f64, {3}), true);
    EXPECT_NEAR(f.l2 / s, 5, 1e-9) << s;
    EXPECT_NEAR(f.l1 / s, 7, 1e-9) << s;
    EXPECT_EQ(f.min, -4 * s);
    if (s > 1e-300) EXPECT_NEAR(f.std / s, std::sqrt(25.0 / 3 - 1.0 / 9), 1e-9) << s;
    std::vector<double> w{3 * s, -8 * s, 0};
    const double least = least_error(f, figures_of(view_of(w.data(), DType::f64, {3}), true));
    EXPECT_TRUE(least > 0.5 && least <= 0.8 + 1e-9) << least;
  }
  TensorFigures lacks;
  lacks.count = lacks.finite = 1, lacks.l2 = NAN;
  EXPECT_EQ(least_error(lacks, lacks), kInf) << "of a log that somebody has changed";
}

TEST(PairErrors, CountStepsInTheTypeOfFewerBits) {
  const std::vector<float> a{1, 1.0078125F, -3};
  const std::vector<bf16> b{bf16(1.0F), bf16(1.0F), bf16(-3.0F)};
  const PairErrors e = errors_between(DType::f32, std::as_bytes(std::span(a)), DType::bf16, std::as_bytes(std::span(b)));
  EXPECT_EQ(e.max_ulp, 1);
  EXPECT_EQ(e.ulps[0], 2);
  EXPECT_EQ(e.ulps[1], 1);
  EXPECT_EQ(e.at, 1);
  EXPECT_DOUBLE_EQ(e.bias, -0.0078125 / 3);
}

double draw(uint64_t key, int64_t i) {
  const auto w = philox(key, {static_cast<uint32_t>(i), 0, 0, 0});
  return (static_cast<double>(w[0]) + static_cast<double>(w[1]) - 0x1p32) * 0x1p-31;
}

std::vector<float> drawn(uint64_t key, int64_t n) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(draw(key, i)));
  return v;
}

TensorFigures figures(std::vector<float> v, bool statistics = true) {
  return figures_of(view_of(v.data(), DType::f32, {static_cast<int64_t>(v.size())}), statistics);
}

// Blocks go through the vector units, single elements one by one.
template <class A, class B>
void expect_sums_of_elements(DType a_type, DType b_type, int64_t n) {
  std::vector<A> a;
  std::vector<B> b;
  for (int64_t i = 0; i < n; ++i) {
    const float x = i % 97 == 0 ? 0 : std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i % 24) - 12);
    const float y = i % 5 == 0 ? x : i % 7 == 0 ? -x : i % 3 == 0 ? std::nextafter(x, 9.0F) : x * (1 + 1e-2F * std::cos(x));
    a.emplace_back(x), b.emplace_back(y);
  }
  const auto bytes_a = std::as_bytes(std::span(a)), bytes_b = std::as_bytes(std::span(b));
  const PairErrors e = errors_between(a_type, bytes_a, b_type, bytes_b);
  PairErrors want;
  double aa = 0, bb = 0, d = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const PairErrors one =
        errors_between(a_type, bytes_a.subspan(at * sizeof(A), sizeof(A)), b_type, bytes_b.subspan(at * sizeof(B), sizeof(B)));
    want.differing += one.differing;
    want.max_ulp = std::max(want.max_ulp, one.max_ulp);
    for (size_t k = 0; k < want.ulps.size(); ++k) want.ulps[k] += one.ulps[k];
    if (one.max_abs > want.max_abs) want.max_abs = one.max_abs, want.at = i, want.a_at = one.a_at, want.b_at = one.b_at;
    aa += one.norm_a * one.norm_a, bb += one.norm_b * one.norm_b, d += one.max_abs * one.max_abs;
  }
  EXPECT_EQ(e.differing, want.differing);
  EXPECT_EQ(e.max_ulp, want.max_ulp);
  EXPECT_EQ(e.ulps, want.ulps);
  EXPECT_EQ(e.max_abs, want.max_abs);
  EXPECT_EQ(e.at, want.at);
  EXPECT_EQ(e.a_at, want.a_at);
  EXPECT_EQ(e.b_at, want.b_at);
  EXPECT_NEAR(e.norm_a, std::sqrt(aa), 1e-12 * e.norm_a);
  EXPECT_NEAR(e.norm_b, std::sqrt(bb), 1e-12 * e.norm_b);
  EXPECT_NEAR(e.relative, std::sqrt(d / aa), 1e-12 * e.relative);
}

TEST(PairErrors, OfBlocksAreThoseOfTheirElements) {
  for (const int64_t n : {8, 1024, 70000, 70003}) {
    expect_sums_of_elements<float, float>(DType::f32, DType::f32, n);
    expect_sums_of_elements<bf16, bf16>(DType::bf16, DType::bf16, n);
    expect_sums_of_elements<f16, f16>(DType::f16, DType::f16, n);
    expect_sums_of_elements<float, bf16>(DType::f32, DType::bf16, n);
    expect_sums_of_elements<f16, bf16>(DType::f16, DType::bf16, n);
  }
}

TEST(PairErrors, OfBytesThatAreNotAligned) {
  std::vector<std::byte> memory(1025 * 4 + 1);
  std::vector<float> a(1024), b(1024);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(i + i % 2);
  std::memcpy(memory.data() + 1, a.data(), 4096);
  const PairErrors e = errors_between(DType::f32, std::span(memory).subspan(1, 4096), DType::f32, std::as_bytes(std::span(b)));
  EXPECT_EQ(e.differing, 512);
  EXPECT_EQ(e.max_abs, 1);
  EXPECT_EQ(e.at, 1);
  std::memcpy(memory.data() + 1, b.data(), 4096);
  const TensorFigures odd = figures_of(view_of(memory.data() + 1, DType::f32, {1024}), true);
  const TensorFigures even = figures_of(view_of(b.data(), DType::f32, {1024}), true);
  EXPECT_TRUE(odd.same_bits(even));
  EXPECT_EQ(odd.l2, even.l2);
}

TEST(LeastError, IsNeverBeyondTheTrueOne) {
  for (uint64_t key = 0; key < 200; ++key) {
    std::vector<float> a = drawn(key, 300), b = a;
    for (size_t i = 0; i < b.size(); ++i)
      b[i] += static_cast<float>(std::pow(10, -static_cast<double>(key % 7)) * draw(key + 1000, static_cast<int64_t>(i)));
    const double is = between(a, b, DType::f32).relative, least = least_error(figures(a), figures(b));
    EXPECT_LE(least, is * (1 + 1e-9)) << key;
    EXPECT_GT(least, 0) << key;
  }
  EXPECT_EQ(least_error(figures({1, NAN}), figures({1, 2})), kInf);
  EXPECT_EQ(least_error(figures({1, NAN}), figures({1, NAN})), 0);
}

DumpRecord record(const std::string& path, const std::string& op, const std::string& tensor, bool output, std::vector<float> v,
                  Shape shape, int64_t step = 1, bool statistics = true) {
  DumpRecord r{.step = step, .micro = 1, .path = path, .op = op, .tensor = tensor, .output = output};
  r.shape = shape;
  r.figures = figures(std::move(v), statistics);
  return r;
}

ComparedPair pair(const std::string& tensor, bool output, const std::vector<float>& a, const std::vector<float>& b,
                  Shape shape) {
  ComparedPair p{.a = record("x", "matmul", tensor, output, a, shape), .b = record("x", "matmul", tensor, output, b, shape)};
  p.exact = between(a, b, DType::f32);
  p.error = p.exact->relative;
  return p;
}

TEST(CallBounds, LetAReorderedProductPassAndNothingMore) {
  constexpr int64_t m = 3, n = 4, k = 4096;
  const std::vector<float> a = drawn(1, m * k), b = drawn(2, k * n);
  auto product = [&](bool backwards, double scale) {
    std::vector<float> out;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          const int64_t at = backwards ? k - 1 - l : l;
          sum += a[static_cast<size_t>(i * k + at)] * b[static_cast<size_t>(at * n + j)];
        }
        out.push_back(static_cast<float>(sum * scale));
      }
    return out;
  };
  const std::vector<float> out = product(false, 1);
  auto call = [&](const std::vector<float>& other) {
    std::vector<ComparedPair> c{pair("a", false, a, a, {m, k}), pair("b", false, b, b, {k, n}),
                                pair("out", true, out, other, {m, n})};
    const ErrorBound bounds = bounds_of(c, c.back());
    EXPECT_EQ(bounds.inherited, 0);
    return c.back().error / bounds.own;
  };
  EXPECT_GT(call(product(true, 1)), 0) << "the order changes something";
  EXPECT_LE(call(product(true, 1)), 1);
  EXPECT_GT(call(product(false, 1.01)), 1) << "one percent is no rounding";
}

// A dump of one rank whose records are these.
Dump dump_of(std::vector<DumpRecord> records) {
  Dump d;
  d.ranks.push_back({.rank = 0, .records = std::move(records)});
  return d;
}

// Four layers, each reading the output of the previous one. The outputs of the calls `fault` and `second` are changed,
// and all later layers inherit the error.
Dump chain(int fault, bool statistics, bool outputs_only = false, int second = -1) {
  std::vector<DumpRecord> records;
  std::vector<float> x{1, 2, 3, 4};
  for (int i = 0; i < 4; ++i) {
    const std::string path = "layer." + std::to_string(i);
    if (!outputs_only) records.push_back(record(path, "gelu", "x", false, x, {4}, 1, statistics));
    for (float& v : x) v = v * 0.5F + (i == fault ? 0.25F : i == second ? 100.0F : 0);
    records.push_back(record(path, "gelu", "out", true, x, {4}, 1, statistics));
  }
  return dump_of(std::move(records));
}

TEST(CompareDumps, TheCulpritIsTheCallWhoseInputsAgree) {
  for (const bool statistics : {true, false})
    for (const bool outputs_only : {true, false})
      for (int fault = 0; fault < 4; ++fault) {
        const Comparison c = compare_dumps(chain(-1, statistics, outputs_only), chain(fault, statistics, outputs_only));
        ASSERT_FALSE(c.culprits.empty()) << c.verdict;
        EXPECT_EQ(c.culprits.front().path, "layer." + std::to_string(fault));
        EXPECT_EQ(c.culprits.front().kind, CulpritKind::forward);
        EXPECT_EQ(comparison_json(c)["culprit"]["path"], c.culprits.front().path);
        EXPECT_EQ(comparison_json(c)["equal"], false);
        if (fault == 0)
          EXPECT_EQ(compare_dumps(chain(-1, statistics), chain(0, statistics, false, 3)).culprits.front().path, "layer.0");
      }
  const Comparison same = compare_dumps(chain(-1, true), chain(-1, true));
  EXPECT_TRUE(same.agrees());
  EXPECT_EQ(same.equal_bits, 8);
  EXPECT_TRUE(comparison_json(same)["culprit"].is_null());
}

// The first call writes bf16, in which the two differ by one rounding; the second reads that and writes f32.
TEST(CompareDumps, ADifferenceThatIsInheritedIsNobodysFault) {
  auto dump = [](float first) {
    std::vector<DumpRecord> records{record("a", "cast", "y", true, {first, 2, 3}, {3}),
                                    record("b", "gelu", "x", false, {first, 2, 3}, {3}),
                                    record("b", "gelu", "out", true, {first / 2, 1, 1.5F}, {3})};
    records[0].dtype = records[1].dtype = DType::bf16;
    return dump_of(std::move(records));
  };
  const Comparison c = compare_dumps(dump(1), dump(1.0078125F));
  EXPECT_TRUE(c.agrees()) << c.verdict;
  EXPECT_EQ(c.equal_bits, 0);
}

TEST(CompareDumps, WhatHasNoPartnerIsReportedAndNotPairedByOrder) {
  Dump a = chain(-1, true), b = chain(-1, true);
  b.ranks[0].records.erase(b.ranks[0].records.begin() + 3);  // what layer.1 wrote
  const Dump more = chain(-1, true);
  for (const DumpRecord& r : more.ranks[0].records) {
    DumpRecord later = r;
    later.step = 2;
    b.ranks[0].records.push_back(later);
  }
  const Comparison c = compare_dumps(a, b);
  EXPECT_FALSE(c.agrees()) << "nobody knows of step 2";
  EXPECT_TRUE(c.culprits.empty());
  EXPECT_EQ(c.uncovered, std::vector{c.unmatched.back()});
  ASSERT_EQ(c.unmatched.size(), 2) << c.verdict;
  EXPECT_NE(c.unmatched[0].find("layer.1 gelu: out (written), only in A"), std::string::npos) << c.unmatched[0];
  EXPECT_EQ(c.unmatched[1], "rank 0, step 2, forward: 8 tensors, only in B");
}

TEST(CompareDumps, AnInputThatNoCallHasMadeIsNamedWithoutACulprit) {
  auto cut = [](Dump d) {
    auto& r = d.ranks[0].records;
    r.erase(r.begin(), r.begin() + 4);  // the first two layers were not recorded
    return d;
  };
  const Comparison c = compare_dumps(cut(chain(-1, true)), cut(chain(0, true)));
  EXPECT_TRUE(c.culprits.empty()) << c.verdict;
  EXPECT_FALSE(c.agrees());
  EXPECT_NE(c.inherited_from.find("layer.2"), std::string::npos) << c.inherited_from;
}

TEST(CompareDumps, WeightsBeforeTheFirstStepMustHaveTheSameBits) {
  auto with = [](float w) {
    DumpRecord r = record("layer.0.weight", kStateOp, "weights", true, {1, w}, {2}, 0);
    r.phase = Phase::update;
    Dump d = chain(-1, true);
    d.ranks[0].records.insert(d.ranks[0].records.begin(), r);
    return d;
  };
  const Comparison c = compare_dumps(with(1), with(std::nextafter(1.0F, 2.0F)));
  ASSERT_FALSE(c.culprits.empty());
  EXPECT_EQ(c.culprits.front().kind, CulpritKind::weights);
  EXPECT_EQ(c.culprits.front().path, "layer.0.weight");
}

std::string hypothesis(std::vector<float> a, std::vector<float> b, bool exact) {
  const auto n = static_cast<int64_t>(a.size());
  ComparedPair p = pair("out", true, a, b, {n});
  if (!exact) p.exact.reset();
  return hypothesis_of(p);
}

TEST(Hypothesis, NamesWhatItSees) {
  const std::vector<float> a = drawn(3, 64);
  std::vector<float> doubled = a, negative = a, other = a, moved = a, scaled = a;
  for (float& v : doubled) v *= 2;
  for (float& v : negative) v = -v;
  for (float& v : scaled) v /= 8;
  std::swap(moved[0], moved[1]);
  other[5] += 1;
  for (const bool exact : {true, false}) {
    EXPECT_EQ(hypothesis(a, doubled, exact), "B is A times 2");
    EXPECT_EQ(hypothesis(a, negative, exact), "the sign is the other one");
    EXPECT_EQ(hypothesis(a, scaled, exact), "B is A times 1/8");
    EXPECT_EQ(hypothesis(a, moved, exact), "the same numbers in another order");
  }
  EXPECT_NE(hypothesis(a, other, true).find("number 5"), std::string::npos);
  EXPECT_EQ(hypothesis(a, other, false), "");
}

TEST(CompareReport, EveryLineHasEveryColumn) {
  const std::string csv = pairs_csv(compare_dumps(chain(-1, true), chain(1, true)));
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const auto columns = std::count(line.begin(), line.end(), ',');
  int64_t count = 0;
  for (; std::getline(lines, line); ++count) EXPECT_EQ(std::count(line.begin(), line.end(), ','), columns) << line;
  EXPECT_EQ(count, 8);
}

}  // namespace test_probe_compare
}  // namespace ravine
