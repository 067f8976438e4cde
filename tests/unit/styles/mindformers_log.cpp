// Compares lines of log.style=mindformers with lines that MindFormers 1.6 has printed.
#include "styles/mindformers_log.h"
#include "styles/mindformers_monitor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "files/tensorboard_reader.h"
#include "styles/styles.h"
#include "tests/unit/fake_run.h"

namespace ravine {
namespace test_mindformers_log {

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(MindFormersLog, WritesNumbersAsNumpyDoes) {
  for (const auto& [x, text] : {std::pair{0.0, "0.0"},
                                {1.0, "1.0"},
                                {5e-4, "0.0005"},
                                {9.924799e-4, "0.0009924799"},
                                {2.5641025e-8, "2.5641025e-08"},
                                {1e-5, "1e-05"},
                                {65536.0, "65536.0"},
                                {16777216.0, "16777216.0"},
                                {2e38, "2e+38"},
                                {2.5359538, "2.5359538"}})
    EXPECT_EQ(f32_text(x), text);
  EXPECT_EQ(f32_text(std::nan("")), "nan");
  EXPECT_EQ(f32_text(std::numeric_limits<double>::infinity()), "inf");
}

TEST(MindFormersLog, WritesTheLinesOfAStep) {
  MindFormersLine l{.step = 2,
                    .epochs = 1,
                    .steps_per_epoch = 20,
                    .loss = 5.8899,
                    .mean = 5.8459,
                    .seconds = 4 / 92.00456,
                    .lr = 5e-4,
                    .grad_norm = 2.5359538,
                    .batch = 4};
  EXPECT_EQ(
      step_line(l),
      "{ Epoch:[  1/  1], step:[    2/   20], loss:[5.890/5.846], per_step_time: 43ms, lr: 0.0005, overflow cond: False, loss_scale: 1.0, "
      "global_norm: [2.5359538]");
  EXPECT_EQ(bar_line(l), "  10.0% |█████                                             | 92.00456 samples/s/p  0:00:00 }");
  l.mean.reset(), l.overflow = true, l.loss_scale = 65536, l.grad_norm = std::nan("");
  l.flops = 6e9, l.seconds = 0.25, l.ranks = 8;
  EXPECT_TRUE(contains(step_line(l), ", train_throughput_per_npu: 0.003T"));
  EXPECT_EQ(python_text(3) + " " + python_text(0.001) + " " + python_text(1e-9) + " " + python_text(2.5),
            "3.0 0.001 1e-09 2.5");
  EXPECT_TRUE(contains(step_line(l), "loss: 5.890, ") &&
              contains(step_line(l), "overflow cond: True, loss_scale: 65536.0, global_norm: [nan]"));
  // the sample of the documents: 6500 steps in each of 2 epochs, 166.756 s for the first
  l = {.step = 1, .epochs = 2, .steps_per_epoch = 6500, .seconds = 166.756, .batch = 8, .ranks = 8};
  EXPECT_EQ(bar_line(l),
            "   0.0% |                                                  | 0.00600 samples/s/p  25 days, 2:07:41 }");
  l.step = 6501, l.seconds = 13.3;
  EXPECT_TRUE(contains(step_line(l), "Epoch:[  2/  2], step:[    1/ 6500]"));
  EXPECT_TRUE(contains(bar_line(l), "1 day, 0:00:36")) << bar_line(l);
}

StepReport report(int64_t step, double loss) {
  StepReport r;
  r.step = step, r.loss = loss, r.valid = 1, r.step_time = 0.1, r.lr = 1e-3, r.grad_norm = 2;
  return r;
}

TEST(MindFormersLog, TakesTheMeanOfAnEpoch) {
  FakeRun run(4);
  run.options.log.style = LogStyle::mindformers;
  run.options.train.global_batch = 4, run.rows = 8;  // two steps in an epoch
  const auto hook = style_of(run.options).console(run.options.log.every);
  hook->start(run, 0);
  std::vector<std::string> logged;
  for (const double loss : {4.0, 2.0, 7.0}) {
    StepReport r = report(static_cast<int64_t>(logged.size()) + 1, loss);
    hook->after_step(run, r);
    logged.push_back(run.logged());
  }
  EXPECT_TRUE(contains(logged[1], "Epoch:[  1/  2], step:[    2/    2], loss:[2.000/3.000]")) << logged[1];
  EXPECT_TRUE(contains(logged[2], "Epoch:[  2/  2], step:[    1/    2], loss:[7.000/7.000]")) << logged[2];
  StepReport last = report(4, 1);
  hook->last_words(run, last);
  EXPECT_TRUE(contains(run.logged(), "step:[    2/    2], loss:[1.000/4.000]"));
  run.options.train.steps = 3, run.last = report(3, 7);
  hook->finish(run, false);
  EXPECT_TRUE(contains(run.logged(), "set train process early stop at 3 steps in yaml"));
}

const Json kLlama = {
    {"model_type", "llama"},    {"hidden_size", 8},         {"intermediate_size", 16}, {"num_hidden_layers", 2},
    {"num_attention_heads", 2}, {"num_key_value_heads", 2}, {"vocab_size", 16},        {"max_position_embeddings", 8},
    {"rms_norm_eps", 1e-5}};

TEST(MindFormersLog, OrdersParametersAsMindFormers) {
  std::vector<LocalNorm> norms;
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight",
        "model.layers.0.self_attn.o_proj.weight", "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
        "model.layers.1.input_layernorm.weight", "model.norm.weight", "lm_head.weight"})
    norms.push_back({.parameter = name, .ranks = {0}, .squares = {1}, .counts = {1}});
  std::vector<std::string> names;
  for (const LocalNorm& n : in_mindformers_order(norms, kLlama)) names.push_back(n.parameter);
  EXPECT_EQ(names, (std::vector<std::string>{"model.tok_embeddings.embedding_weight", "model.layers.0.attention.wq.weight",
                                             "model.layers.0.attention.wk.weight", "model.layers.0.attention.wv.weight",
                                             "model.layers.0.attention.wo.weight", "model.layers.0.feed_forward.w1.weight",
                                             "model.layers.0.feed_forward.w2.weight", "model.layers.0.feed_forward.w3.weight",
                                             "lm_head.weight", "model.layers.0.ffn_norm.weight",
                                             "model.layers.0.attention_norm.weight", "model.layers.1.attention_norm.weight",
                                             "model.norm_out.weight"}));
}

