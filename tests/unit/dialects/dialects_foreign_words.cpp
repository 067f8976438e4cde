// The search in the tables of dialects for a word that is given in place of an option of Ravine.
#include "dialects/foreign_words.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/config.h"

namespace ravine {
namespace test_dialects_foreign_words {

std::string advice(const std::string& word, const std::string& value = "") {
  Config config;
  const std::vector<Section> sections = sections_of(config);
  const NameThere there = [&](const std::string& name) {
    return std::any_of(sections.begin(), sections.end(), [&](const Section& s) {
      return std::any_of(s.options.begin(), s.options.end(), [&](const Option& o) { return o.name() == name; });
    });
  };
  return other_name_advice(word, there, value, {}, words_of_dialects);
}

TEST(ForeignWords, LeadToOptionsOrToAdvice) {
  EXPECT_EQ(advice("--train-iters", "500"), "here it is train.steps=500");
  EXPECT_EQ(advice("--train-samples", "500"), "here it is train.steps") << "their number is another";
  EXPECT_EQ(advice("--learning_rate", "3e-4"), "here it is optimizer.lr=3e-4");
  EXPECT_EQ(advice("gradient_clipping", "1.0"), "here it is optimizer.clip_norm=1.0");
  EXPECT_EQ(advice("runner_config.batch_size", "4"), "here it is train.micro_batch=4");
  EXPECT_EQ(advice("model_parallel", "2"), "here it is parallel.tensor=2") << "the last part of a key";
  EXPECT_EQ(advice("--lr-warmup-init", "0"), "here it is schedule.lr_warmup_init=0 (schedule.type OptimizerParamScheduler)");
  EXPECT_EQ(advice("--num-workers", "4"), "leave it out: batches are prepared by threads of the rank itself");
  EXPECT_EQ(advice("--exit-interval", "9"), "here it is train.exit_every=9");
  EXPECT_EQ(advice("--skip-train"), "this command trains: use `ravine eval`, or validate with --eval-interval");
  EXPECT_EQ(advice("--fsdp", "full_shard"), "leave it out: parallel.zero=3 divides weights, gradients and moments")
      << "a row of other_names.cpp goes before";
  EXPECT_EQ(advice("--no_such_flag"), "");
}

TEST(ForeignWords, KnowWhichCommandTakesTheWholeFile) {
  for (const char* key : {"runner_config", "lr_schedule", "context", "recompute_config", "train_dataset"})
    EXPECT_TRUE(std::ranges::any_of(words_of_dialects(key), [](const ForeignWord& w) {
      return w.line == "ravine mindformers --config";
    })) << key;
  for (const char* key : {"zero_optimization", "fp16", "train_batch_size"})
    EXPECT_TRUE(std::ranges::any_of(words_of_dialects(key), [](const ForeignWord& w) {
      return w.line == "ravine trainer --deepspeed";
    })) << key;
}

}  // namespace test_dialects_foreign_words
}  // namespace ravine
