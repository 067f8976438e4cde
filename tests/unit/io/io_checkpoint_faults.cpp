#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "files/temporary.h"
#include "io/checkpoint.h"
#include "io/manifest.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/io_checkpoint_state.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_io_checkpoint_faults {

void save(const std::string& dir, int64_t step, int64_t rows = 3) {
  TestState live(rows);
  live.fill(step);
  CheckpointWriter writer;
  writer.save(dir, step, live.state(), 0);
  writer.wait();
  ASSERT_EQ(writer.take_warning(), std::nullopt);
}

void flip(const std::string& path, size_t offset, int bit) {
  std::string bytes = slurp(path);
  bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ (1 << bit));
  spill(path, bytes);
}

std::string refusal(const std::string& dir) {
  return message_of<UserError>([&] { CheckpointReader reader(dir, true); });
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(CheckpointFaults, EveryFlippedBitIsFound) {
  TemporaryFolder folder;
  save(folder.path(), 7);
  const std::string dir = folder / "step_000007", manifest = dir + "/manifest.json", state = dir + "/state-00000.safetensors";
  for (const std::string& path : {manifest, state}) {
    const std::string good = slurp(path);
    for (size_t i = 0; i < good.size(); i += (i < 4200 ? 41 : 97)) {
      flip(path, i, static_cast<int>(i % 8));
      const std::string text = refusal(dir);
      EXPECT_CONTAINS(text, path);
      if (::testing::Test::HasFailure()) FAIL() << path << " byte " << i;
      spill(path, good);
    }
  }
  // A flipped bit of a tensor is named by the tensor.
  const std::string good = slurp(state);
  flip(state, good.size() - 1, 0);
  EXPECT_CONTAINS(refusal(dir), state + ": tensor 'scalar'): its checksum is ");
  EXPECT_NO_THROW(CheckpointReader(dir, false));  // bytes are looked at only when verifying
}

TEST(CheckpointFaults, ALatestThatCannotBeWritten) {
  TemporaryFolder folder;
  save(folder.path(), 3);
  fs::remove(folder / "latest");
  fs::create_directories(folder / "latest");  // no file can take this name
  TestState live(3);
  live.fill(4);
  CheckpointWriter writer;
  writer.save(folder.path(), 4, live.state(), 1);
  writer.wait();
  const std::string message = writer.take_warning().value_or("");
  EXPECT_CONTAINS(message, "checkpoint step_000004 is saved, but");
  EXPECT_EQ(message.find("not saved"), std::string::npos) << message;
  const auto saved = writer.take_saved();
  ASSERT_TRUE(saved.has_value());
  EXPECT_EQ(saved->step, 4);
  EXPECT_TRUE(folder.has("step_000003"));
  EXPECT_EQ(newest_checkpoint(folder.path(), [](const std::string&) {}), folder / "step_000004");
  save(folder.path(), 5);
  EXPECT_EQ(latest_step(folder.path()), 5);
}

TEST(CheckpointFaults, PaddingIsCheckedToo) {
  TemporaryFolder folder;
  std::vector<std::byte> small(40);
  Storage large(DeviceKind::cpu, 2 << 20);
  TrainState s;
  s.tensors.push_back({"small", view_of(small.data(), DType::u8, {40}), {40}, {}, 0});
  s.tensors.push_back({"large", view_of(large.data(), DType::u8, {2 << 20}), {2 << 20}, {}, 0});
  CheckpointWriter writer;
  writer.save(folder.path(), 1, s, 0);
  writer.wait();
  const std::string file = folder / "step_000001/state-00000.safetensors";
  CheckpointReader(folder / "step_000001", true);
  flip(file, 4096 + 50, 3);
  EXPECT_CONTAINS(refusal(folder / "step_000001"), file + ": tensor '~pad.0'): padding must be zero");
}

TEST(CheckpointFaults, FilesMissingOrOfAnotherSize) {
  TemporaryFolder folder;
  save(folder.path(), 7);
  const std::string dir = folder / "step_000007", manifest = dir + "/manifest.json", state = dir + "/state-00000.safetensors";
  const std::string good = slurp(state);
  for (size_t size : {size_t{0}, size_t{5}, size_t{4000}, good.size() - 1}) {
    spill(state, good.substr(0, size));
    EXPECT_CONTAINS(refusal(dir), fmt::format("checkpoint is damaged ({}): the file has {} bytes, the manifest says {}", state,
                                              size, good.size()));
  }
  spill(state, good + "x");
  EXPECT_CONTAINS(refusal(dir), "the file has");
  fs::remove(state);
  EXPECT_CONTAINS(refusal(dir), state + "): the file is missing");
  fs::create_directory(state);
  EXPECT_CONTAINS(refusal(dir), state + "): it must be a regular file");
  fs::remove(manifest);
  EXPECT_CONTAINS(refusal(dir), manifest + "): the file is missing");
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("{\"checksum\":\"0000000000000000\""), std::string(5000, 'x')}) {
    spill(manifest, text);
    EXPECT_CONTAINS(refusal(dir), "checkpoint is damaged (" + manifest);
  }
  EXPECT_CONTAINS(refusal(folder / "nothing"), "cannot open checkpoint (" + (folder / "nothing"));
}

