// The files in Megatron's flags: the checkpoint to resume from, the weights to start with, and the format of
// checkpoints.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "dialects/megatron.h"
#include "dialects/reverse.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_dialects_megatron {

namespace fs = std::filesystem;

// The folders a (iteration 4), b (iteration 6) and r (a release).
class Folders : public TemporaryFolder {
 public:
  Folders() {
    for (const auto& [name, tracker] : {std::pair{"a", "4\n"}, {"b", "6"}, {"r", "release"}}) {
      fs::create_directories(*this / name);
      spill(*this / name + "/latest_checkpointed_iteration.txt", tracker);
    }
  }
  Translation translated(std::vector<std::string> words, const std::string& beyond = "",
                         std::function<int64_t(const std::string&)> vocabulary = {}) const {
    std::vector<std::string> all{"--num-layers",
                                 "8",
                                 "--hidden-size",
                                 "64",
                                 "--num-attention-heads",
                                 "4",
                                 "--seq-length",
                                 "64",
                                 "--micro-batch-size",
                                 "2",
                                 "--max-position-embeddings",
                                 "64",
                                 "--train-iters",
                                 "10",
                                 "--lr",
                                 "1e-4",
                                 "--data-path",
                                 "d",
                                 "--vocab-size",
                                 "128"};
    all.insert(all.end(), words.begin(), words.end());
    MegatronJob job{.ranks = 1};
    if (beyond != "nobody") job.beyond_files = [beyond](const Config&) { return beyond; };
    job.vocabulary = std::move(vocabulary);
    return translate_megatron(placed(all), job);
  }
};

std::string all_notices(const Translation& t) {
  std::string out;
  for (const std::string& n : t.notices()) out += n + "\n";
  return out;
}

