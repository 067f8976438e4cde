// Our kernels on what the calls of two dumps have read: whose output is not what they make of it.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ctx.h"
#include "kernels/backend.h"
#include "parallel/stash.h"
#include "probe/compare_dumps.h"
#include "probe/spread.h"
#include "tests/unit/engine_help.h"

namespace ravine {
namespace test_probe_substitution {

DumpRecord record(const char* op, const char* tensor, bool output, std::vector<double> x) {
  const Shape shape{1, static_cast<int64_t>(x.size())};
  DumpRecord r{.step = 1, .micro = 1, .op = op, .tensor = tensor, .output = output, .dtype = DType::f64, .shape = shape};
  r.figures = figures_of(view_of(x.data(), DType::f64, shape), true);
  r.values = std::move(x);
  return r;
}

// out = a + b.
Dump dump(double a, double fault) {
  Dump d;
  d.ranks.push_back({.rank = 0,
                     .records = {record("add", "a", false, {a, 2}), record("add", "b", false, {1, 1}),
                                 record("add", "out", true, {a + 1 + fault, 3})}});
  return d;
}

Substituted found_in(const Dump& a, const Dump& b) {
  HeapArena arena;
  Kernels kernels = ref_kernels();
  LoggingStore store;
  const std::unique_ptr<Stash> stash = make_stash(Recompute::none);
  Substituted found;
  Substitution substitution(a, b, found);
  substitution.begin(kernels, 0);
  Ctx::Setup s;
  s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(),
  s.types = Types::of(DType::f64), s.observers = {&substitution};
  Ctx c(s);
  Batch batch;
  batch.tokens = 1;
  c.begin_step(1);
  c.begin(batch, true);
  Tensor x = c.empty({1, 2}, DType::f64), y = c.empty({1, 2}, DType::f64), out = c.empty({1, 2}, DType::f64);
  for (const Tensor* t : {&x, &y, &out}) t->view().as<double>()[0] = t->view().as<double>()[1] = 7;
  c.call(Add{x.view(), y.view(), out.view()});
  EXPECT_EQ(out.view().as<double>()[0], 14) << "the run's own memory is its own";
  return found;
}

TEST(Substitution, NamesTheCallThatCausesAnError) {
  const std::string out = "0/" + dump(1, 0).ranks[0].records[2].key();
  Substituted found = found_in(dump(1, 0), dump(5, 0));
  ASSERT_TRUE(found.a.contains(out) && found.b.contains(out));
  EXPECT_EQ(found.a[out].error, 0) << "each of its own inputs";
  EXPECT_EQ(found.b[out].error, 0);
  found = found_in(dump(1, 1e-9), dump(5, 0));
  EXPECT_TRUE(found.a[out].beyond());
  EXPECT_FALSE(found.b[out].beyond());
  const Comparison with = compare_dumps(dump(1, 1e-9), dump(5, 0), &found);
  ASSERT_EQ(with.culprits.size(), 1U) << with.verdict;
  EXPECT_EQ(with.culprits[0].generates, "A");
  EXPECT_TRUE(compare_dumps(dump(1, 1e-9), dump(5, 0)).culprits.empty()) << "inherited, as far as bounds tell";
}

TEST(Substitution, LeavesOpenWhatIsNotKnown) {
  Dump a = dump(1, 1), b = dump(5, 0);
  a.ranks[0].records[0].values.clear();
  const Substituted found = found_in(a, b);
  EXPECT_TRUE(found.a.empty());
  EXPECT_EQ(found.b.size(), 1U);
  a = dump(1, 1), a.ranks[0].records[1].shape = {2, 1};
  EXPECT_TRUE(found_in(a, b).a.empty()) << "of another shape";
  EXPECT_TRUE(found_in(dump(5, 0), dump(5, 0)).a.empty()) << "where the dumps are the same nothing is asked";
}

struct OneParam : LoggingStore {
  explicit OneParam(const Param& p, DType type, std::vector<int64_t> begin, Shape part) : box{&p, std::move(begin), {}} {
    memory.resize(static_cast<size_t>(part.count() * size_of(type)));
    box.view = view_of(memory.data(), type, part);
    visit_float(type, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < part.count(); ++i) box.view.as<T>()[i] = T(1.5F);
    });
  }
  std::vector<ParamBox> boxes() const override { return {box}; }
  std::vector<double> moved(DType unit) {
    move_parameters(*this, unit);
    std::vector<double> out;
    visit_float(box.view.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < box.view.count(); ++i) out.push_back(static_cast<float>(box.view.as<T>()[i]) / 1.5 - 1);
    });
    return out;
  }
  std::vector<std::byte> memory;
  ParamBox box;
};

TEST(Spread, MovesEveryElementByAUnitUpOrDown) {
  const Param p{.name = "u.weight", .shape = {32, 32}};
  for (const DType type : {DType::f32, DType::bf16}) {
    const std::vector<double> all = OneParam(p, type, {0, 0}, {32, 32}).moved(type);
    const double unit = epsilon(type);
    int up = 0;
    for (const double x : all) {
      EXPECT_GE(std::abs(x), unit / 2);
      EXPECT_LE(std::abs(x), unit * 1.34);  // of 1.5 steps are 2/3 units wide
      up += x > 0;
    }
    EXPECT_GT(up, 448) << "half of 1024, within 4 deviations";
    EXPECT_LT(up, 576);
    const std::vector<double> part = OneParam(p, type, {8, 16}, {8, 16}).moved(type);
    for (size_t i = 0; i < part.size(); ++i)
      EXPECT_EQ(part[i], all[(8 + i / 16) * 32 + 16 + i % 16]) << "a rank's part moves as the whole does";
  }
}

TEST(Spread, ASketchKnowsDistances) {
  std::vector<double> x(5000), y(5000);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<double>(i)) + 2;
    y[i] = x[i] * (1 + (i * 7919 % 13 < 6 ? 1e-9 : -1e-9));
  }
  const auto of = [](std::vector<double>& v) { return sketch_of(view_of(v.data(), DType::f64, {50, 100})); };
  EXPECT_NEAR(distance(of(x), of(y)), 1e-9, 4e-10);
  EXPECT_EQ(distance(of(x), of(x)), 0);
}

TEST(Substitution, ComesBackFromOtherRanks) {
  const Substituted found = found_in(dump(1, 1e-9), dump(5, 0));
  Substituted again;
  again.add(Json::parse(found.json().dump()));
  EXPECT_EQ(again.json(), found.json());
}

}  // namespace test_probe_substitution
}  // namespace ravine
