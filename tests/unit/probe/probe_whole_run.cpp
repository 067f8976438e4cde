// Pieces of one tensor on several ranks and in several micro batches, put together.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "probe/compare_dumps.h"
#include "probe/whole_run.h"

namespace ravine {
namespace test_probe_whole_run {

constexpr int64_t kRows = 8, kColumns = 6;

struct Block {
  int64_t row, rows, column, columns;
};

std::vector<float> tensor(uint64_t seed) {
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(philox(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0]) * 0x1p-32F - 0.25F;
  return x;
}

DumpRecord record(const std::vector<float>& x, const Block& b, int64_t micro, const char* op = "gelu",
                  const char* name = "out") {
  std::vector<float> part;
  for (int64_t i = b.row; i < b.row + b.rows; ++i)
    for (int64_t j = b.column; j < b.column + b.columns; ++j) part.push_back(x[static_cast<size_t>(i * kColumns + j)]);
  const Shape shape{b.rows, b.columns};
  return {.step = 1,
          .micro = micro,
          .path = "model.layers.0.mlp",
          .op = op,
          .tensor = name,
          .output = true,
          .dtype = DType::f32,
          .shape = shape,
          .figures = figures_of(view_of(part.data(), DType::f32, shape), true)};
}

RankDump rank(int number, int data, int tensor, std::vector<DumpRecord> records) {
  return {.rank = number, .session = {{"data", data}, {"tensor", tensor}}, .records = std::move(records)};
}

const Block kWhole{0, kRows, 0, kColumns};

void expect_whole(const std::vector<RankDump>& ranks, const std::vector<float>& x = tensor(1)) {
  const Dump one{.ranks = {rank(0, 1, 1, {record(x, kWhole, 1)})}}, many{.ranks = ranks};
  ASSERT_FALSE(same_layout(one, many));
  const WholeRuns runs = whole_runs(one, many);
  ASSERT_EQ(runs.b.records.size(), 1U);
  const TensorFigures &a = runs.a.records[0].figures, &b = runs.b.records[0].figures;
  EXPECT_TRUE(a.same_bits(b));
  EXPECT_TRUE(runs.a.records[0].shape == runs.b.records[0].shape);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.abs_max, b.abs_max);
  const double u = 1e-14;
  EXPECT_NEAR(a.l2, b.l2, u);
  EXPECT_NEAR(a.l1, b.l1, u);
  EXPECT_NEAR(a.mean, b.mean, u);
  EXPECT_NEAR(a.std, b.std, u);
}

TEST(WholeRun, PutsRowsOfMicroBatchesTogether) {
  const std::vector<float> x = tensor(1);
  expect_whole({rank(0, 1, 1, {record(x, {0, 2, 0, kColumns}, 1), record(x, {2, 6, 0, kColumns}, 2)})});
}

TEST(WholeRun, PutsRowsAndColumnsOfRanksTogether) {
  const std::vector<float> x = tensor(1);
  std::vector<RankDump> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(rank(r, 2, 2, {record(x, {r / 2 * 4, 4, r % 2 * 3, 3}, 1)}));
  expect_whole(ranks);
}

TEST(WholeRun, CountsOnceWhatTensorRanksHaveInCommon) {
  std::vector<float> x = tensor(1);
  std::copy(x.begin(), x.begin() + kRows / 2 * kColumns,
            x.begin() + kRows / 2 * kColumns);  // data ranks with the same rows hold two pieces
  std::vector<RankDump> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(rank(r, 2, 2, {record(x, {r / 2 * 4, 4, 0, kColumns}, 1)}));
  expect_whole(ranks, x);
}

TEST(WholeRun, APartialSumIsACallOfOneSide) {
  const Dump one{.ranks = {rank(0, 1, 1, {record(tensor(1), kWhole, 1, "matmul")})}},
      two{.ranks = {rank(0, 1, 2, {record(tensor(2), kWhole, 1, "matmul")}),
                    rank(1, 1, 2, {record(tensor(3), kWhole, 1, "matmul")})}};
  const WholeRuns runs = whole_runs(one, two);
  EXPECT_NE(runs.a.records.at(0).call(), runs.b.records.at(0).call());
  EXPECT_THROW(compare_dumps(one, two), UserError) << "nothing has a partner";
}

TEST(WholeRun, AWrongPieceIsNamed) {
  std::vector<float> x = tensor(1);
  const Dump one{.ranks = {rank(0, 1, 1, {record(x, kWhole, 1)})}};
  const DumpRecord upper = record(x, {0, 4, 0, kColumns}, 1);
  x[40] += 1;
  const Dump two{.ranks = {rank(0, 2, 1, {upper}), rank(1, 2, 1, {record(x, {4, 4, 0, kColumns}, 1)})}};
  const Comparison c = compare_dumps(one, two);
  ASSERT_FALSE(c.culprits.empty());
  EXPECT_EQ(c.culprits.front().op, "gelu");
  EXPECT_TRUE(c.layouts_differ);
}

}  // namespace test_probe_whole_run
}  // namespace ravine
