// Tests of dumps: figures of tensors against NumPy's (tools/golden/make_figures.py), the log, and reading an incomplete
// dump.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "config/step_ranges.h"
#include "files/checksum.h"
#include "files/safetensors.h"
#include "probe/dump_log.h"
#include "probe/tensor_figures.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_probe_dump {

// Sums of n numbers in f64, whatever their order: n times the rounding of the largest.
void expect_sum(double is, double expected, double magnitude, int64_t n, const std::string& what) {
  EXPECT_LE(std::abs(is - expected), static_cast<double>(n) * epsilon(DType::f64) * magnitude)
      << what << ": " << is << ", NumPy: " << expected;
}

TEST(TensorFigures, AreNumPys) {
  const SafetensorsReader file(RAVINE_SOURCE_DIR "/tests/golden/figures.safetensors");
  ASSERT_EQ(file.tensors().size(), 10);
  for (const TensorInfo& t : file.tensors()) {
    const Json want = Json::parse(std::string(file.metadata().find(t.name)->second));
    std::vector<std::byte> bytes(file.bytes(t).begin(), file.bytes(t).end());
    const TensorFigures f = figures_of(view_of(bytes.data(), t.dtype, t.shape), true);
    EXPECT_EQ(checksum_text(f.order_free), want["order_free"]) << t.name;
    EXPECT_EQ(checksum_text(f.positional), want["positional"]) << t.name;
    EXPECT_EQ(f.count, want["count"]) << t.name;
    EXPECT_EQ(f.finite, want["finite"]) << t.name;
    EXPECT_EQ(f.nan, want["nan"]) << t.name;
    EXPECT_EQ(f.plus_inf, want["plus_inf"]) << t.name;
    EXPECT_EQ(f.minus_inf, want["minus_inf"]) << t.name;
    EXPECT_EQ(f.zero, want["zero"]) << t.name;
    EXPECT_EQ(f.min, want["min"].get<double>()) << t.name;
    EXPECT_EQ(f.max, want["max"].get<double>()) << t.name;
    EXPECT_EQ(f.abs_max, want["abs_max"].get<double>()) << t.name;
    const double n = static_cast<double>(std::max<int64_t>(1, f.finite)), l1 = want["l1"];
    expect_sum(f.l1, l1, l1, f.count, t.name + " l1");
    expect_sum(f.l2, want["l2"], want["l2"], f.count, t.name + " l2");
    expect_sum(f.mean, want["mean"], l1 / n, f.count, t.name + " mean");
    expect_sum(f.std, want["std"], l1 / n, f.count, t.name + " std");
  }
}

TEST(TensorFigures, DoNotDependOnThreadsNorOnWhereRowsLie) {
  std::vector<float> wide(400 * 700, -1), packed(400 * 600);
  for (int64_t r = 0; r < 400; ++r)
    for (int64_t c = 0; c < 600; ++c)
      wide[static_cast<size_t>(r * 700 + c)] = packed[static_cast<size_t>(r * 600 + c)] =
          std::sin(static_cast<float>(r * 600 + c));
  TensorView rows = view_of(wide.data(), DType::f32, {400, 600});
  rows.stride = 700;
  const int threads = thread_count();
  set_thread_count(1);
  const TensorFigures one = figures_of(view_of(packed.data(), DType::f32, {400, 600}), true);
  set_thread_count(3);
  const TensorFigures three = figures_of(rows, true);
  set_thread_count(threads);
  EXPECT_TRUE(one.same_bits(three));
  EXPECT_EQ(one.l2, three.l2);
  EXPECT_EQ(one.std, three.std);
  EXPECT_EQ(one.mean, three.mean);
}

// Blocks of finite numbers go through the vector units, others element by element.
TEST(TensorFigures, OfBlocksAreThoseOfTheirElements) {
  std::vector<float> v(2051);
  for (size_t i = 0; i < v.size(); ++i) v[i] = i % 11 == 0 ? -0.0F : 3 + std::sin(static_cast<float>(i));
  v[700] = NAN, v[1500] = INFINITY, v[1501] = -INFINITY;
  TensorFigures want{.min = 9, .max = -9};
  double sum = 0, squares = 0, spread = 0;
  for (float& x : v) {
    const TensorFigures one = figures_of(view_of(&x, DType::f32, {1}), true);
    want.finite += one.finite, want.nan += one.nan, want.plus_inf += one.plus_inf, want.minus_inf += one.minus_inf;
    want.zero += one.zero, want.l1 += one.l1, want.order_free += one.order_free;
    sum += one.mean, squares += one.l2 * one.l2;
    if (one.finite) want.min = std::min(want.min, one.min), want.max = std::max(want.max, one.max);
  }
  const double mean = sum / static_cast<double>(want.finite);
  for (const float x : v)
    if (std::isfinite(x)) spread += (x - mean) * (x - mean);
  const TensorFigures f = figures_of(view_of(v.data(), DType::f32, {2051}), true);
  EXPECT_EQ(f.order_free, want.order_free);
  EXPECT_EQ(f.finite, 2048);
  EXPECT_EQ(f.finite, want.finite);
  EXPECT_EQ(f.nan, 1);
  EXPECT_EQ(f.plus_inf, 1);
  EXPECT_EQ(f.minus_inf, 1);
  EXPECT_EQ(f.zero, want.zero);
  EXPECT_EQ(f.min, want.min);
  EXPECT_EQ(f.max, want.max);
  EXPECT_NEAR(f.mean, mean, 1e-12);
  EXPECT_NEAR(f.l1, want.l1, 1e-9);
  EXPECT_NEAR(f.l2, std::sqrt(squares), 1e-9);
  EXPECT_NEAR(f.std, std::sqrt(spread / static_cast<double>(want.finite)), 1e-12);
}

