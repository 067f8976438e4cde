// Ways to fit a training into less memory: as planned as the run itself, none needless, cheapest first.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "config/load.h"
#include "kernels/backend.h"
#include "plan/variants.h"
#include "plan/work.h"

namespace ravine {
namespace test_plan_variants {

Json shape_of_model(int64_t layers) {
  return Json{
      {"model_type", "llama"},    {"hidden_size", 128},       {"intermediate_size", 352}, {"num_hidden_layers", layers},
      {"num_attention_heads", 4}, {"num_key_value_heads", 4}, {"vocab_size", 512},        {"max_position_embeddings", 512}};
}

struct Planned {
  Planned() : model(make_model(shape_of_model(4), "test")) {
    config.train.recompute = Recompute::none;
    config.train.global_batch = 16;
    engine = std::make_unique<StepEngine>(*model, config, types, backend_kernels(Backend::cpu), StepShape{8, 256, 2, false});
  }
  Variants variants(bool shorten) { return Variants(config, Backend::cpu, types, *engine, shorten); }
  // The plan of a run with these settings, made anew.
  int64_t plan(const Variant& v) {
    Config c = config;
    StepShape shape = engine->shape();
    Types t = types;
    for (const std::string& change : v.changes) {
      Setting s = parse_setting(change);
      if (s.key == "train.recompute")
        c.train.recompute = value_named<Recompute>(s.value).value();
      else if (s.key == "train.micro_batch")
        shape.micro_batches = shape.micro_batches * shape.rows / std::stoll(s.value), shape.rows = std::stoll(s.value);
      else if (s.key == "precision.compute")
        t = Types::of(*parse_dtype(s.value));
      else if (s.key == "data.sequence_length")
        shape.columns = std::stoll(s.value);
      else
        ADD_FAILURE() << change;
    }
    EXPECT_EQ(shape.rows * shape.micro_batches, 16) << v.text() << ": another global batch";
    return StepEngine(*model, c, t, backend_kernels(Backend::cpu), shape).memory().total();
  }
  Config config;
  Types types = Types::of(DType::f32);
  std::unique_ptr<Model> model;
  std::unique_ptr<StepEngine> engine;
};

// No peaks are cached, whatever the user of this machine has: what stands for them orders the ways.
const int kNoPeaks = ::setenv("XDG_CACHE_HOME", "/nonexistent", 1);

constexpr int64_t kSlack = int64_t{4} << 20;  // this process grows a little between two plans

TEST(Variants, FitAsTheRunItselfWouldAndCheapestFirst) {
  Planned p;
  Variants variants = p.variants(true);
  int64_t total = p.engine->memory().total(), least = variants.smallest().bytes;
  ASSERT_LT(least, total);
  for (double share : {0.9, 0.6, 0.3}) {
    int64_t have = least + static_cast<int64_t>(share * static_cast<double>(total - least));
    std::vector<Variant> found = variants.that_fit(have, 3);
    ASSERT_FALSE(found.empty()) << share;
    EXPECT_LE(found.size(), 3u);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_FALSE(found[i].changes.empty());
      EXPECT_LE(found[i].bytes, have) << found[i].text();
      EXPECT_NEAR(static_cast<double>(p.plan(found[i])), static_cast<double>(found[i].bytes), kSlack) << found[i].text();
      if (i == 0) continue;
      if (found[i].same_work == found[i - 1].same_work) {
        EXPECT_GE(found[i].time, found[i - 1].time);
      }
      EXPECT_LE(found[i].same_work, found[i - 1].same_work) << "shorter sequences come last";
    }
  }
}

// Nothing was measured on this machine: times are estimated with typical rates. Estimated times are still numbers, and
// in order.
TEST(Variants, HaveTimesWithoutMeasuredPeaks) {
  Planned p;
  Variants variants = p.variants(true);
  ASSERT_FALSE(variants.neighbours().empty());
  for (const Variant& v : variants.neighbours()) EXPECT_TRUE(std::isfinite(v.time) && v.time > 0) << v.text();
  for (const Variant& v : variants.that_fit(variants.smallest().bytes, 100))
    EXPECT_TRUE(std::isfinite(v.time) && v.time > 0) << v.text();
}

TEST(Knobs, EveryCombinationOnceAndZeroWhereThereAreDataRanks) {
  Knobs knobs(Trial{.compute = DType::f32});
  knobs.meshes = {Mesh{.pipeline = 2}, Mesh{.data = 2}};
  knobs.zeros = {0, 1, 2};
  knobs.micro_batches = {4, 2, 1};
  std::set<std::string> seen;
  for (const Trial& w : knobs.trials()) {
    EXPECT_TRUE(w.zero == 0 || w.mesh.data > 1);
    EXPECT_TRUE(seen.insert(fmt::format("{} {} {}", w.mesh.text(), w.zero, w.micro_batch)).second);
  }
  EXPECT_EQ(seen.size(), 3u + 3u * 3u);
  std::vector<int64_t> micros;
  knobs.meshes = {Mesh{.data = 2}};
  for (const Trial& w : knobs.mildest_first())
    if (w.zero == 0) micros.push_back(w.micro_batch);
  EXPECT_EQ(micros, (std::vector<int64_t>{4, 2, 1}));
  const Trial mild = knobs.mildest_first().front(), strong = knobs.mildest_first().back();
  EXPECT_TRUE(mild.at_most(strong));
  EXPECT_FALSE(strong.at_most(mild));
  EXPECT_EQ(strong.changes(mild), (std::vector<std::string>{"parallel.zero=2", "train.micro_batch=1"}));
}

TEST(Variants, NoneIsNeedless) {
  Planned p;
  Variants variants = p.variants(false);
  int64_t have = p.engine->memory().total() * 6 / 10;
  std::vector<Variant> found = variants.that_fit(have, 100);
  ASSERT_GE(found.size(), 2u);
  for (const Variant& v : found) {
    EXPECT_TRUE(v.same_work) << v.text();
    if (v.changes.size() < 2) continue;
    for (size_t drop = 0; drop < v.changes.size(); ++drop) {
      Variant milder = v;
      milder.changes.erase(milder.changes.begin() + static_cast<std::ptrdiff_t>(drop));
      EXPECT_GT(p.plan(milder), have - kSlack) << v.text() << " fits without " << v.changes[drop];
    }
  }
}

TEST(Variants, NothingFitsIntoNothing) {
  Planned p;
  Variants variants = p.variants(true);
  EXPECT_TRUE(variants.that_fit(1 << 20, 3).empty());
  Variant least = variants.smallest();
  for (const Variant& v : variants.that_fit(int64_t{1} << 50, 100)) EXPECT_GE(v.bytes, least.bytes) << v.text();
  EXPECT_TRUE(variants.that_fit(least.bytes - 1, 1).empty());
  EXPECT_FALSE(variants.that_fit(least.bytes, 1).empty());
}

TEST(Variants, AValidationIsNoWorkOfAStep) {
  Planned p;
  auto seconds = [&](bool validation) {
    WorkCount work;
    StepEngine engine(*p.model, p.config, p.types, backend_kernels(Backend::cpu),
                      {.rows = 8, .columns = 256, .micro_batches = 2, .validation = validation}, &work);
    return work.seconds(1e9, 1e9, 2);
  };
  EXPECT_GT(seconds(false), 0);
  EXPECT_EQ(seconds(true), seconds(false));
}

TEST(Variants, TimeCountsTheForwardPassThatIsRunAgain) {
  Planned p;
  Variants variants = p.variants(false);
  double full = 0, micro = 0;
  for (const Variant& v : variants.neighbours()) {
    if (v.changes.empty()) {
      EXPECT_EQ(v.time, 1);
    }
    if (v.changes == std::vector<std::string>{"train.recompute=full"}) full = v.time;
    if (v.changes == std::vector<std::string>{"train.micro_batch=4"}) micro = v.time;
  }
  // One forward pass of the layers more, which are most of this model; no op's backward is cheaper than its forward, so
  // half at most.
  EXPECT_GT(full, 1.1);
  EXPECT_LE(full, 1.5);
  EXPECT_GE(micro, 1);
  EXPECT_LT(micro, full);
}

}  // namespace test_plan_variants
}  // namespace ravine