// False manifests with a right checksum.
TEST(CheckpointFaults, LyingManifests) {
  struct Lie {
    const char* expected;
    std::function<void(Json&)> falsify;
  };
  const std::vector<Lie> lies = {
      {"another format (", [](Json& j) { j["version"] = 3; }},
      {"'version' must be a whole number", [](Json& j) { j["version"] = "1"; }},
      {"'format' must be", [](Json& j) { j["format"] = "other"; }},
      {"key 'format' is missing", [](Json& j) { j.erase("format"); }},
      {"key 'step' says 8", [](Json& j) { j["step"] = 8; }},
      {"'step' must be a whole number", [](Json& j) { j["step"] = -1; }},
      {"'step' must be a whole number", [](Json& j) { j["step"] = 1e300; }},
      {"'step' must be a whole number", [](Json& j) { j["step"] = uint64_t{18446744073709551615u}; }},
      {"'scalars' must be an object", [](Json& j) { j["scalars"] = 3; }},
      {"'files' must be an array", [](Json& j) { j["files"] = Json::object(); }},
      {"it must be an object", [](Json& j) { j["files"][0] = 1; }},
      {"must be plain and occur once", [](Json& j) { j["files"][0]["name"] = "../state-00000.safetensors"; }},
      {"must be plain and occur once", [](Json& j) { j["files"].push_back(j["files"][0]); }},
      {"file is missing", [](Json& j) { j["files"][0]["name"] = "state-00001.safetensors"; }},
      {"the manifest says 1", [](Json& j) { j["files"][0]["bytes"] = 1; }},
      {"checksum of its header", [](Json& j) { j["files"][0]["header"] = "0123456789abcdef"; }},
      {"checksum of 16 digits", [](Json& j) { j["files"][0]["header"] = "0123"; }},
      {"tensor 'w.layer0'): it is described twice", [](Json& j) { j["tensors"].push_back(j["tensors"][0]); }},
      {"tensor 'w.layer0'): its type 'F33'", [](Json& j) { j["tensors"][0]["dtype"] = "F33"; }},
      {"tensor 'w.layer0'): it is f32 [3, 48], the manifest says i32", [](Json& j) { j["tensors"][0]["dtype"] = "I32"; }},
      {"at most 5 numbers", [](Json& j) { j["tensors"][0]["shape"] = {1, 1, 1, 1, 1, 144}; }},
      {"is too large",
       [](Json& j) {
         j["tensors"][0]["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
       }},
      {"tensor 'w.layer0': slices hold 144 of the 192",
       [](Json& j) {
         j["tensors"][0]["shape"] = {4, 48};
       }},
      {"tensor 'w.layer0': slice [0:3, 0:48] lies outside",
       [](Json& j) {
         j["tensors"][0]["shape"] = {3, 47};
       }},
      {"tensor 'w.layer0': slice [1:4, 0:48] lies outside",
       [](Json& j) {
         j["tensors"][0]["slices"][0]["begin"] = {1, 0};
       }},
      {"tensor 'w.layer0': slice [3, 48] has another number of dims",
       [](Json& j) { j["tensors"][0]["slices"][0]["begin"] = {0}; }},
      {"tensor 'w.layer0': slices [0:3, 0:48] and [0:3, 0:48] overlap",
       [](Json& j) {
         j["tensors"][0]["slices"].push_back(j["tensors"][0]["slices"][0]);
         j["tensors"][0]["slices"][1]["stored"] = "other";
       }},
      {"tensor 'w.layer0'): stored tensor 'w.layer0' is used twice",
       [](Json& j) { j["tensors"][0]["slices"].push_back(j["tensors"][0]["slices"][0]); }},
      {"tensor 'w.layer0'): it names file 1 of 1", [](Json& j) { j["tensors"][0]["slices"][0]["file"] = 1; }},
      {"tensor 'other'): the manifest says that this file holds it",
       [](Json& j) { j["tensors"][0]["slices"][0]["stored"] = "other"; }},
      {"it is f32 [3, 48], the manifest says f32 [48, 3]",
       [](Json& j) {
         j["tensors"][0]["shape"] = j["tensors"][0]["slices"][0]["shape"] = {48, 3};
       }},
      {"tensor 'w.layer0'): its checksum is", [](Json& j) { j["tensors"][0]["slices"][0]["checksum"] = "0123456789abcdef"; }},
      {"it holds 13 tensors, the manifest knows 12", [](Json& j) { j["tensors"].erase(0); }},
  };
  TemporaryFolder folder;
  save(folder.path(), 7);
  const std::string dir = folder / "step_000007", manifest = dir + "/manifest.json", good = slurp(manifest);
  for (const Lie& lie : lies) {
    Json j = Json::parse(good);
    lie.falsify(j);
    spill(manifest, seal_manifest(j.dump()));
    const std::string text = refusal(dir);
    EXPECT_CONTAINS(text, lie.expected);
    EXPECT_CONTAINS(text, dir);
  }
  Json j = Json::parse(good);
  spill(manifest, seal_manifest(j.dump()));
  EXPECT_NO_THROW(CheckpointReader(dir, true));  // the frame of these lies is sound
  // A scalar that was changed by hand is found by the checksum.
  j["scalars"]["lr"] = 1;
  spill(manifest, j.dump());
  EXPECT_CONTAINS(refusal(dir), "its checksum is");
}

TEST(CheckpointFaults, ReadsThatDoNotFit) {
  TemporaryFolder folder;
  save(folder.path(), 7);
  const CheckpointReader reader(folder / "step_000007", false);
  std::vector<double> room(3 * 48);
  const Shape global{3, 48};
  auto read = [&](const std::string& name, DType t, Shape shape, Shape whole, std::vector<int64_t> begin) {
    reader.read(name, view_of(room.data(), t, shape), whole, begin);
  };
  EXPECT_CONTAINS(message_of<UserError>([&] { read("w.layer9", DType::f32, global, global, {}); }),
                  "missing tensor (" + (folder / "step_000007") + ": tensor 'w.layer9')");
  EXPECT_CONTAINS(message_of<UserError>([&] { read("w.layer0", DType::f64, global, global, {}); }),
                  "it is f32, this run needs f64");
  EXPECT_CONTAINS(message_of<UserError>([&] {
                    read("w.layer0", DType::f32, {3, 40}, {3, 40}, {});
                  }),
                  "it is [3, 48], this run needs [3, 40]");
  EXPECT_CONTAINS(message_of<Error>([&] { read("w.layer0", DType::f32, global, global, {1, 0}); }), "lies inside [3, 48]");
}

TEST(CheckpointFaults, ADamagedNewestIsNamedAndTheOneBeforeUsed) {
  TemporaryFolder folder;
  for (int64_t step : {10, 20, 30}) save(folder.path(), step);
  std::vector<std::string> warnings;
  auto warn = [&](const std::string& w) { warnings.push_back(w); };
  EXPECT_EQ(newest_checkpoint(folder.path(), warn), folder / "step_000030");
  EXPECT_TRUE(warnings.empty());
  flip(folder / "step_000030/state-00000.safetensors", 5000, 0);
  EXPECT_EQ(newest_checkpoint(folder.path(), warn), folder / "step_000020");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_CONTAINS(warnings[0], folder / "step_000030/state-00000.safetensors");
  warnings.clear();
  fs::remove_all(folder / "step_000030");
  EXPECT_EQ(newest_checkpoint(folder.path(), warn), folder / "step_000020");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_CONTAINS(warnings[0], "latest names step_000030, which is not there");
  warnings.clear();
  spill(folder / "latest", "../../etc");
  EXPECT_EQ(newest_checkpoint(folder.path(), warn), folder / "step_000020");
  fs::create_directory(folder / "step_000050.tmp");  // not a checkpoint's name
  fs::create_directory(folder / "step_50");
  EXPECT_EQ(newest_checkpoint(folder.path(), warn), folder / "step_000020");
  EXPECT_TRUE(warnings.empty());
  for (int64_t step : {10, 20}) fs::remove(folder.path() + "/" + checkpoint_name(step) + "/manifest.json");
  EXPECT_CONTAINS(message_of<UserError>([&] { newest_checkpoint(folder.path(), warn); }),
                  "no checkpoint can be used (" + folder.path() + "): all 2 are damaged");
}

TEST(CheckpointFaults, DiskFullLosesNothing) {
  TemporaryFolder folder;
  const int64_t rows = 3000;
  TestState live(rows), back(rows);
  live.fill(1);
  CheckpointWriter writer;
  writer.save(folder.path(), 1, live.state(), 1);
  writer.wait();
  rlimit before{}, tight{};
  getrlimit(RLIMIT_FSIZE, &before);
  tight = before;
  tight.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &tight);
  writer.save(folder.path(), 2, live.state(), 1);
  for (size_t unit = 0; unit < 3; ++unit) writer.wait_unit(unit);  // comes back, or training would stand still
  writer.wait();
  setrlimit(RLIMIT_FSIZE, &before);
  const std::string text = writer.take_warning().value_or("");
  EXPECT_CONTAINS(text, "checkpoint step_000002 was not saved, earlier ones are untouched");
  EXPECT_CONTAINS(text, "the limit on file sizes of this process is 1.0 MiB (ulimit -f)");
  EXPECT_CONTAINS(text, folder / "step_000002");
  EXPECT_EQ(writer.take_warning(), std::nullopt);
  EXPECT_EQ(folder.count(), 2);  // latest and step_000001
  back.load(CheckpointReader(*newest_checkpoint(folder.path(), [](auto& w) { ADD_FAILURE() << w; }), true));
  EXPECT_EQ(back.difference(1), "");
  live.fill(3);
  writer.save(folder.path(), 3, live.state(), 1);  // room again
  writer.wait();
  EXPECT_EQ(writer.take_warning(), std::nullopt);
  EXPECT_TRUE(folder.has("step_000003") && !folder.has("step_000001"));
}