ExplainedKey line_of(const Translation& t, const std::string& key) {
  for (const ExplainedKey& k : t.lines())
    if (k.key == key) return k;
  return {};
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(MegatronLoad, GoesOnFromAnIteration) {
  const Folders f;
  const std::vector<std::string> save{"--save", f / "new", "--save-interval", "2"};
  const auto with = [&](std::vector<std::string> words, const std::string& beyond = "") {
    words.insert(words.end(), save.begin(), save.end());
    return f.translated(words, beyond);
  };
  for (const char* beyond : {"", "nobody"}) {
    const Translation t = with({"--load", f / "a", "--no-load-rng"}, beyond);
    const Config c = config_of(t);
    EXPECT_EQ(c.checkpoint.resume, f / "a");
    EXPECT_EQ(c.checkpoint.layout, CheckpointLayout::megatron);
    EXPECT_EQ(c.model.weights, "");
    EXPECT_EQ(all_notices(t), "");
    EXPECT_TRUE(contains(line_of(t, "--load").option, "checkpoint.resume"));
    EXPECT_EQ(line_of(t, "--no-load-rng").status, KeyStatus::inert);
  }
  const Config alone = config_of(f.translated({"--load", f / "a"}));
  EXPECT_EQ(alone.checkpoint.resume, f / "a") << "nothing is saved";
  EXPECT_EQ(alone.checkpoint.layout, CheckpointLayout::megatron);
  for (const char* key : {"--finetune", "--no-load-optim"}) {
    const Translation t = with({"--load", f / "a", key});
    const Config c = config_of(t);
    EXPECT_EQ(c.model.weights, f / "a") << key;
    EXPECT_EQ(c.checkpoint.resume, "auto") << key;
    EXPECT_EQ(c.checkpoint.layout, CheckpointLayout::megatron) << key;
    EXPECT_EQ(line_of(t, key).status, KeyStatus::used) << key;
    EXPECT_EQ(contains(all_notices(t), "count on from iteration 4"), key == std::string("--no-load-optim")) << all_notices(t);
    EXPECT_EQ(line_of(with({"--load", f / "r", key}), key).status, KeyStatus::inert) << key;
  }
  const Config release = config_of(with({"--load", f / "r"}));
  EXPECT_EQ(release.model.weights, f / "r");
  EXPECT_EQ(release.checkpoint.resume, "auto");
}

TEST(MegatronLoad, OfTheFolderOfSaveIsTheNewestThere) {
  const Folders f;
  for (const std::string load : {"a", "a/", "./a", "b/../a"}) {
    const Translation t = f.translated({"--load", f / load, "--save", f / "a", "--save-interval", "2"});
    const Config c = config_of(t);
    EXPECT_EQ(all_notices(t), "") << load;
    EXPECT_EQ(c.checkpoint.resume, "auto") << load;
    EXPECT_EQ(c.model.weights, "") << load;
  }
  const Translation none = f.translated({"--load", f / "new", "--save", f / "new", "--save-interval", "2"});
  EXPECT_EQ(config_of(none).checkpoint.resume, "auto");
  EXPECT_EQ(line_of(none, "--load").status, KeyStatus::inert);
}

TEST(MegatronLoad, OfTwoFoldersTheOneOfSaveCounts) {
  const Folders f;
  const Translation t = f.translated({"--load", f / "a", "--save", f / "b", "--save-interval", "2"});
  EXPECT_EQ(config_of(t).checkpoint.resume, "auto");
  EXPECT_TRUE(contains(all_notices(t), "holds iteration 6")) << all_notices(t);
  EXPECT_EQ(line_of(t, "--load").status, KeyStatus::inert);
  EXPECT_TRUE(contains(line_of(t, "--load").reason, "Megatron would read --load"));
}

TEST(MegatronSave, KeepsOurFormWhereTheirsHasNoField) {
  const Folders f;
  const std::vector<std::string> words{"--load", f / "a", "--save", f / "new", "--save-interval", "2"};
  Translation t = f.translated(words, "theirs have no place for it");
  Config c = config_of(t);
  EXPECT_EQ(c.checkpoint.layout, CheckpointLayout::ravine);
  EXPECT_EQ(c.model.weights, f / "a");
  EXPECT_TRUE(contains(all_notices(t), "Ravine's own form: theirs have no place for it")) << all_notices(t);
  EXPECT_TRUE(contains(all_notices(t), "begins at step 0"));
  fs::create_directories(f / "new/checkpoints");
  t = f.translated(words);
  EXPECT_EQ(config_of(t).checkpoint.layout, CheckpointLayout::ravine) << "it holds such already";
  EXPECT_EQ(config_of(f.translated({})).checkpoint.layout, CheckpointLayout::ravine) << "nothing is saved";
}

std::string refused(const Translation& t) {
  std::string out;
  for (const KeyRefusal& r : t.refusals()) out += fmt::format("{} ({}): {}; {}\n", r.what, r.key, r.rule, r.fix);
  return out;
}

TEST(MegatronLoad, OfARunOfOurFormIsItsModel) {
  const Folders f;
  fs::create_directories(f / "run/checkpoints/step_000004");
  spill(f / "run/checkpoints/step_000004/manifest.json", "{}");
  Translation t = f.translated({"--load", f / "run"});
  EXPECT_TRUE(contains(refused(t), "a run without a model") && contains(refused(t), "ravine convert --input " + f / "run"))
      << refused(t);
  EXPECT_EQ(refused(f.translated({"--load", f / "run", "--save", f / "run", "--save-interval", "2"})), "")
      << "it goes on in place";
  fs::create_directories(f / "run/model");
  spill(f / "run/model/config.json", "{}");
  for (const char* finetune : {"", "--finetune"}) {
    t = f.translated(*finetune ? std::vector<std::string>{"--load", f / "run", finetune}
                               : std::vector<std::string>{"--load", f / "run"});
    EXPECT_EQ(refused(t), "");
    EXPECT_EQ(config_of(t).model.path, f / "run/model");
    EXPECT_TRUE(contains(all_notices(t), "the weights of " + f / "run/model are taken")) << all_notices(t);
  }
  t = f.translated({"--load", f / "run/checkpoints/step_000004"});
  EXPECT_TRUE(contains(refused(t), "Ravine's own form") && contains(refused(t), "write --load " + f / "run/model"))
      << refused(t);
  fs::create_directories(f / "lora/adapter");
  fs::create_directories(f / "lora/checkpoints");
  spill(f / "lora/adapter/adapter_config.json", "{}");
  t = f.translated({"--load", f / "lora"});
  EXPECT_TRUE(contains(refused(t), "write --lora-load " + f / "lora/adapter")) << refused(t);
}

TEST(MegatronLoad, WithoutWeightsIsReported) {
  const Folders f;
  fs::create_directories(f / "empty");
  for (const char* name : {"empty", "gone"}) {
    const Translation t = f.translated({"--load", f / name, "--save", f / "new", "--save-interval", "2"});
    EXPECT_EQ(refused(t), "");
    EXPECT_TRUE(contains(all_notices(t), "training begins with new weights")) << all_notices(t);
    EXPECT_EQ(all_notices(f.translated({"--load", f / name, "--save", f / name, "--save-interval", "2"})), "") << name;
    EXPECT_TRUE(contains(refused(f.translated({"--load", f / name, "--finetune"})), "nothing to fine-tune"));
    EXPECT_TRUE(contains(refused(f.translated({"--load", f / name, "--exit-on-missing-checkpoint"})), "correct the path"));
    const Translation on = f.translated({"--load", f / name, "--finetune", "--save", f / "b", "--save-interval", "2"});
    EXPECT_EQ(refused(on), "") << "a second start";
    EXPECT_TRUE(contains(all_notices(on), "goes on from the newest of --save")) << all_notices(on);
  }
  fs::create_directories(f / "lost/iter_0000004/mp_rank_00");
  const std::string message = refused(f.translated({"--load", f / "lost"}));
  EXPECT_TRUE(contains(message, "iteration into " + f / "lost/latest_checkpointed_iteration.txt")) << message;
}

TEST(MegatronLoad, InPlaceMomentsStay) {
  const Folders f;
  for (const char* key : {"--no-load-optim", "--finetune"}) {
    const Translation t = f.translated({"--load", f / "a", "--save", f / "a", "--save-interval", "2", key});
    EXPECT_EQ(refused(t), "");
    const Config c = config_of(t);
    EXPECT_EQ(c.checkpoint.resume, "auto") << key;
    EXPECT_EQ(c.model.weights, "") << key;
    EXPECT_TRUE(contains(all_notices(t), fmt::format("with its moments: {} counts at a run's first start", key)))
        << all_notices(t);
    EXPECT_EQ(line_of(t, key).status, KeyStatus::inert);
  }
  EXPECT_TRUE(
      contains(refused(f.translated({"--load", f / "r", "--save", f / "r", "--save-interval", "2"})), "choose another --save"));
}

TEST(MegatronLoad, ABadTrackerFileIsRefused) {
  const Folders f;
  const std::string tracker = f / "bad/latest_checkpointed_iteration.txt";
  fs::create_directories(f / "bad");
  const auto refuses = [&](const std::string& what) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"--load", f / "bad"},
                                                  {"--save", f / "bad", "--save-interval", "2"},
                                                  {"--load", f / "bad", "--save", f / "bad", "--save-interval", "2"}}) {
      const Translation t = f.translated(words);
      EXPECT_EQ(t.refusals().size(), 1U) << what << refused(t);
      EXPECT_TRUE(contains(refused(t), "bad tracker file " + tracker)) << what << refused(t);
    }
  };
  for (const std::string& text : {std::string(), std::string("-1"), std::string("nan"), std::string("4x"),
                                  std::string("99999999999999999999"), std::string(1 << 20, '4')}) {
    spill(tracker, text);
    refuses(text.substr(0, 24));
  }
  fs::remove(tracker);
  fs::create_directories(tracker);
  refuses("a folder");
  fs::remove(tracker);
  ASSERT_EQ(mkfifo(tracker.c_str(), 0600), 0);
  refuses("a FIFO");
}

