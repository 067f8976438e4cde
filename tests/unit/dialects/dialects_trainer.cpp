#include <gtest/gtest.h>

#include "base/error.h"
#include "config/yaml_json.h"
#include "dialects/deepspeed_json.h"
#include "dialects/trainer.h"

using namespace ravine;

namespace test_dialects_trainer {

std::vector<std::string> notices;

Json parsed_json(const std::string& text) {
  notices.clear();
  return json_of(*parse_deepspeed_json(text, "ds.json", notices));
}

std::string error_of_json(const std::string& text) {
  try {
    parsed_json(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

Translation translated(const std::vector<std::string>& words, const TrainerFacts& facts = {}) {
  std::vector<std::string> all{"--model_name_or_path", "m", "--output_dir", "o", "--do_train", "--max_steps", "100"};
  all.insert(all.end(), words.begin(), words.end());
  return translate_trainer(read_trainer_line(placed(all)), facts);
}

TEST(DeepSpeedJson, ReadsWhatJsonIs) {
  const Json read =
      parsed_json(R"({"a": [1, -2.5, 1e3, true, false, null], "b": {"c": "x\n\u00e9\ud83d\ude00"}, "d": {}, "e": []})");
  EXPECT_EQ(read.dump(), R"({"a":[1,-2.5,1000.0,true,false,null],"b":{"c":"x\né😀"},"d":{},"e":[]})");
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(parsed_json("\xEF\xBB\xBF{\"a\": 18446744073709551616}")["a"], 18446744073709551616.0);
}

TEST(DeepSpeedJson, ForgivesATrailingCommaOnly) {
  EXPECT_EQ(parsed_json("{\"a\": [1, 2,],\n \"b\": 1,\n}").dump(), R"({"a":[1,2],"b":1})");
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_TRUE(contains(notices[0], "comma") && contains(notices[0], "ds.json:1"));
  EXPECT_TRUE(contains(notices[1], "ds.json:2"));
  for (const char* text : {"{,}", "{\"a\": 1,, \"b\": 2}", "{\"a\" 1}", "{\"a\": 01}", "{\"a\": .5}", "{\"a\": 1.}",
                           "{\"a\": 'x'}", "{a: 1}", "{\"a\": True}", "{\"a\": 1} x", "[1]", "", "{\"a\": 1 // c\n}",
                           "{\"a\": \"\\x\"}", "{\"a\": \"\\ud800\"}", "{\"a\": \"x", "{\"a\": 1e999}", "{\"a\": nul}"})
    EXPECT_TRUE(contains(error_of_json(text), "not valid JSON (ds.json:")) << text << ": " << error_of_json(text);
}

TEST(DeepSpeedJson, NamesLines) {
  EXPECT_TRUE(contains(error_of_json("{\n\"a\": 1,\n\"b\": {\"c\": 1, \"c\": 2}}"), "key \"c\" is given twice (ds.json:3)"));
  EXPECT_TRUE(contains(error_of_json("{\n\n\"a\": }"), "ds.json:3"));
  EXPECT_TRUE(contains(error_of_json("{\n\"a\": \"\xFF\"}"), "not UTF-8 (ds.json:2)"));
}

TEST(DeepSpeedJson, IsBounded) {
  std::string deep = "{\"a\": ";
  for (int i = 0; i < 40; ++i) deep += "[";
  EXPECT_TRUE(contains(error_of_json(deep), "nesting"));
  std::string many = "{\"a\": [0";
  for (int i = 0; i < 100'001; ++i) many += ",0";
  EXPECT_TRUE(contains(error_of_json(many + "]}"), "at most 100000 values"));
}

TEST(DeepSpeedJson, ReadsBase64) {
  std::string name;
  notices.clear();
  const YamlNode::Ptr root =
      read_deepspeed_json("eyJ0cmFpbl9iYXRjaF9zaXplIjogMTZ9", name, notices);  // {"train_batch_size": 16}
  EXPECT_EQ(json_of(*root).dump(), R"({"train_batch_size":16})");
  EXPECT_EQ(name, "--deepspeed");
}

// Every row of a table has a text, and no key is in it twice.
TEST(TrainerTables, AreWhole) {
  std::set<std::string_view> keys;
  for (const DeepSpeedKey& k : deepspeed_keys()) {
    EXPECT_TRUE(keys.insert(k.key).second) << k.key;
    EXPECT_FALSE(k.effect.empty()) << k.key;
    EXPECT_EQ(find_deepspeed_key(k.key), &k) << k.key;
  }
  for (const TrainerFlag& f : trainer_flags()) {
    EXPECT_TRUE(keys.insert(f.name).second || f.name == "zero_optimization" || find_deepspeed_key(f.name)) << f.name;
    EXPECT_FALSE(f.effect.empty()) << f.name;
  }
  std::vector<KeyRefusal> refusals;
  EXPECT_EQ(read_trainer_flags({}, refusals).values.size(), trainer_flags().size());  // defaults fit their flags
}

TEST(TrainerFlags, AreReadAsArgparseReadsThem) {
  std::vector<KeyRefusal> refusals;
  const TrainerArguments a = read_trainer_flags(
      placed({"--fp16", "--learning-rate=3e-4", "--do_train", "False", "--no_dataloader_pin_memory", "--max_steps", "-1",
              "--eval_strategy", "steps", "--report_to", "tensorboard", "wandb", "--seed", "1", "--seed", "2"}),
      refusals);
  EXPECT_TRUE(refusals.empty());
  EXPECT_TRUE(a.on("fp16") && !a.on("do_train") && !a.on("dataloader_pin_memory"));
  EXPECT_EQ(a.number("learning_rate"), 3e-4);
  EXPECT_EQ(a.whole("max_steps"), -1);
  EXPECT_EQ(a.text("evaluation_strategy"), "steps");
  EXPECT_EQ(a.value("report_to").items.size(), 2U);
  EXPECT_EQ(a.whole("seed"), 2);
  read_trainer_flags(
      placed({"word", "--learning_rat", "3", "--seed", "x", "--warmup_ratio", "2", "--fp16", "maybe", "--output_dir"}),
      refusals);
  ASSERT_EQ(refusals.size(), 6U);
  EXPECT_TRUE(contains(refusals[1].fix, "--learning_rate"));
}

TEST(TrainerFlags, CountSteps) {
  TrainerFacts facts;
  facts.samples = 103;
  facts.ranks = 2;
  std::vector<KeyRefusal> none;
  const auto args = [&](std::vector<std::string> words) { return read_trainer_flags(placed(words), none); };
  // 103 samples are 26 batches of 4, 13 on each rank, and 6 updates of 2 batches in an epoch.
  const std::vector<std::string> batch{"--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "2"};
  EXPECT_EQ(updates_of_pass(args(batch), facts), 6);
  EXPECT_EQ(updates_of_run(
                args({"--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "2", "--num_train_epochs", "2.4"}),
                facts),
            15);
  EXPECT_EQ(updates_of_run(args({"--max_steps", "7"}), facts), 7);
  EXPECT_EQ(warmup_of_run(args({"--max_steps", "70", "--warmup_ratio", "0.11"}), facts), 8);
  EXPECT_EQ(warmup_of_run(args({"--max_steps", "70", "--warmup_ratio", "0.11", "--warmup_steps", "3"}), facts), 3);
}

TEST(Trainer, LeadsToAConfig) {
  TrainerFacts facts;
  facts.ranks = 4;
  const Config c = config_of(
      translated({"--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "3", "--bf16", "--lr_scheduler_type",
                  "polynomial", "--lr_scheduler_kwargs", "{\"power\": 2}", "--optim", "adafactor"},
                 facts));
  EXPECT_EQ(c.train.global_batch, 24);
  EXPECT_EQ(c.train.micro_batch, 2);
  EXPECT_EQ(c.precision.compute, DType::bf16);
  EXPECT_EQ(c.schedule.type, ScheduleType::polynomial);
  EXPECT_EQ(c.schedule.power, 2);
  EXPECT_EQ(c.optimizer.type, OptimizerType::adafactor);
  EXPECT_FALSE(c.optimizer.relative_step);
  EXPECT_EQ(c.optimizer.decay, DecayOf::matrices);
  EXPECT_EQ(c.parallel.zero, 0);
}

TEST(Trainer, ExplainsEachKeyThatWasGiven) {
  const Translation t = translated({"--warmup_ratio", "0.1", "--warmup_steps", "5", "--tf32", "true"});
  std::map<std::string, ExplainedKey> lines;
  for (const ExplainedKey& line : t.lines()) lines[line.key] = line;
  EXPECT_EQ(lines.at("--warmup_steps").status, KeyStatus::used);
  EXPECT_EQ(lines.at("--warmup_ratio").status, KeyStatus::inert);
  EXPECT_EQ(lines.at("--tf32").status, KeyStatus::inert);
  EXPECT_FALSE(lines.at("--tf32").reason.empty());
  EXPECT_EQ(lines.at("--max_steps").option, "train.steps");
}

TEST(Trainer, EvaluatesWithoutTraining) {
  TrainerFacts facts;
  facts.ranks = 2;
  facts.runs = true;
  const auto translation_of = [&](std::vector<std::string> words) {
    for (const char* word : {"--model_name_or_path", "m", "--output_dir", "o", "--do_eval", "--warmup_ratio", "0.1"})
      words.emplace_back(word);
    return translate_trainer(read_trainer_line(placed(words)), facts);
  };
  const Translation t = translation_of({"--validation_file", "v", "--train_file", "x", "--per_device_eval_batch_size", "3",
                                        "--max_eval_samples", "7", "--learning_rate", "1", "--bf16"});
  EXPECT_TRUE(t.evaluates && t.trainer.results);
  const Config c = config_of(t);
  EXPECT_EQ(c.data.train.at(0).path, "v");
  EXPECT_EQ(c.train.micro_batch, 3);
  EXPECT_EQ(c.train.global_batch, 6);
  EXPECT_EQ(c.train.valid_batches, 3);
  EXPECT_EQ(c.checkpoint.resume, kResumeNone);
  EXPECT_EQ(c.precision.compute, DType::bf16);
  std::map<std::string, KeyStatus> status;
  for (const ExplainedKey& line : t.lines()) status[line.key] = line.status;
  for (const char* inert : {"--train_file", "--learning_rate", "--warmup_ratio"})
    EXPECT_EQ(status.at(inert), KeyStatus::inert) << inert;
  for (const char* used :
       {"--validation_file", "--per_device_eval_batch_size", "--max_eval_samples", "--do_eval", "--output_dir"})
    EXPECT_EQ(status.at(used), KeyStatus::used) << used;
  EXPECT_EQ(translation_of({}).refusals().at(0).key, "--validation_file");
  EXPECT_FALSE(translated({"--do_eval", "--validation_file", "v"}).evaluates);
}

}  // namespace test_dialects_trainer