TEST(CheckpointFaults, AFolderThatCannotBeWrittenIsAWarning) {
  TemporaryFolder folder;
  spill(folder / "c", "a file");
  TestState live(2);
  CheckpointWriter writer;
  writer.save(folder / "c", 1, live.state(), 1);
  writer.wait();
  EXPECT_CONTAINS(writer.take_warning().value_or(""), folder / "c/step_000001");
}

TEST(CheckpointFaults, WrongStateIsRefusedAtOnce) {
  TemporaryFolder folder;
  CheckpointWriter writer;
  std::vector<float> x(6);
  auto text = [&](std::vector<StateTensor> tensors) {
    TrainState s;
    s.tensors = std::move(tensors);
    return message_of<Error>([&] { writer.save(folder.path(), 1, s, 1); });
  };
  const TensorView v = view_of(x.data(), DType::f32, {3, 2});
  EXPECT_CONTAINS(text({{"x", v, {4, 2}, {}, 0}}), "'x': slices hold 6 of the 8");
  EXPECT_CONTAINS(text({{"x", v, {3, 2}, {}, 0}, {"x", v, {3, 2}, {}, 0}}), "'x': slices [0:3, 0:2] and [0:3, 0:2] overlap");
  EXPECT_CONTAINS(text({{"x", v, {3, 2}, {1, 0}, 0}}), "got 'x' [3, 2] in [3, 2]");
  EXPECT_CONTAINS(text({{"x", v, {6}, {}, 0}}), "got 'x' [3, 2] in [6]");
  EXPECT_CONTAINS(text({{"x", v.columns(0, 1), {3, 1}, {}, 0}}), "contiguous");
  EXPECT_CONTAINS(text({{"~pad.0", v, {3, 2}, {}, 0}}), "reserved");
  EXPECT_EQ(folder.count(), 0);
}

