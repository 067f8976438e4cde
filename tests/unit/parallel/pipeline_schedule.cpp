// Pipeline schedules: every task once, no circle, the bubble and the memory that the papers give.
#include "parallel/schedule_picture.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"

namespace ravine {
namespace test_pipeline_schedule {

TEST(PipelineSchedule, EveryTaskOnceAndNoCircle) {
  for (int stages : {1, 2, 3, 4, 8})
    for (int chunks : {1, 2, 3})
      for (int micros : {1, 2, 4, 7, 8, 24}) {
        if (chunks > 1 && micros % stages) continue;
        for (int s = 0; s < stages; ++s) {
          auto tasks = pipeline_schedule(stages, chunks, micros, s);
          std::set<std::tuple<bool, int, int>> seen;
          std::vector<int> next(static_cast<size_t>(chunks), 0);
          for (const PipelineTask& t : tasks) {
            EXPECT_TRUE(seen.insert({t.backward, t.chunk, t.micro}).second);
            if (t.backward) {
              EXPECT_TRUE(seen.count({false, t.chunk, t.micro})) << "backward before forward";
              EXPECT_EQ(t.micro, next[static_cast<size_t>(t.chunk)]++) << "gradients are summed in the order of micro batches";
            }
          }
          EXPECT_EQ(seen.size(), 2u * static_cast<size_t>(chunks * micros));
        }
        std::vector<double> f(static_cast<size_t>(stages * chunks), 1), b(f.size(), 2);
        EXPECT_NO_THROW(pipeline_times(stages, chunks, micros, f, b)) << stages << " " << chunks << " " << micros;
      }
  EXPECT_THROW(pipeline_schedule(4, 2, 6, 0), Error);
}

// Narayanan et al. 2021: the bubble takes (p - 1) / v of m micro batches' time beside them.
TEST(PipelineSchedule, BubbleIsThatOfThePapers) {
  for (int stages : {2, 4, 8})
    for (int chunks : {1, 2, 4}) {
      int micros = 2 * stages;
      std::vector<double> f(static_cast<size_t>(stages * chunks), 1.0 / chunks), b(f.size(), 2.0 / chunks);
      double idle = 3.0 * (stages - 1) / chunks, busy = 3.0 * micros;
      EXPECT_NEAR(pipeline_times(stages, chunks, micros, f, b).bubble, idle / (idle + busy), 1e-12) << stages << " " << chunks;
    }
}

TEST(PipelineSchedule, OneForwardOneBackwardHoldsNoMoreThanItMust) {
  for (int s = 0; s < 4; ++s) EXPECT_EQ(activations_held(pipeline_schedule(4, 1, 16, s)), 4 - s);
  EXPECT_EQ(activations_held(pipeline_schedule(4, 1, 2, 0)), 2);
}

TEST(PipelineSchedule, ChartShowsEveryStage) {
  PipelineTimes t = pipeline_times(2, 1, 2, {1, 1}, {2, 2});
  EXPECT_EQ(pipeline_chart(t),
            "stage 0  |F0 F1 ......B0=== ...B1=== |\nstage 1  |...F0 B0=== F1 B1=== ......|\nbubble 33.3 %\n");
  EXPECT_NE(pipeline_svg(t).find("<svg"), std::string::npos);
}

TEST(SplitLayers, EvenByCost) {
  EXPECT_EQ(split_layers(std::vector<double>(8, 1.0), 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(split_layers(std::vector<double>(7, 1.0), 4), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(split_layers({1, 1, 1, 1, 4}, 2), (std::vector<int>{4, 1}));
  EXPECT_THROW(split_layers({1, 1}, 3), Error);
}

}  // namespace test_pipeline_schedule
}  // namespace ravine
