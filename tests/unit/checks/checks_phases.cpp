// Tests of the judgement of first steps and of runs without updates, on curves that are made here.
#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "checks/first_steps.h"
#include "checks/frozen.h"

namespace ravine {
namespace test_checks_phases {

FirstSteps side(double loss1, double loss2, std::vector<double> values, double global, std::vector<std::string> names = {}) {
  FirstSteps s;
  s.name = "side", s.curve.compute = "f32";
  s.curve.add(1, loss1, &global), s.curve.add(2, loss2, &global);
  s.norms = LocalNorms{.names = std::move(names), .values = std::move(values), .sizes = {}, .told_by = {}};
  return s;
}

TEST(FirstSteps, EachPhaseHasItsFirstDifference) {
  const std::vector<double> roots{3, 4};  // global norm 5
  auto phase = [&](const FirstSteps& a) { return *judge_first_steps(a, side(2, 1, roots, 5), "").phase; };
  EXPECT_EQ(phase(side(2, 1, roots, 5)), "none");
  EXPECT_EQ(phase(side(2.001, 1, roots, 5)), "forward");
  EXPECT_EQ(phase(side(2, 1, {3.01, 4}, 5)), "backward");
  EXPECT_EQ(phase(side(2, 1.001, roots, 5)), "optimizer");
  EXPECT_EQ(phase(side(2, 1, roots, 2.5)), "optimizer") << "what clips by another norm";
}

TEST(FirstSteps, SquaresAndRootsAreToldByTheGlobalNorm) {
  const PhaseVerdict v = judge_first_steps(side(2, 1, {9, 16}, 5), side(2, 1, {3, 4}, 5), "");
  EXPECT_EQ(v.phase, "none") << v.text();
  FirstSteps without = side(2, 1, {9, 16}, 5);
  without.curve.norm.clear();
  EXPECT_EQ(judge_first_steps(without, side(2, 1, {3, 4}, 5), "").phase, "none") << "told by the other side";
}

TEST(FirstSteps, AListWithoutNamesPairsWithVectorsLast) {
  const FirstSteps named = side(2, 1, {1, 10, 2}, std::sqrt(105.0), {"embed.weight", "a.norm.weight", "b.weight"});
  const PhaseVerdict v = judge_first_steps(named, side(2, 1, {1, 2, 10}, std::sqrt(105.0)), "");
  EXPECT_EQ(v.phase, "none") << v.text();
  const PhaseVerdict other = judge_first_steps(named, side(2, 1, {1, 2, 11}, std::sqrt(126.0)), "");
  ASSERT_EQ(other.weights.size(), 1u) << other.text();
  EXPECT_EQ(other.weights[0].name, "a.norm.weight");
}

TEST(FirstSteps, WhatIsMissingIsToBeRecorded) {
  FirstSteps a = side(2, 1.1, {}, 5), b = side(2, 1, {}, 5);
  a.norms.reset(), b.norms.reset(), a.curve.norm.clear();
  const PhaseVerdict v = judge_first_steps(a, b, "");
  EXPECT_FALSE(v.phase);
  EXPECT_FALSE(v.agrees());
  EXPECT_FALSE(v.record.empty());
}

TrainingCurve curve(int steps, double (*loss)(int), double (*norm)(int)) {
  TrainingCurve c;
  for (int t = 1; t <= steps; ++t) {
    const double n = norm(t);
    c.add(t, loss(t), &n);
  }
  return c;
}

TEST(Frozen, AStepStandsOutAloneAndAFaultAtAllStepsIsNoBatch) {
  const FrozenLimits limits;
  auto flat = [](int) { return 1.0; };
  const TrainingCurve ours = curve(20, flat, flat);
  EXPECT_TRUE(judge_frozen(ours, ours, limits).agrees());
  const TrainingCurve one = curve(
      20, [](int t) { return t == 5 ? 1.01 : 1.0; }, flat);
  const FrozenVerdict v = judge_frozen(ours, one, limits);
  EXPECT_FALSE(v.agrees());
  ASSERT_EQ(v.out.size(), 1u);
  EXPECT_EQ(v.out[0].step, 5);
  EXPECT_FALSE(v.all_beyond);
  const TrainingCurve all = curve(
      20, [](int) { return 1.01; }, flat);
  EXPECT_TRUE(judge_frozen(ours, all, limits).all_beyond);
  const TrainingCurve nan = curve(
      20, [](int t) { return t == 3 ? std::nan("") : 1.0; }, flat);
  EXPECT_FALSE(judge_frozen(ours, nan, limits).agrees()) << "a loss that is no number is beyond any limit";
  EXPECT_THROW(judge_frozen(ours, TrainingCurve(), limits), UserError);
}

}  // namespace test_checks_phases
}  // namespace ravine
