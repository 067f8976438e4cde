// checkpoint.layout=megatron without a run: refusals, the checkpoint to resume from, and folders that may be replaced.
#include "styles/megatron_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "styles/step_folders.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_megatron_files {

namespace fs = std::filesystem;

Config config(const std::string& output = "out") {
  Config c;
  c.model.config =
      R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5})";
  c.optimizer.type = OptimizerType::adamw;
  c.checkpoint.layout = CheckpointLayout::megatron;
  c.train.output = output, c.train.steps = 8;
  return c;
}

std::string error_text(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

void step(const std::string& output, int64_t n, const std::string& run = "") {
  const std::string folder = output + fmt::format("/iter_{:07}", n);
  fs::create_directories(folder + "/mp_rank_00");
  spill(folder + "/mp_rank_00/model_optim_rng.pt", "x");
  if (!run.empty()) mark_as_made(folder, run, fs::path(folder).filename().string());
}

void track(const std::string& output, const std::string& text) { spill(output + "/latest_checkpointed_iteration.txt", text); }

TEST(MegatronFiles, RefusesWhatTheyHaveNoFieldFor) {
  const auto files = megatron_files();
  EXPECT_EQ(error_text([&] { files->check(config()); }), "");
  EXPECT_EQ(beyond_megatron_files(config()), "");
  const std::pair<std::function<void(Config&)>, const char*> rows[] = {
      {[](Config& c) { c.optimizer.type = OptimizerType::sgd; }, "optimizer.type sgd"},
      {[](Config& c) { c.lora.rank = 2, c.lora.targets = {"q_proj"}; }, "an adapter"},
      {[](Config& c) { c.parallel.zero = 2; }, "set parallel.zero=1"},
      {[](Config& c) { c.parallel.expert = 2; }, "parallel.expert 2"},
      {[](Config& c) { c.train.freeze = {"*norm*"}; }, "train.freeze"},
      {[](Config& c) { c.optimizer.groups.emplace_back(); }, "optimizer.groups"},
      {[](Config& c) { c.precision.compute = DType::f64; }, "f64"},
      {[](Config& c) { c.health.embedding_norm = 1; }, "health.embedding_norm"},
      {[](Config& c) { c.parallel.tensor = 4; }, "key/value heads"},
      {[](Config& c) {
         c.model.config = R"({"model_type": "gemma2", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 256, "max_position_embeddings": 64})";
       },
       "norms behind attention"},
  };
  for (const auto& [change, words] : rows) {
    Config c = config();
    change(c);
    const std::string text = error_text([&] { files->check(c); });
    EXPECT_TRUE(contains(text, words) && contains(text, "checkpoint.layout=ravine")) << words << ": " << text;
    EXPECT_TRUE(contains(beyond_megatron_files(c), "no place for")) << words << ": " << beyond_megatron_files(c);
  }
  Config adam = config(), one = config(), no_model = config();
  adam.optimizer.type = OptimizerType::adam, one.parallel.zero = 1, no_model.model.config = "{}";
  EXPECT_EQ(error_text([&] { files->check(adam), files->check(one); }), "");
  EXPECT_EQ(beyond_megatron_files(no_model), "") << "whoever opens it says what is wrong";
  EXPECT_NE(error_text([&] { files->check(no_model); }), "");
}

TEST(MegatronFiles, GoesOnFromWhatTheTrackerNames) {
  TemporaryFolder f;
  const auto files = megatron_files();
  const std::string out = f / "out";
  Config c = config(out);
  const auto from = [&](const std::string& resume) {
    c.checkpoint.resume = resume;
    return files->to_resume(c);
  };
  const auto refusal = [&](const std::string& resume) { return error_text([&] { from(resume); }); };
  EXPECT_EQ(from("auto"), "") << "nothing is there";
  EXPECT_EQ(files->newest_step(out), -1);
  step(out, 2), step(out, 4);
  EXPECT_EQ(from("auto"), "") << "a folder that the tracker does not name is none";
  track(out, "2\n");
  EXPECT_EQ(from("auto"), out + "/iter_0000002");
  EXPECT_EQ(from(out), out + "/iter_0000002");
  EXPECT_EQ(from(out + "/iter_0000004"), out + "/iter_0000004");
  EXPECT_EQ(from("none"), "");
  EXPECT_EQ(files->newest_step(out), 2);
  track(out, "3");
  EXPECT_TRUE(contains(refusal("auto"), "iter_0000003"));
  EXPECT_EQ(files->newest_step(out), 3);
  track(out, "../../etc");
  EXPECT_TRUE(contains(refusal("auto"), "bad tracker file"));
  EXPECT_EQ(files->newest_step(out), -1);
  track(out, "release");
  fs::create_directories(out + "/release/mp_rank_00");
  EXPECT_EQ(from("auto"), "") << "weights alone";
  EXPECT_TRUE(contains(refusal(out), "model.weights=" + out));
  EXPECT_TRUE(contains(refusal(f / "gone"), "no such folder"));
  EXPECT_TRUE(contains(refusal(f.path()), "no checkpoint of Megatron"));
  spill(f / "manifest.json", "{}");
  EXPECT_TRUE(contains(refusal(f.path()), "checkpoint.layout=ravine"));
}

TEST(MegatronFiles, LaterStepsOfOthersStopARun) {
  TemporaryFolder f;
  const auto files = megatron_files();
  const std::string out = f / "out";
  Config c = config(out);
  const auto refusal = [&] { return error_text([&] { files->check_folder(c, "me"); }); };
  step(out, 2), step(out, 4), step(out, 6, "me"), step(out, 10);
  track(out, "4");
  EXPECT_EQ(refusal(), "") << "2 and 4 lie behind, 6 is its own, 10 beyond its last step";
  track(out, "2");
  EXPECT_TRUE(contains(refusal(), "iter_0000004")) << refusal();
  c.checkpoint.resume = out + "/iter_0000004";
  EXPECT_EQ(refusal(), "");
  spill(out + "/iter_0000006/notes.txt", "mine");
  EXPECT_TRUE(contains(refusal(), "iter_0000006"));
  c.train.steps = 10, fs::remove(out + "/iter_0000006/notes.txt");
  EXPECT_TRUE(contains(refusal(), "iter_0000010"));
  c.checkpoint.resume = "none", c.train.steps = 2;
  EXPECT_TRUE(contains(refusal(), "iter_0000002")) << "a run that begins replaces none of others";
}

}  // namespace test_megatron_files
}  // namespace ravine