// Returns the warning of a save, after waiting for it; "" if none.
std::string warning_of_save(CheckpointWriter& writer, const TemporaryFolder& folder, TestState& live, int64_t step,
                            int64_t keep) {
  writer.save(folder.path(), step, live.state(), keep);
  writer.wait();
  return writer.take_warning().value_or("");
}

TEST(CheckpointFaults, FilesOfOthersInACheckpointStay) {
  TemporaryFolder folder;
  TestState live(2);
  CheckpointWriter writer;
  auto warning_of = [&](int64_t step, int64_t keep) { return warning_of_save(writer, folder, live, step, keep); };
  EXPECT_EQ(warning_of(1, 1), "");
  spill(folder / "step_000001/notes.txt", "dear");
  EXPECT_CONTAINS(warning_of(2, 1), "checkpoint step_000001 stays, it holds 'notes.txt'");
  EXPECT_EQ(slurp(folder / "step_000001/notes.txt"), "dear");
  CheckpointReader(folder / "step_000001", true);
  spill(folder / "step_000002/notes.txt", "dear");
  const std::string before = slurp(folder / "step_000002/manifest.json");
  EXPECT_CONTAINS(warning_of(2, 0), "was not saved");
  EXPECT_EQ(slurp(folder / "step_000002/notes.txt"), "dear");
  EXPECT_EQ(slurp(folder / "step_000002/manifest.json"), before);
  EXPECT_EQ(warning_of(3, int64_t{4294967297}), "");  // more than an int holds
  EXPECT_TRUE(folder.has("step_000001") && folder.has("step_000002") && folder.has("step_000003"));
  EXPECT_EQ(folder.count(), 4);
}

