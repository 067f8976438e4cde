// train.recompute=auto: the least work again that keeps within the memory that is given.
#include "plan/choose_recompute.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ravine {
namespace test_settle_recompute {

// Returns the choice within `memory` MiB, if none needs 300 MiB, cheap 200 MiB, and full 100 MiB and a byte.
Recompute chosen(int64_t memory, Recompute requested = Recompute::automatic) {
  Config c;
  c.train.recompute = requested;
  c.train.memory_mb = memory;
  choose_recompute(c, [](const Config& candidate) {
    EXPECT_NE(candidate.train.recompute, Recompute::automatic) << "a plan is of a way to run";
    const int64_t mib = candidate.train.recompute == Recompute::none    ? 300
                        : candidate.train.recompute == Recompute::cheap ? 200
                                                                        : 100;
    return (mib << 20) + (mib == 100 ? 1 : 0);
  });
  return c.train.recompute;
}

TEST(SettleRecompute, TakesTheLeastThatFits) {
  EXPECT_EQ(chosen(1000), Recompute::none);
  EXPECT_EQ(chosen(300), Recompute::none) << "what fits exactly fits";
  EXPECT_EQ(chosen(299), Recompute::cheap);
  EXPECT_EQ(chosen(200), Recompute::cheap);
  EXPECT_EQ(chosen(199), Recompute::full);
  EXPECT_EQ(chosen(101), Recompute::full);
  for (const int64_t memory : {100, 1, 0}) {
    try {
      chosen(memory);
      ADD_FAILURE() << memory;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("train.memory_mb=101 or more"), std::string::npos) << e.what();
    }
  }
}

TEST(SettleRecompute, LeavesWhatIsSet) {
  for (const Recompute candidate : {Recompute::none, Recompute::cheap, Recompute::full}) {
    Config c;
    c.train.recompute = candidate;
    c.train.memory_mb = 1;
    choose_recompute(c, [](const Config&) -> int64_t { throw Error("nobody has to plan"); });
    EXPECT_EQ(c.train.recompute, candidate);
  }
}

}  // namespace test_settle_recompute
}  // namespace ravine