TEST(MegatronLoad, OfAnIterationsFolderGoesOn) {
  const Folders f;
  fs::create_directories(f / "a/iter_0000004/mp_rank_00");
  spill(f / "a/iter_0000004/config.json", "{}");
  for (const char* end : {"", "/"}) {
    const Translation t = f.translated({"--load", f / "a/iter_0000004" + end, "--save", f / "new", "--save-interval", "2"});
    EXPECT_EQ(config_of(t).checkpoint.resume, f / "a/iter_0000004");
    EXPECT_EQ(config_of(t).model.path, "");
    EXPECT_EQ(all_notices(t), "");
  }
  EXPECT_EQ(config_of(f.translated({"--load", f / "a/iter_0000004", "--finetune"})).model.weights, f / "a/iter_0000004");
  fs::create_directories(f / "step/mp_rank_00");
  const Translation t = f.translated({"--load", f / "step"});
  EXPECT_EQ(config_of(t).model.weights, f / "step");
  EXPECT_TRUE(contains(all_notices(t), "name is no iteration")) << all_notices(t);
}

TEST(MegatronVocabulary, RowsAreTheTokenizersOrMore) {
  const Folders f;
  const auto with = [&](std::vector<std::string> words) {
    return f.translated(words, "", [](const std::string&) { return int64_t{200}; });
  };
  const std::vector<std::string> tokenizer{"--tokenizer-type", "PretrainedFromHF", "--tokenizer-name-or-path", "tok"};
  const auto translated_with = [&](std::vector<std::string> words) {
    words.insert(words.end(), tokenizer.begin(), tokenizer.end());
    return with(words);
  };
  EXPECT_EQ(line_of(with({}), "--vocab-size").status, KeyStatus::used);
  const Translation t = translated_with({});
  EXPECT_EQ(line_of(t, "--vocab-size").status, KeyStatus::inert);
  EXPECT_TRUE(contains(line_of(t, "--vocab-size").reason, "those of the tokenizer, 200"));
  for (const char* key : {"--padded-vocab-size", "--pad-vocab-size-to"}) {
    EXPECT_TRUE(contains(refused(translated_with({key, "199"})), "write 200 or more")) << key;
    const Translation more = translated_with({key, "256"});
    EXPECT_EQ(refused(more), "");
    EXPECT_EQ(line_of(more, key).status, KeyStatus::used);
    EXPECT_EQ(line_of(more, "--vocab-size").status, KeyStatus::inert);
    // Without a tokenizer the id --vocab-size = 128 ends documents; data may not use it.
    EXPECT_EQ(refused(with({"--tokenizer-type", "NullTokenizer", key, "128"})), "") << key;
    EXPECT_TRUE(contains(refused(with({"--tokenizer-type", "NullTokenizer", key, "127"})), key)) << key;
  }
}

