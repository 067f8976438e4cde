// Tests of resolve: equal options and facts give equal numbers.
#include "train/resolve.h"

#include <gtest/gtest.h>

#include "config/load.h"
#include "runs/open.h"

namespace ravine {
namespace test_resolve {

constexpr const char* kModel =
    "model: {config: {model_type: llama, vocab_size: 64, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 4, "
    "num_attention_heads: 2, max_position_embeddings: 64, hidden_act: silu, rms_norm_eps: 1.0e-5, tie_word_embeddings: false}}\n"
    "data: {sequence_length: 16}\n";

struct Opened {
  explicit Opened(const std::string& more, int ranks = 1)
      : requested(parse_config(kModel + more, "run.yaml")), model(open_run_model(requested)) {
    facts = {.ranks = ranks, .cpu = {}, .model = model.get(), .columns = 16};
  }
  Config requested;
  std::unique_ptr<Model> model;
  RunFacts facts;
};

TEST(Resolve, GivesNumbersAndLeavesTheSourcesOfOptions) {
  Opened o("train: {global_batch: 8, micro_batch: 2, recompute: auto, memory_mb: 4000}\n", 2);
  const Config before = o.requested;
  const RunSpec spec = resolve(o.requested, o.facts);
  EXPECT_EQ(to_yaml(o.requested), to_yaml(before));
  EXPECT_EQ(spec.layout.mesh.data, 2);
  EXPECT_EQ(spec.layout.micro_batches, 2);
  EXPECT_EQ(spec.options.precision.compute, DType::f32);  // of a CPU without fast bf16 products
  EXPECT_EQ(spec.options.train.recompute, Recompute::none);
  EXPECT_EQ(spec.options.checkpoint.model_dtype, DType::f32);
  EXPECT_EQ(spec.options.sources.at("train.recompute"), "run.yaml:3");
  EXPECT_NE(spec.config_text.find("recompute: auto"), std::string::npos) << "a resume with another memory may choose again";
  EXPECT_EQ(spec.record.at("parallel.data"), "2");
  const RunSpec again = resolve(o.requested, o.facts);
  EXPECT_EQ(to_yaml(again.options), to_yaml(spec.options));
  EXPECT_EQ(again.record, spec.record);
}

TEST(Resolve, FollowsTheFacts) {
  Opened o("precision: {compute: auto}\n");
  o.facts.weights_type = DType::bf16;
  o.facts.cpu.bf16_dot = true;
  RunRecord was{.checkpoint = "step_000002", .options = {{"precision.compute", "f32"}}};
  EXPECT_EQ(resolve(o.requested, o.facts).options.checkpoint.model_dtype, DType::bf16);
  o.facts.was = &was;
  const RunSpec spec = resolve(o.requested, o.facts);
  EXPECT_EQ(spec.options.precision.compute, DType::f32);
  EXPECT_EQ(spec.why, "f32: as in step_000002");
}

TEST(Resolve, CountsTheStepsOfPassesOnceTheDataAreOpen) {
  Opened o("train: {epochs: 3, global_batch: 8}\nschedule: {warmup_ratio: 0.1}\n");
  o.facts.columns.reset();
  EXPECT_EQ(resolve(o.requested, o.facts).options.train.epochs, 3);
  o.facts.columns = 16, o.facts.samples = 200;
  const RunSpec spec = resolve(o.requested, o.facts);
  EXPECT_EQ(spec.options.train.steps, 75);
  EXPECT_EQ(spec.options.train.epochs, 0);
  EXPECT_EQ(spec.options.schedule.warmup_steps, 8);
  EXPECT_EQ(spec.record.at("train.steps"), "75");
  EXPECT_NE(spec.config_text.find("steps: 75"), std::string::npos);
  // Rules between the length and other options use the resolved length.
  Opened late("train: {epochs: 1, global_batch: 8}\nschedule: {type: WarmUpStableDecayLR, decay_start_steps: 30}\n");
  late.facts.samples = 200;
  EXPECT_THROW(resolve(late.requested, late.facts), UserError);
}

TEST(Resolve, RefusesRanksThatDoNotFit) {
  Opened o("train: {global_batch: 8, micro_batch: 2}\n", 3);
  EXPECT_THROW(resolve(o.requested, o.facts), UserError);
}

}  // namespace test_resolve
}  // namespace ravine
