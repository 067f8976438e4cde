// Tests of the disk space that a run needs: counted by hand, and compared with the files that it has written.
#include <gtest/gtest.h>

#include <filesystem>

#include "config/load.h"
#include "files/disk_space.h"
#include "runs/disk_needs.h"
#include "runs/run_folder.h"
#include "tests/unit/train_help.h"
#include "train/open_run.h"

namespace ravine {
namespace test_train_disk {

constexpr int64_t kCheckpoint = 100, kModel = 30;

// The bytes on disk over time, save by save: a new checkpoint is written next to the kept ones; then older ones are
// removed; the model is last.
DiskNeeds played(int64_t saves, int64_t keep, int64_t there) {
  int64_t n = there, peak = 0;
  for (int64_t s = 0; s < saves; ++s) {
    peak = std::max(peak, (n + 1 - there) * kCheckpoint);
    ++n;
    if (keep > 0) n = std::min(n, keep);
  }
  return {0, std::max<int64_t>(0, std::max(peak, (n - there) * kCheckpoint + kModel))};
}

TEST(DiskNeeds, EqualARunThatIsPlayed) {
  for (int64_t saves = 0; saves < 7; ++saves)
    for (int64_t keep = 0; keep < 5; ++keep)
      for (int64_t there = 0; there < 6; ++there) {
        const DiskNeeds d = disk_needs(kCheckpoint, kModel, saves, keep, there);
        EXPECT_EQ(d.most, std::max(played(saves, keep, there).most, d.least))
            << saves << " saves, keep " << keep << ", " << there << " there";
        EXPECT_EQ(d.least, played(std::min<int64_t>(saves, 1), keep, there).most)
            << saves << " saves, keep " << keep << ", " << there << " there";
      }
}

TEST(DiskNeeds, ByHand) {
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 0).most, 400);  // three, and one while it is written
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 0).least, 130);
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 0, 100).most, 500) << "a state beside what is made of it";
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 0, 100).least, 200);
  EXPECT_EQ(disk_needs(100, 30, 0, 3, 0, 100).least, 30);
  EXPECT_EQ(disk_needs(100, 130, 5, 3, 0).most, 430);  // three and a model that is larger
  EXPECT_EQ(disk_needs(100, 30, 5, 3, 3).most, 100);   // a resume
  EXPECT_EQ(disk_needs(100, 30, 5, 0, 0).most, 530);   // all are kept
  EXPECT_EQ(disk_needs(100, 30, 0, 3, 0).most, 30);    // no checkpoints
}

// The bytes of all tensors in the files of a folder, headers left out.
int64_t tensor_bytes(const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") {
      const SafetensorsReader file(entry.path().string());
      for (const TensorInfo& t : file.tensors()) bytes += t.end - t.begin;
    }
  return bytes;
}

TEST(SavedBytes, AreThoseOfTheFiles) {
  TinyRunFolder base;
  Trainer(base.config, Backend::cpu, base.log).run();
  struct Case {
    const char* what;
    std::vector<Setting> settings;
    bool new_weights = false;  // else weights of `base`, and checkpoints leave out frozen ones
  };
  const std::vector<Setting> adapter = {{"lora.rank", "2"}, {"lora.targets", "all-linear"}};
  auto with = [](std::vector<Setting> all, const std::vector<Setting>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Setting narrow{"checkpoint.model_dtype", "bf16"}, wide{"checkpoint.model_dtype", "f32"};
  for (const Case& k : std::vector<Case>{
           {"full, f32", {wide}},
           {"full, bf16", {narrow}},
           {"new, bf16", {narrow}, true},
           {"adapter, f32", with(adapter, {wide})},
           {"adapter, bf16", with(adapter, {narrow})},
           {"adapter, merged, f32", with(adapter, {wide, {"lora.merge", "true"}})},
           {"adapter, merged, bf16", with(adapter, {narrow, {"lora.merge", "true"}})},
           {"frozen", {narrow, {"train.freeze", "[\"model.layers.0.*\"]"}}},
           {"new, frozen", {wide, {"train.freeze", "[\"model.layers.0.*\"]"}}, true},
           {"full, computed in bf16", {wide, {"precision.compute", "bf16"}}},
           {"one moment", {narrow, {"optimizer.type", "lion"}}},
           {"moments of rows", {narrow, {"optimizer.type", "adafactor"}}},
       }) {
    TinyRunFolder tiny;
    const Config chosen = parse_config("", "test", k.settings);
    Config c = tiny.config;
    c.lora = chosen.lora, c.optimizer = chosen.optimizer, c.train.freeze = chosen.train.freeze;
    c.precision = chosen.precision, c.checkpoint = chosen.checkpoint;
    c.checkpoint.every = 2;
    if (!k.new_weights) c.model.config.clear(), c.model.path = base.folder / "run/model";
    SavedBytes reported;
    {
      OpenedRun run(c, tiny.log, nullptr);
      open_run(run, Backend::cpu);
      reported = run.bytes;
    }
    Trainer(c, Backend::cpu, tiny.log).run();
    EXPECT_EQ(reported.model, tensor_bytes(run_path(c, exported_name(c)))) << k.what;
    EXPECT_EQ(reported.checkpoint, tensor_bytes(run_path(c, "checkpoints/step_000004"))) << k.what;
    EXPECT_GT(reported.model, 0) << k.what;
  }
}

TEST(FreeSpace, OfWhereAFolderWillBe) {
  const auto here = free_space("."), there = free_space("no/such/folder/yet");
  ASSERT_TRUE(here.has_value() && there.has_value());
  EXPECT_GT(*here, 0);
  EXPECT_FALSE(free_space("/proc/self/none").value_or(0) > 0);
}

}  // namespace test_train_disk
}  // namespace ravine
