// The decision between the norm of a step and its update.
#include "step/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ravine {
namespace test_step_guard {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

TEST(SpikeGuard, WithoutALimitOnlyWhatIsNotFiniteEndsTheRun) {
  HealthOptions o;
  SpikeGuard g(o);
  EXPECT_EQ(g.judge(1, 1e30), Verdict::apply);
  EXPECT_EQ(g.judge(kNan, 1), Verdict::stop);
  EXPECT_EQ(g.judge(1, kInf), Verdict::stop);
  EXPECT_EQ(g.judge(1, 1), Verdict::apply);
}

TEST(SpikeGuard, EqualToTheLimitIsNoSpikeAndNanIsOne) {
  HealthOptions o;
  o.skip_norm = 3;
  SpikeGuard g(o);
  EXPECT_EQ(g.judge(1, 3), Verdict::apply);
  EXPECT_EQ(g.judge(1, std::nextafter(3.0, 4.0)), Verdict::skip);
  EXPECT_EQ(g.judge(1, kNan), Verdict::skip);
  EXPECT_EQ(g.judge(1, kInf), Verdict::skip);
  EXPECT_EQ(g.judge(kNan, 1), Verdict::skip);
  EXPECT_EQ(g.in_a_row(), 4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(g.judge(1, 4), Verdict::skip) << "skip_count 0 never ends the run";
}

TEST(SpikeGuard, SoManyInARowEndTheRun) {
  HealthOptions o;
  o.skip_norm = 3, o.skip_count = 3;
  SpikeGuard g(o);
  EXPECT_EQ(g.judge(1, 4), Verdict::skip);
  EXPECT_EQ(g.judge(1, 4), Verdict::skip);
  EXPECT_EQ(g.judge(1, 2), Verdict::apply);
  EXPECT_EQ(g.in_a_row(), 0);
  EXPECT_EQ(g.judge(1, 4), Verdict::skip);
  SpikeGuard resumed(o);
  resumed.go_on_from(g.in_a_row());
  EXPECT_EQ(resumed.judge(1, kNan), Verdict::skip);
  EXPECT_EQ(resumed.judge(1, 4), Verdict::stop);
}

}  // namespace test_step_guard
}  // namespace ravine
