#include "config/asked.h"
#include "config/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"

using namespace ravine;

namespace test_config {

std::vector<Setting> settings(const std::vector<std::string>& words) {
  std::vector<Setting> list;
  for (const std::string& w : words) list.push_back(parse_setting(w));
  return list;
}

Config from(const std::string& yaml, const std::vector<std::string>& words = {}) {
  return parse_config(yaml, "run.yaml", settings(words));
}

std::string error_of(const std::string& yaml, const std::vector<std::string>& words = {}) {
  try {
    from(yaml, words);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Config, DefaultsAreThoseOfTheManual) {
  Config c = from("");
  EXPECT_EQ(c.train.steps, 1000);
  EXPECT_EQ(c.train.global_batch, 8);
  EXPECT_EQ(c.train.micro_batch, 1);
  EXPECT_EQ(c.train.seed, 42);
  EXPECT_EQ(c.data.sequence_length, 1024);
  EXPECT_EQ(c.optimizer.lr, 3e-4);
  EXPECT_EQ(c.optimizer.betas, (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(c.optimizer.eps, std::vector<double>{1e-8});
  EXPECT_EQ(c.schedule.type, ScheduleType::cosine);
  EXPECT_EQ(c.schedule.warmup_steps, 100);
  EXPECT_EQ(c.precision.compute, DType::f32);
  EXPECT_EQ(c.checkpoint.every, 200);
  EXPECT_EQ(c.checkpoint.resume, "auto");
  EXPECT_TRUE(c.log.tensorboard);
  EXPECT_TRUE(c.sources.empty());
}

TEST(Config, CommandLineOverFileOverDefault) {
  Config c = from("train:\n  steps: 5\n  threads: 1\n  seed: 8\nlog:\n", {"train.steps=6", "train.steps=9"});
  EXPECT_EQ(c.train.steps, 9);
  EXPECT_EQ(c.train.seed, 8);
  EXPECT_EQ(c.train.global_batch, 8);
  EXPECT_EQ(c.sources.at("train.steps"), "command line");
  EXPECT_EQ(c.sources.at("train.seed"), "run.yaml:4");
  EXPECT_FALSE(c.sources.contains("train.global_batch"));
  EXPECT_NE(explain(c, "train.seed").find("value:   8 (run.yaml:4)"), std::string::npos) << explain(c, "train.seed");
  EXPECT_NE(explain(c, "train.seed").find("default: 42"), std::string::npos);
  EXPECT_NE(explain(c, "train.steps").find("(command line)"), std::string::npos);
  EXPECT_NE(explain(c, "log.every").find("(default)"), std::string::npos);
}

TEST(Config, EveryKindOfValue) {
  Config c = from(
      "data: {train: [a.txt, {path: b, weight: 0.3}], skip_steps: [3, 0x10], shuffle: off}\n"
      "optimizer: {lr: 1e-5, betas: [0.8, .9], groups: [{match: '*norm*', wd_mult: 0}]}\n"
      "train: {output: 2024, steps: 1e4, freeze: ['*embed*', x]}\n"
      "precision: {recipes: [{op: softmax, compute: f64}]}\n"
      "lora: {rank: 4, rank_pattern: {q_proj: 8, 'layers.0.*': 2}, alpha_pattern: {x: 1e-1}, layers: [0, 3]}\n");
  EXPECT_EQ(c.lora.rank_pattern, (std::map<std::string, int64_t>{{"layers.0.*", 2}, {"q_proj", 8}}));
  EXPECT_EQ(c.lora.alpha_pattern, (std::map<std::string, double>{{"x", 0.1}}));
  EXPECT_EQ(c.lora.layers, (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(from("lora: {rank_pattern: }").lora.rank_pattern.empty());
  ASSERT_EQ(c.data.train.size(), 2u);
  EXPECT_EQ(c.data.train[0].path, "a.txt");
  EXPECT_EQ(c.data.train[0].weight, std::nullopt);
  EXPECT_EQ(c.data.train[1].weight, 0.3);
  EXPECT_EQ(c.data.skip_steps, (std::vector<int64_t>{3, 16}));
  EXPECT_FALSE(c.data.shuffle);
  EXPECT_EQ(c.optimizer.lr, 1e-5);
  EXPECT_EQ(c.optimizer.betas[1], 0.9);
  EXPECT_EQ(c.optimizer.groups.at(0).match, "*norm*");
  EXPECT_EQ(c.optimizer.groups[0].lr_mult, 1);
  EXPECT_EQ(c.optimizer.groups[0].wd_mult, 0);
  EXPECT_EQ(c.train.output, "2024");
  EXPECT_EQ(c.train.steps, 10000);
  EXPECT_EQ(c.train.freeze.size(), 2u);
  EXPECT_EQ(c.precision.recipes.at(0).path, "*");
  EXPECT_EQ(c.precision.recipes[0].compute, DType::f64);

  Config line = from("data: {train: [x, y]}",
                     {"data.train=[{path: z, weight: 2}]", "data.valid=one.txt", "model.path=a=b", "precision.recipes="});
  ASSERT_EQ(line.data.train.size(), 1u);
  EXPECT_EQ(line.data.train[0].path, "z");
  EXPECT_EQ(line.data.valid.at(0).path, "one.txt");
  EXPECT_EQ(line.model.path, "a=b");
}

// Each key reaches the member that it names, and no other.
TEST(Config, KeysAreTheirMembers) {
  const Config c = parse_config("", "x",
                                {{"optimizer.type", "sgd"},
                                 {"optimizer.momentum", "0.5"},
                                 {"optimizer.nesterov", "true"},
                                 {"schedule.type", "warmup_stable_decay"},
                                 {"schedule.warmup_steps", "3"},
                                 {"schedule.steps", "41"},
                                 {"schedule.stable_steps", "5"},
                                 {"schedule.decay_steps", "6"},
                                 {"schedule.min_lr_ratio", "0.125"},
                                 {"schedule.warmup_type", "cosine"},
                                 {"schedule.decay_type", "1-sqrt"},
                                 {"train.loss_average", "micro"},
                                 {"data.order", "megatron"},
                                 {"data.reset_position_ids", "true"},
                                 {"data.eod", "17"},
                                 {"checkpoint.verify", "false"},
                                 {"checkpoint.other_data", "true"},
                                 {"health.skip_norm", "9"},
                                 {"health.skip_count", "3"},
                                 {"health.embedding_norm", "8"},
                                 {"precision.unfused", "[attention]"}});
  EXPECT_TRUE(c.optimizer.type == OptimizerType::sgd && c.optimizer.momentum == 0.5 && c.optimizer.nesterov &&
              c.optimizer.dampening == 0);
  const ScheduleOptions& s = c.schedule;
  EXPECT_TRUE(s.type == ScheduleType::warmup_stable_decay && s.warmup_steps == 3 && s.steps == 41 && s.stable_steps == 5 &&
              s.decay_steps == 6 && s.min_lr_ratio == 0.125 && s.warmup_type == RateShape::cosine &&
              s.decay_type == RateShape::one_minus_sqrt);
  const ScheduleOptions warmed =
      from("schedule: {type: cosine_warmup_with_min_lr, cycles: 1.5, warmup_lr_ratio: 0.5}").schedule;
  EXPECT_TRUE(warmed.cycles == 1.5 && warmed.warmup_lr_ratio == 0.5);
  const ScheduleOptions falling = from("schedule: {type: polynomial, power: 2.5, end_lr: 1e-9}").schedule;
  EXPECT_TRUE(falling.power == 2.5 && falling.end_lr == 1e-9);
  EXPECT_EQ(from("schedule: {type: inverse_sqrt, timescale: 4}").schedule.timescale, 4);
  const ScheduleOptions g =
      from(
          "train: {valid_every: 1}\noptimizer: {lr: 0.25}\n"
          "schedule: {type: greedy, factor: 0.75, patience: 7, threshold: 0.25, threshold_mode: abs, cooldown: 8, raise_cooldown: 9, "
          "lowest_lr: 0.0625, highest_lr: 0.375, smooth_window: 10, reset_after: 11}")
          .schedule;
  EXPECT_TRUE(g.factor == 0.75 && g.patience == 7 && g.threshold == 0.25 && g.threshold_mode == ThresholdMode::absolute &&
              g.cooldown == 8 && g.raise_cooldown == 9);
  EXPECT_TRUE(g.lowest_lr == 0.0625 && g.highest_lr == 0.375 && g.smooth_window == 10 && g.reset_after == 11);
  EXPECT_EQ(c.train.loss_average, LossAverage::micro);
  EXPECT_TRUE(c.data.order == SampleOrder::megatron && c.data.reset_position_ids && !c.data.reset_attention_mask &&
              !c.data.eod_mask_loss && !c.data.document_attention && c.data.eod == 17);
  EXPECT_TRUE(!c.checkpoint.verify && c.checkpoint.other_data);
  EXPECT_TRUE(c.health.skip_norm == 9 && c.health.skip_count == 3 && c.health.embedding_norm == 8);
  EXPECT_EQ(c.precision.unfused, std::vector<std::string>{"attention"});
  const Config o = parse_config("", "x",
                                {{"optimizer.type", "sgd"},
                                 {"optimizer.momentum", "0.5"},
                                 {"optimizer.dampening", "0.25"},
                                 {"data.reset_attention_mask", "true"},
                                 {"data.eod_mask_loss", "true"},
                                 {"data.document_attention", "true"}});
  EXPECT_TRUE(o.optimizer.dampening == 0.25 && !o.optimizer.nesterov && o.data.reset_attention_mask && o.data.eod_mask_loss &&
              o.data.document_attention && !o.data.reset_position_ids);
}

// Each type has the defaults of the class it is named after, and refuses what it does not take.
TEST(Config, OptimizersHaveTheirOwnSettings) {
  EXPECT_EQ(from("optimizer: {type: lion}").optimizer.betas, (std::vector<double>{0.9, 0.999}));
  EXPECT_EQ(from("optimizer: {type: lion, betas: [0.9, 0.95]}").optimizer.betas, (std::vector<double>{0.9, 0.95})) << "given";
  EXPECT_EQ(from("", {"optimizer.type=adagrad"}).optimizer.eps, std::vector<double>{1e-10});
  const OptimizerOptions came = from("optimizer: {type: came}").optimizer, muon = from("optimizer: {type: muon}").optimizer;
  EXPECT_EQ(came.eps, (std::vector<double>{1e-30, 1e-3, 1e-16}));
  EXPECT_TRUE(came.decay_rate == 0.8 && !came.scale_parameter && came.weight_decay == 0 && came.beta1 == 0.9);
  EXPECT_TRUE(muon.nesterov && muon.momentum == 0.95 && muon.eps == std::vector<double>{1e-7} && muon.weight_decay == 0.1);
  const Config factored = from("optimizer: {type: adafactor, relative_step: false}");
  EXPECT_EQ(to_yaml(from(to_yaml(factored))), to_yaml(factored)) << "a complete file gives nothing that its type does not take";
  EXPECT_NE(to_yaml(from("")).find("  eps: 1.0e-08\n"), std::string::npos) << "one number has no brackets";

  EXPECT_EQ(
      error_of("optimizer: {type: lion, max_coeff: 5}\ntrain: {global_batch: 3, micro_batch: 2}"),
      "2 conflicts (run.yaml:2, run.yaml:1): train.global_batch is 3: must be a multiple of train.micro_batch, 2, use 4 or "
      "another multiple; optimizer.max_coeff is 5.0, optimizer.type lion: lion has no such setting, lamb, onebit_lamb have, "
      "remove it, or set optimizer.type=lamb; correct them all");
  EXPECT_EQ(
      error_of("optimizer: {type: lion, max_coeff: 5}"),
      "optimizer.max_coeff is 5.0, optimizer.type lion (run.yaml:1): lion has no such setting, lamb, onebit_lamb have; remove it, "
      "or set optimizer.type=lamb");
  EXPECT_EQ(
      error_of("optimizer: {momentum: 0.5}"),
      "optimizer.momentum is 0.5, optimizer.type adamw (run.yaml:1): adamw has no such setting, sgd, muon have; remove it, or "
      "set optimizer.type=sgd");
  EXPECT_EQ(
      error_of("optimizer: {type: adafactor, lr: 1e-3}"),
      "optimizer.lr is 0.001, optimizer.relative_step true (run.yaml:1): adafactor works out its own rate where relative_step is "
      "true, as it is by default; remove optimizer.lr, or set optimizer.relative_step=false");
  EXPECT_EQ(error_of("optimizer: {type: came, eps: 1e-8}"),
            "optimizer.eps has 1 number (run.yaml:1): came takes 3; write optimizer.eps=[1e-30, 1e-3, 1e-16], or leave it out");
  EXPECT_NE(error_of("optimizer: {type: lamb, eps: [1e-8, 1e-3]}").find("lamb takes 1"), std::string::npos);
  EXPECT_NE(error_of("optimizer: {type: came, beta1: 0}").find("needs one; set optimizer.beta1=0.9"), std::string::npos);
  EXPECT_NE(error_of("optimizer: {type: lamb, max_coeff: 0.001}").find("set optimizer.max_coeff above"), std::string::npos);
  EXPECT_NE(error_of("optimizer: {type: adafactor, relative_step: false, warmup_init: true}").find("warmup_init"),
            std::string::npos);
}

// A setting of another type is refused whatever its value, if the user chose it.
// A complete file chooses nothing. The settings of a file are not counted if a later type replaces the file's type.
TEST(Config, SettingsOfOtherTypesAreRefused) {
  EXPECT_EQ(
      error_of("optimizer: {type: lion, eps: 1e-8}"),
      "optimizer.eps is 1.0e-08, optimizer.type lion (run.yaml:1): lion has no such setting, adamw, adam, adagrad, adafactor, "
      "lamb, muon, came, onebit_adam, zeroone_adam, onebit_lamb have; remove it, or set optimizer.type=adamw");
  EXPECT_EQ(
      error_of("schedule: {cycle_min_lr: 1e-5}"),
      "schedule.cycle_min_lr is 1.0e-05, schedule.type cosine (run.yaml:1): cosine has no such setting, OneCycle has; remove "
      "it, or set schedule.type=OneCycle");
  EXPECT_NE(error_of("schedule: {type: constant, min_lr_ratio: 0.1}").find("constant has no such setting"), std::string::npos);
  from("schedule: {type: constant, min_lr_ratio: 0}");
  from("schedule: {type: OneCycle, cycle_min_lr: 1e-5, cycle_max_lr: 1e-3, warmup_steps: 0}");
  const std::string muon = to_yaml(from("optimizer: {type: muon, momentum: 0.8}"));
  EXPECT_EQ(to_yaml(from(muon)), muon) << "a complete file asks for nothing";
  const Config lion = from(muon, {"optimizer.type=lion"}),
               other = from("schedule: {warmup_steps: 7, power: 1}", {"schedule.type=WarmupLR"});
  EXPECT_EQ(lion.optimizer.momentum, OptimizerOptions().momentum);
  EXPECT_EQ(other.schedule.warmup_steps, ScheduleOptions().warmup_steps);
  EXPECT_EQ(left_aside(other),
            (std::vector<std::string>{"schedule.warmup_steps of run.yaml:1 has no effect with schedule.type=WarmupLR"}));
  EXPECT_NE(error_of("schedule: {warmup_steps: 7}", {"schedule.type=WarmupLR", "schedule.power=2"})
                .find("WarmupLR has no such setting"),
            std::string::npos);
}

TEST(Config, LiteralTextIsNotYaml) {
  Config c = parse_config("", "", {{.key = "model.path", .value = "*a: {b #c", .literal = true}});
  EXPECT_EQ(c.model.path, "*a: {b #c");
  EXPECT_THROW(parse_config("", "", {{.key = "model.path", .value = "\xff", .literal = true}}), UserError);
}

TEST(Config, WritesWhatItReads) {
  std::mt19937_64 draw(3);
  for (int i = 0; i < 200; ++i) {
    Config c;
    c.optimizer.lr = std::ldexp(static_cast<double>(draw() | uint64_t{1} << 63), -61 - static_cast<int>(draw() % 30));
    c.optimizer.betas = {static_cast<double>(draw() >> 11) * 0x1p-54, 0};
    c.data.train = {{"a b: #c", 0.1 * static_cast<double>(1 + draw() % 100)}, {"yes", 1.1e-9}};
    c.train.freeze = {"*x*", "[0]", "\n", "é\u2028"};
    c.lora.rank_pattern = {{"a: b", 1}, {"(.*\\.)?q_proj|x", 7}, {"é\n", 3}};
    c.lora.alpha_pattern = {{"{", 0.1}, {"layers.0", 1e-6}};
    c.train.seed = static_cast<int64_t>(draw() >> 1);
    c.data.skip_steps = {1, static_cast<int64_t>(draw() % 1000000000) + 1};
    c.precision.recipes = {{"layers.*", "softmax", std::nullopt, DType::bf16}};
    c.train.output = "null";
    std::string text = to_yaml(c);
    Config back = from(text);
    EXPECT_EQ(to_yaml(back), text);
    EXPECT_EQ(back.optimizer.lr, c.optimizer.lr);
    EXPECT_EQ(back.optimizer.betas, c.optimizer.betas);
    EXPECT_EQ(back.data.train[0].weight, c.data.train[0].weight);
    EXPECT_EQ(back.data.train[0].path, "a b: #c");
    EXPECT_EQ(back.data.train[1].path, "yes");
    EXPECT_EQ(back.train.freeze, c.train.freeze);
    EXPECT_EQ(back.lora.rank_pattern, c.lora.rank_pattern);
    EXPECT_EQ(back.lora.alpha_pattern, c.lora.alpha_pattern);
    EXPECT_EQ(back.train.seed, c.train.seed);
    EXPECT_EQ(back.train.output, "null");
    EXPECT_EQ(back.precision.recipes[0].round, DType::bf16);
  }
  EXPECT_EQ(to_yaml(from(defaults_text())), to_yaml(Config())) << "the list of defaults is itself a config";
}

// A default that breaks its own rule could not be written and read back; each option has words.
TEST(Config, EveryOptionIsDeclaredWhole) {
  Config config;
  for (const Section& s : sections_of(config))
    for (const Option& o : s.options) {
      EXPECT_FALSE(o.help.empty()) << o.name();
      EXPECT_NE(o.rule.on_resume, OnResume::undecided) << o.name() << ": fixed(), may_change() or other_bits()?";
      EXPECT_NO_THROW(o.assign(*load_yaml(o.yaml(), "default"), "default")) << o.name();
      EXPECT_NO_THROW(explain(config, o.name())) << o.name();
    }
}

TEST(Config, ErrorsNamePlaceRuleAndFix) {
  const std::pair<const char*, const char*> cases[] = {
      {"trian: {steps: 1}",
       "unknown section 'trian' (run.yaml:1): sections are model, lora, moe, data, train, dpo, optimizer, schedule, precision, "
       "parallel, offload, checkpoint, log, health, probe; did you mean 'train'?"},
      {"train:\n  stpes: 1",
       "unknown key 'train.stpes' (run.yaml:2): section train has no such key; did you mean 'train.steps'?"},
      {"train: {lr: 1}", "unknown key 'train.lr' (run.yaml:1): section train has no such key; did you mean 'optimizer.lr'?"},
      {"log: {qqqqqq: 1}",
       "unknown key 'log.qqqqqq' (run.yaml:1): section log has no such key; its keys are every, tensorboard, local_norms, style, sink, monitor, monitor_every, monitor_target, baseline, tensorboard_dir, tensorboard_every, tensorboard_omit, tensorboard_monitor, figures"},
      {"steps: 1", "unknown section 'steps' (run.yaml:1): options stand in sections; did you mean train: {steps: ..}?"},
      {"[1]", "not a config (run.yaml:1): a config is a map of sections; write sections like train: {steps: 1000}"},
      {"train: 3", "section 'train' holds no keys (run.yaml:1): a section is a map of options; write train: {steps: ..}"},
      {"train: {steps: many}", "train.steps is 'many' (run.yaml:1): must be a whole number; write a number"},
      {"train: {steps: '5'}", "train.steps is '5' (run.yaml:1): must be a whole number; remove the quotes"},
      {"train: {steps: 1.5}", "train.steps is '1.5' (run.yaml:1): must be a whole number; write 2"},
      {"train:\n  steps:\n", "train.steps is nothing (run.yaml:2): must be a whole number; write a number"},
      {"train: {steps: [1]}", "train.steps is a list (run.yaml:1): must be a whole number; write a number"},
      {"train: {seed: 9223372036854775808}",
       "train.seed is '9223372036854775808' (run.yaml:1): must be a whole number of at most 64 bits; write a number"},
      {"train: {steps: 0}", "train.steps is '0' (run.yaml:1): must be at least 1 and at most 1000000000; give a larger value"},
      {"train: {dropout: 1}",
       "train.dropout is '1' (run.yaml:1): must be at least 0 and at most 0.99: what stays is multiplied by 1 / (1 - dropout); give a smaller value"},
      {"optimizer: {lr: .nan}", "optimizer.lr is '.nan' (run.yaml:1): must be a finite number; write a number"},
      {"optimizer: {lr: high}", "optimizer.lr is 'high' (run.yaml:1): must be a number; write a number"},
      {"optimizer: {eps: 0}",
       "optimizer.eps is '0' (run.yaml:1): must be at least 1e-20 and at most 1: the square of a gradient below 1e-19 is 0 in f32, and eps alone divides it; give a larger value"},
      {"optimizer: {lr: 1e-300}",
       "optimizer.lr is '1e-300' (run.yaml:1): must be 0, or at least 1e-12 and at most 1e+30; give a larger value"},
      {"optimizer: {betas: [0.9]}", "optimizer.betas is a list (run.yaml:1): must have 2 elements, has 1; write as many"},
      {"optimizer:\n  betas: [0.9,\n   1]",
       "optimizer.betas is '1' (run.yaml:3): must be at least 0 and at most 0.999999; give a smaller value"},
      {"optimizer: {type: adamm}",
       "optimizer.type is 'adamm' (run.yaml:1): must be one of adamw, adam, sgd, adagrad, adafactor, lamb, lion, muon, came, cadam, onebit_adam, zeroone_adam, onebit_lamb; did you mean 'adamw'?"},
      {"log: {tensorboard: 1}", "log.tensorboard is '1' (run.yaml:1): must be true or false; write true or false"},
      {"model: {path: [a]}", "model.path is a list (run.yaml:1): must be a text; put it in quotes if it holds : [ { or #"},
      {"train: {output: ''}", "train.output is '' (run.yaml:1): must not be empty; write a value or remove the line"},
      {"train: {output: \"a\\0b\"}", "train.output is 'a b' (run.yaml:1): must not hold a zero byte; remove it"},
      {"data: {train: [{paht: x}]}",
       "unknown field 'paht' in data.train (run.yaml:1): an element is {path: .., weight: .., format: ..}; did you mean 'path'?"},
      {"data: {train: [{weight: 2}]}",
       "data.train is a map (run.yaml:1): an element needs 'path'; write it like {path: .., weight: .., format: ..}"},
      {"data: {train: [a, {path: x, weight: 0}]}",
       "data.train[1].weight is '0' (run.yaml:1): must be at least 1e-09 and at most 1000000000000000; give a larger value"},
      {"data: {train: [[a]]}",
       "data.train is a list (run.yaml:1): each element must be a map like {path: .., weight: .., format: ..}; write it so"},
      {"precision: {recipes: [softmax]}",
       "precision.recipes is 'softmax' (run.yaml:1): each element must be a map like {path: .., op: .., compute: .., round: "
       ".., role: ..}; write it so"},
      {"parallel: {zero: 4}", "parallel.zero is '4' (run.yaml:1): must be at least 0 and at most 3; give a smaller value"},
      {"parallel: {tensor: 0}",
       "parallel.tensor is '0' (run.yaml:1): must be at least 1 and at most 32768; give a larger value"},
      {"train: {global_batch: 6, micro_batch: 4}",
       "train.global_batch is 6 (run.yaml:1): must be a multiple of train.micro_batch, 4; use 8 or another multiple"},
      {"model: {path: a, config: b}",
       "model.path and model.config are both given (run.yaml:1): a model comes from one of them; remove one"},
      {"data: {valid: a, valid_fraction: 0.1}",
       "data.valid and data.valid_fraction are both given (run.yaml:1): validation data come from one of them; remove one"},
      {"optimizer: {type: sgd, nesterov: true, momentum: 0}",
       "optimizer.nesterov is true (run.yaml:1): needs a momentum above 0 and a dampening of 0; set optimizer.momentum=0.9 "
       "optimizer.dampening=0, or remove nesterov"},
      {"data: {text_key: .nan}",
       "data.text_key is '.nan' (run.yaml:1): must be a text; write a name, or put it in quotes if this is one"},
      {"data: {order: megatron, split: x}",
       "data.split is 'x' (run.yaml:1): must be one to three numbers between commas, one of them above 0; write for example 969,30,1"},
      {"probe: {inject: {}}",
       "probe.inject is a map (run.yaml:1): an element says something: {step: .., path: .., op: .., phase: .., tensor: .., value: .., element: ..}; name at least "
       "one field or remove the element"},
      {"precision: {recipes: {path: a}}",
       "precision.recipes[0] changes nothing (run.yaml:1): an exception names the arithmetic or a rounding; set its compute or round, or remove it"},
      {"schedule: {type: polynomial}\noptimizer: {lr: 1e-7}",
       "schedule.end_lr is 1e-07, optimizer.lr 1e-07 (run.yaml:2): a polynomial schedule falls from optimizer.lr to schedule.end_lr; lower schedule.end_lr"},
      {"optimizer: {weight_decay: 5000, groups: [{match: x, wd_mult: 0}]}",
       "optimizer.lr=0.0003 times optimizer.weight_decay=5000 is 1.4999999999999998 (run.yaml:1): a step takes away this share of each weight, at most 1; lower one of them"},
      {"optimizer: {weight_decay: 1e300}",
       "optimizer.weight_decay is '1e300' (run.yaml:1): must be 0, or at least 1e-12 and at most 10000; give a smaller value"},
      {"optimizer: {weight_decay: 5000}",
       "optimizer.lr=0.0003 times optimizer.weight_decay=5000 is 1.4999999999999998 (run.yaml:1): a step takes away this share of each weight, at most 1; lower one of them"},
      {"train: {global_batch: 131072}",
       "train.global_batch is 131072, train.micro_batch 1 (run.yaml:1): a step has at most 65536 micro batches; raise train.micro_batch or lower train.global_batch"},
      {"data: {sequence_length: 16777216}\ntrain: {micro_batch: 2}",
       "train.micro_batch is 2, data.sequence_length 16777216 (run.yaml:2): a micro batch has at most 16777216 tokens; train.micro_batch=1 is the most for this length"},
      {"parallel: {tensor: 32768, pipeline: 2}",
       "parallel.data=0 parallel.tensor=32768 parallel.pipeline=2 (run.yaml:1): their product is the number of ranks, at most 32768; lower one of them"},
  };
  for (auto [yaml, text] : cases) EXPECT_EQ(error_of(yaml), text) << yaml;
}

// A step takes away rate times decay of each weight: of groups by their own factors.
TEST(Config, NoGroupDecaysByMoreThanAllOfIt) {
  const auto refused = [](const std::string& lr_mult, const std::string& wd_mult) {
    return error_of("", {"optimizer.lr=0.5", "optimizer.weight_decay=1",
                         "optimizer.groups=[{match: a}, {match: b, lr_mult: " + lr_mult + ", wd_mult: " + wd_mult + "}]"});
  };
  EXPECT_EQ(refused("2", "1"), "no error") << "exactly all";
  EXPECT_EQ(refused("1", "2"), "no error");
  EXPECT_EQ(refused("4", "0.5"), "no error");
  for (auto [lr, wd] : {std::pair{"2.1", "1"}, {"1", "2.1"}, {"0.5", "4.1"}, {"4", "0.6"}})
    EXPECT_NE(refused(lr, wd).find("optimizer.groups[1]"), std::string::npos) << lr << " " << wd << ": " << refused(lr, wd);
}

TEST(Config, ErrorsOfTheCommandLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"train.stpes=1", "unknown key 'train.stpes' (command line): section train has no such key; did you mean 'train.steps'?"},
      {"train=1", "'train' is a section (command line): values are given to section.key; write train.steps=.."},
      {"train.steps=0", "train.steps is '0' (command line): must be at least 1 and at most 1000000000; give a larger value"},
      {"lora.rank_pattern=[1]",
       "lora.rank_pattern is a list (command line): must be a map of names to numbers; write it like {NAME: 4}"},
      {"lora.rank_pattern={q_proj: 0}",
       "lora.rank_pattern[q_proj] is '0' (command line): must be at least 1 and at most 65536; give a larger value"},
      {"lora.alpha_pattern={x: y}", "lora.alpha_pattern[x] is 'y' (command line): must be a number; write a number"},
      {"train.steps", "'train.steps' (command line): options are written section.key=value; write for example train.steps=100"},
      {"=1", "'=1' (command line): options are written section.key=value; write for example train.steps=100"},
      {"train.freeze=[*a]",
       "alias *a (command line, train.freeze): no such anchor before it; define &a first, or put values that start with * in "
       "quotes: ['*a']"},
  };
  for (auto [word, text] : cases) EXPECT_EQ(error_of("", {word}), text) << word;
  try {
    explain(Config(), "steps");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "unknown key 'steps' (command line): no option has this name; did you mean 'train.steps'?");
  }
  try {
    load_config("/does/not/exist.yaml");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "cannot read the config (/does/not/exist.yaml): No such file or directory; check the path: there is no /does");
  }
}

TEST(Config, RandomConfigsNeverCrash) {
  std::mt19937_64 draw(5);
  const std::vector<std::string> parts = {"train:",     "data:", " steps", "\n  ",  ": ",         "{",     "}",    "[",
                                          "]",          "path",  "a",      "1",     "-1",         "1e400", ", ",   "'",
                                          "optimizer:", "betas", "groups", "match", "recipes",    "~",     ".nan", "- ",
                                          "&a ",        "*a",    "<<",     "valid", "precision:", "true",  "\n"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (uint64_t n = draw() % 16; n > 0; --n) text += parts[draw() % parts.size()];
    try {
      Config c = from(text);
      EXPECT_EQ(to_yaml(from(to_yaml(c))), to_yaml(c));
    } catch (const UserError&) {
    }
  }
}

TEST(Config, DocsPageIsCurrent) {
  std::ifstream file(RAVINE_SOURCE_DIR "/docs/options.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), options_markdown()) << "run: ravine config --markdown > docs/options.md";
}

}  // namespace test_config