TEST(MindFormersLog, ShowsNormsAndStates) {
  FakeRun run(1);
  run.options.log.style = LogStyle::mindformers;
  run.options.train.global_batch = 4;
  run.options.log.local_norms = "*";
  run.options.log.monitor = {"local_norm", "device_local_norm", "optimizer_state", "weight_state"};
  run.options.log.monitor_target = "attention";
  run.model = kLlama;
  const auto hook = style_of(run.options).console(run.options.log.every);
  hook->start(run, 0);
  StepReport r = report(1, 3);
  r.local_norms = {{.parameter = "model.norm.weight", .ranks = {0}, .squares = {9}, .counts = {8}},
                   {.parameter = "model.layers.0.self_attn.q_proj.weight", .ranks = {0}, .squares = {16}, .counts = {64}}};
  r.state_squares = {
      {"weights/model.norm.weight", 25}, {"m/model.layers.0.self_attn.q_proj.weight", 4}, {"v/model.norm.weight", 1}};
  r.embedding_local_norm = 1.5;
  hook->after_step(run, r);
  const std::string logged = run.logged();
  for (const char* words :
       {" norm_size: (64, 8)\nlocal_norm:\n(16.0, 9.0)",
        "step:[    1/   20] local_norm/model.layers.0.attention.wq.weight: 4.0000", "device_local_norm: 5.0000",
        "adam_m_norm/model.layers.0.attention.wq.weight: 2.0000", "weight_norm: 5.0000", "embedding_local_norm: 1.5"})
    EXPECT_TRUE(contains(logged, words)) << words << " in " << logged;
  for (const char* words : {"local_norm/model.norm_out", "adam_v_norm"}) EXPECT_FALSE(contains(logged, words)) << words;
}

TEST(MindFormersLog, WritesItsScalars) {
  FakeRun run(1);
  run.options.log.style = LogStyle::mindformers;
  run.options.train.global_batch = 4;
  run.options.log.tensorboard_dir = run.folder / "tb";
  const auto hook = style_of(run.options).tensorboard(run.options.log.every);
  hook->start(run, 0);
  StepReport r = report(1, 3);
  hook->after_step(run, r);
  ASSERT_EQ(event_files(run.folder / "tb/rank_0").size(), 1U);
  std::string bytes = slurp(event_files(run.folder / "tb/rank_0")[0]);
  for (const char* tag : {"learning-rate", "batch-size", "loss", "loss-scale", "grad-norm", "iteration-time", "throughput",
                          "B-samples-per-day", "loss_vs_samples"})
    EXPECT_TRUE(contains(bytes, tag)) << tag;
}

}  // namespace test_mindformers_log
}  // namespace ravine
