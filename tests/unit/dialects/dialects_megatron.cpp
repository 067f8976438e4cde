// Files that Megatron's flags name: what a run goes on from, what it takes weights of, and whose form its checkpoints have.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "dialects/megatron.h"
#include "dialects/reverse.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_dialects_megatron {

namespace fs = std::filesystem;

// Of the folders a (iteration 4), b (iteration 6) and r (a release).
class Folders : public TemporaryFolder {
 public:
  Folders() {
    for (const auto& [name, tracker] : {std::pair{"a", "4\n"}, {"b", "6"}, {"r", "release"}}) {
      fs::create_directories(*this / name);
      spill(*this / name + "/latest_checkpointed_iteration.txt", tracker);
    }
  }
  Translation translated(std::vector<std::string> words, const std::string& beyond = "") const {
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

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

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
    EXPECT_TRUE(says(line_of(t, "--load").option, "checkpoint.resume"));
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
    EXPECT_EQ(says(all_notices(t), "count on from iteration 4"), key == std::string("--no-load-optim")) << all_notices(t);
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
  EXPECT_TRUE(says(all_notices(t), "holds iteration 6")) << all_notices(t);
  EXPECT_EQ(line_of(t, "--load").status, KeyStatus::inert);
  EXPECT_TRUE(says(line_of(t, "--load").reason, "Megatron would read --load"));
}

TEST(MegatronSave, KeepsOurFormWhereTheirsHasNoPlace) {
  const Folders f;
  const std::vector<std::string> words{"--load", f / "a", "--save", f / "new", "--save-interval", "2"};
  Translation t = f.translated(words, "theirs have no place for it");
  Config c = config_of(t);
  EXPECT_EQ(c.checkpoint.layout, CheckpointLayout::ravine);
  EXPECT_EQ(c.model.weights, f / "a");
  EXPECT_TRUE(says(all_notices(t), "Ravine's own form: theirs have no place for it")) << all_notices(t);
  EXPECT_TRUE(says(all_notices(t), "begins at step 0"));
  fs::create_directories(f / "new/checkpoints");
  t = f.translated(words);
  EXPECT_EQ(config_of(t).checkpoint.layout, CheckpointLayout::ravine) << "it holds such already";
  EXPECT_EQ(config_of(f.translated({})).checkpoint.layout, CheckpointLayout::ravine) << "nothing is saved";
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