TEST(CheckpointFaults, AWriteProtectedCheckpointStays) {
  TemporaryFolder folder;
  TestState live(2);
  CheckpointWriter writer;
  auto warning_of = [&](int64_t step, int64_t keep) { return warning_of_save(writer, folder, live, step, keep); };
  for (int64_t step : {1, 2, 3}) EXPECT_EQ(warning_of(step, 0), "");
  const auto write = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  fs::permissions(folder / "step_000001", write, fs::perm_options::remove);
  fs::permissions(folder / "step_000002/manifest.json", write, fs::perm_options::remove);
  const std::string message = warning_of(4, 1);
  EXPECT_CONTAINS(message, "checkpoint step_000001 stays, it is write-protected");
  EXPECT_CONTAINS(message, "checkpoint step_000002 stays, it is write-protected");
  EXPECT_FALSE(folder.has("step_000003"));
  for (const char* name : {"step_000001", "step_000002"}) EXPECT_NO_THROW(CheckpointReader(folder / name, true));
  EXPECT_CONTAINS(warning_of(1, 0), "it is write-protected");  // nor is it replaced
  EXPECT_NO_THROW(CheckpointReader(folder / "step_000001", true));
  EXPECT_EQ(folder.count(), 4) << "and nothing lies there under other names";
  fs::permissions(folder / "step_000001", fs::perms::owner_all);
}