TEST(TensorFigures, OneChecksumKnowsTheOrder) {
  std::vector<float> a{1, 2, 3, 0}, b{2, 1, 3, 0}, c{1, 2, 3, -0.0F};
  auto of = [](std::vector<float>& v) { return figures_of(view_of(v.data(), DType::f32, {4}), false); };
  EXPECT_EQ(of(a).order_free, of(b).order_free);
  EXPECT_NE(of(a).positional, of(b).positional);
  EXPECT_NE(of(a).order_free, of(c).order_free) << "bits are counted, not values";
  EXPECT_FALSE(of(a).has_statistics);
}

DumpRecord a_record(int64_t step, const std::string& tensor) {
  std::vector<float> v{1, -2, static_cast<float>(step)};
  DumpRecord r{.step = step,
               .micro = 1,
               .phase = Phase::backward,
               .path = "a \"b\"\nc",
               .op = "matmul",
               .n = 2,
               .tensor = tensor,
               .output = true};
  r.shape = {3};
  r.at = {4}, r.global = {9};
  r.parameters = {"w", "v"};
  r.file = "step_000001/rank_0/x.safetensors", r.stored = "y";
  r.figures = figures_of(view_of(v.data(), DType::f32, {3}), true);
  return r;
}

TEST(DumpLog, GivesBackWhatItWasGiven) {
  const TemporaryFolder folder;
  const std::string dir = folder / "dump";
  EXPECT_THROW(read_dump(dir), UserError);
  refuse_other_than_dump(dir);
  {
    DumpLog log(dir, 3);
    log.begin({{"seed", 5}});
    log.add(a_record(1, "out"));
    log.end_step(1, {.loss = INFINITY, .grad_norm = NAN, .lr = 0.1, .loss_scale = 2, .verdict = "skip"});
  }
  refuse_other_than_dump(dir);
  const Dump dump = read_dump(dir);
  ASSERT_EQ(dump.ranks.size(), 1);
  const RankDump& rank = dump.ranks[0];
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.session["seed"], 5);
  EXPECT_EQ(rank.damaged, 0);
  ASSERT_EQ(rank.records.size(), 1);
  const DumpRecord want = a_record(1, "out"), &is = rank.records[0];
  EXPECT_EQ(is.key(), want.key());
  EXPECT_EQ(is.path, want.path);
  EXPECT_EQ(is.global, want.global);
  EXPECT_EQ(is.parameters, want.parameters);
  EXPECT_EQ(is.file, want.file);
  EXPECT_EQ(is.stored, want.stored);
  EXPECT_TRUE(is.figures.same_bits(want.figures));
  EXPECT_EQ(is.figures.std, want.figures.std);
  EXPECT_EQ(is.figures.minus_inf, 0);
  EXPECT_EQ(rank.steps.at(1).loss, INFINITY);
  EXPECT_TRUE(std::isnan(rank.steps.at(1).grad_norm));
  EXPECT_EQ(rank.steps.at(1).verdict, "skip");
}

TEST(DumpLog, ATornOrChangedLineCostsThatLineOnly) {
  const TemporaryFolder folder;
  const std::string dir = folder / "dump", file = dir + "/rank_0.log";
  int64_t two = 0;
  {
    DumpLog log(dir, 0);
    log.begin(Json::object());
    log.add(a_record(1, "one"));
    two = log.size();
    log.add(a_record(1, "two"));
  }
  std::filesystem::resize_file(file, static_cast<uintmax_t>(two) + 40);  // a kill in the middle of a line
  {
    DumpLog log(dir, 0);
    log.begin(Json::object());
    log.add(a_record(1, "three"));
    const int64_t end = log.size();
    log.add(a_record(2, "not kept"));
    log.cut(end);
    log.add(a_record(1, "one"));  // the step again: the later one counts
  }
  Dump dump = read_dump(dir);
  ASSERT_EQ(dump.ranks[0].records.size(), 2);
  EXPECT_EQ(dump.ranks[0].records[0].tensor, "one");
  EXPECT_EQ(dump.ranks[0].records[1].tensor, "three");
  EXPECT_EQ(dump.ranks[0].damaged, 1);
  {
    std::fstream change(file, std::ios::in | std::ios::out);
    change.seekp(two - 30);
    change.put('#');
  }
  EXPECT_EQ(read_dump(dir).ranks[0].damaged, 2) << "a byte that changed is seen";
}

TEST(DumpLog, RefusesAFolderOfSomethingElse) {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine.txt") << "x";
  EXPECT_THROW(refuse_other_than_dump(folder.path()), UserError);
  EXPECT_THROW(refuse_other_than_dump(folder / "mine.txt"), UserError);
}

TEST(StepRanges, AsMindSporeWritesThem) {
  const auto some = StepRanges::parse("0|5-8|100-120");
  ASSERT_TRUE(some);
  for (const int64_t yes : {0, 5, 8, 100, 120}) EXPECT_TRUE(some->holds(yes)) << yes;
  for (const int64_t no : {1, 4, 9, 99, 121}) EXPECT_FALSE(some->holds(no)) << no;
  EXPECT_TRUE(StepRanges::parse("")->holds(7));
  for (const char* wrong : {"a", "1,2", "5-3", "|", "1|", "-1", "1-", "1 "}) EXPECT_FALSE(StepRanges::parse(wrong)) << wrong;
}

}  // namespace test_probe_dump
}  // namespace ravine