TEST(MegatronGemma, WhatIsNoGemmaIsNamed) {
  const Folders f;
  const auto message = [&](std::vector<std::string> words) {
    for (const char* word :
         {"--add-rmsnorm-offset", "--geglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope"})
      words.push_back(word);
    return refused(f.translated(words));
  };
  const std::string head = message({"--untie-embeddings-and-output-weights", "--disable-bias-linear"});
  EXPECT_TRUE(contains(head, "--untie-embeddings-and-output-weights with --add-rmsnorm-offset")) << head;
  EXPECT_TRUE(contains(head, "one matrix as embedding and head"));
  EXPECT_FALSE(contains(head, "(--add-rmsnorm-offset)"));
  const std::string biases = message({});
  EXPECT_TRUE(contains(biases, "--disable-bias-linear is not given") && contains(biases, "no biases")) << biases;
}

TEST(MegatronReverse, LoadIsWhatTheRunGoesOnFrom) {
  const Folders f;
  Config c;
  c.train.output = f / "b";
  const auto load = [&] {
    const std::string text = megatron_form(c, Json()).text;
    const size_t at = text.find("--load ");
    return at == std::string::npos ? "" : text.substr(at + 7, text.find('\n', at) - at - 7);
  };
  EXPECT_EQ(load(), "");
  c.model.path = "hf";
  EXPECT_EQ(load(), "hf");
  c.checkpoint.layout = CheckpointLayout::megatron;
  EXPECT_EQ(load(), "hf");
  c.checkpoint.resume = f / "a";
  EXPECT_EQ(load(), f / "a");
  c.checkpoint.resume = "auto", c.model.path = "";
  EXPECT_EQ(load(), f / "b") << "as scripts that are sent off again have it";
  c.checkpoint.resume = "none";
  EXPECT_EQ(load(), "");
}

}  // namespace test_dialects_megatron
}  // namespace ravine