// Steps whose folders are there.
std::vector<int64_t> steps_in(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const auto step = checkpoint_step(entry.path().filename().string())) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

TEST(CheckpointFaults, DamagedOnesAreNotCountedAmongThoseThatAreKept) {
  using Steps = std::vector<int64_t>;
  TemporaryFolder folder;
  TestState live(2);
  auto save = [&](CheckpointWriter& writer, int64_t step, int64_t keep) {
    writer.save(folder.path(), step, live.state(), keep);
    writer.wait();
    return writer.take_warning().value_or("");
  };
  {
    CheckpointWriter writer;
    for (int64_t step : {1, 2, 3, 4}) EXPECT_EQ(save(writer, step, 0), "");
    std::string state = slurp(folder / "step_000004/state-00000.safetensors");
    state[state.size() - 1] ^= 1;
    spill(folder / "step_000004/state-00000.safetensors", state);
    spill(folder / "step_000003/manifest.json", "{");
    // For its own checkpoints it checks sizes and headers only: the next process finds the flipped bit, since it reads
    // them whole.
    EXPECT_CONTAINS(save(writer, 5, 3), "step_000003/manifest.json");
    EXPECT_EQ(steps_in(folder.path()), (Steps{2, 3, 4, 5})) << "5, 4 and 2 are kept, the damaged 3 lies among them";
  }
  CheckpointWriter writer;
  EXPECT_CONTAINS(save(writer, 6, 3), "step_000004/state-00000.safetensors");
  EXPECT_EQ(steps_in(folder.path()), (Steps{2, 3, 4, 5, 6})) << "the last sound ones stay";
  EXPECT_EQ(save(writer, 7, 2), "") << "it is said once";
  EXPECT_EQ(steps_in(folder.path()), (Steps{6, 7}));
}

TEST(CheckpointFaults, OnlyTheLineThatLedHereIsCounted) {
  const CheckpointLine first{"a", {}}, second = first.gone_on("b", 4), third = second.gone_on("c", 6);
  EXPECT_TRUE(third.holds("c", 100) && third.holds("b", 6) && third.holds("a", 4));
  EXPECT_FALSE(third.holds("b", 7) || third.holds("a", 5) || third.holds("", 1) || third.holds("d", 1));
  EXPECT_EQ(CheckpointLine::from_scalars({{"line", third.json()}}).json(), third.json());
  for (const Json& scalars : {Json::object(), Json{{"line", 1}}, Json{{"line", {{"process", 1}, {"before", Json::array()}}}},
                              Json{{"line", {{"process", "x"}, {"before", {1}}}}}}) {
    const CheckpointLine none = CheckpointLine::from_scalars(scalars);
    EXPECT_TRUE(none.process.empty() && none.before.empty()) << scalars;
    EXPECT_TRUE(none.gone_on("c", 3).holds("", 3)) << "what older programs have written up to there";
  }
  TemporaryFolder folder;
  TestState live(2);
  CheckpointWriter writer;
  auto save = [&](int64_t step, const CheckpointLine& line, int64_t keep) {
    TrainState state = live.state();
    state.scalars["line"] = line.json();
    writer.save(folder.path(), step, state, keep);
    writer.wait();
    EXPECT_EQ(writer.take_warning(), std::nullopt);
  };
  for (int64_t step : {2, 4, 6}) save(step, first, 0);
  save(5, second, 0);
  save(7, first.gone_on("c", 4), 2);  // 5 and 6 are of branches that were left
  EXPECT_EQ(steps_in(folder.path()), (std::vector<int64_t>{4, 5, 6, 7}));
  save(8, first.gone_on("c", 4), 2);
  EXPECT_EQ(steps_in(folder.path()), (std::vector<int64_t>{7, 8}));
}

// Rank 0 fails and gives up; rank 1 comes late with its part; the step is saved again.
TEST(CheckpointFaults, ALateRanksPartIsNotTakenForOneOfTheNextSave) {
  TemporaryFolder folder;
  std::vector<float> values[2];
  auto state_of_rank = [&](int rank, float value) {
    values[rank].assign(1 << 19, value);
    TrainState s;
    s.tensors.push_back({"x", view_of(values[rank].data(), DType::f32, {1 << 19}), {1 << 20}, {rank * (int64_t{1} << 19)}, 0});
    return s;
  };
  CheckpointWriter first(0, 2, 7), late(1, 2, 7);
  rlimit before{}, tight{};
  getrlimit(RLIMIT_FSIZE, &before);
  tight = before;
  tight.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &tight);
  first.save(folder.path(), 5, state_of_rank(0, 1), 0);
  first.wait();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_CONTAINS(first.take_warning().value_or(""), "was not saved");
  late.save(folder.path(), 5, state_of_rank(1, 1), 0);
  late.wait();
  first.save(folder.path(), 5, state_of_rank(0, 2), 0);
  EXPECT_FALSE(first.wait_part());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_FALSE(folder.has("step_000005")) << "it did not wait for the part of this save";
  EXPECT_EQ(first.take_warning(), std::nullopt);
  late.save(folder.path(), 5, state_of_rank(1, 2), 0);
  late.wait();
  first.wait();
  EXPECT_EQ(first.take_warning(), std::nullopt);
  std::vector<float> got(1 << 20);
  CheckpointReader(folder / "step_000005", true).read("x", view_of(got.data(), DType::f32, {1 << 20}), {1 << 20}, {});
  EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float x) { return x == 2; }));
  clean_leftovers(folder.path());
  EXPECT_EQ(folder.count(), 2);
}

TEST(CheckpointFaults, LeftoversAreRemoved) {
  TemporaryFolder folder;
  save(folder.path(), 10);
  for (const char* name : {"step_000020", "step_000020.parts", "step_000005"})
    fs::create_directories(temporary_path(folder / name, random_digits()));
  const std::string old = temporary_path(folder / "step_000010", random_digits(), true),
                    cut = temporary_path(folder / "step_000005", random_digits());
  for (const std::string& path : {old, cut})
    fs::create_directories(path),
        spill(path + "/state-00000.safetensors", "part");  // of the first: it has its name, so this is the old one
  spill(temporary_path(cut + "/manifest.json", random_digits()), "part");
  const std::string theirs = temporary_path(folder / "step_000007", random_digits()),
                    conversion = temporary_path(folder / "big", random_digits());
  for (const std::string& path : {theirs, conversion}) fs::create_directories(path), spill(path + "/notes.txt", "dear");
  fs::create_directory(folder / "step_000020.tmp");  // somebody's
  clean_leftovers(folder.path());
  EXPECT_EQ(slurp(theirs + "/notes.txt"), "dear") << "put into a checkpoint while it was replaced";
  EXPECT_EQ(slurp(conversion + "/notes.txt"), "dear") << "no checkpoint's";
  fs::remove_all(theirs), fs::remove_all(conversion);
  EXPECT_EQ(folder.count(), 3);
  EXPECT_TRUE(folder.has("step_000020.tmp"));
  fs::rename(folder / "step_000010", temporary_path(folder / "step_000010", random_digits(), true));
  clean_leftovers(folder.path());
  EXPECT_NO_THROW(CheckpointReader(folder / "step_000010", true));
  clean_leftovers(folder / "nothing");
}

}  // namespace test_io_checkpoint_faults
