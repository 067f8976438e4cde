#include "io/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "files/safetensors.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/io_checkpoint_state.h"

using namespace ravine;

namespace test_io_checkpoint {

void no_warning(const std::string& text) { ADD_FAILURE() << text; }

TEST(Checkpoint, RoundTripIsBitwise) {
  for (int64_t rows : {1, 7, 4000}) {  // below, and above, what goes straight to disk
    TemporaryFolder folder;
    TestState live(rows), back(rows);
    live.fill(200);
    CheckpointWriter writer;
    EXPECT_FALSE(newest_checkpoint(folder.path() + "/c", no_warning));
    writer.save(folder / "c", 200, live.state(), 3);
    writer.wait();
    EXPECT_EQ(writer.take_warning(), std::nullopt);
    EXPECT_EQ(slurp(folder / "c/latest"), "step_000200\n");
    const auto newest = newest_checkpoint(folder / "c", no_warning);
    ASSERT_EQ(newest, folder / "c/step_000200");
    const CheckpointReader reader(*newest, true);
    back.load(reader);
    EXPECT_EQ(back.difference(200), "");
    EXPECT_EQ(reader.step(), 200);
    EXPECT_EQ(reader.scalars(), live.state().scalars);
    EXPECT_EQ(reader.scalars()["lr"].get<double>(), 0.1 + 0.2);
    EXPECT_EQ(reader.scalars()["seed"].get<uint64_t>(), 18446744073709551615u);
    EXPECT_EQ(reader.program() + reader.instructions(), "ravine testavx2");
    EXPECT_EQ(reader.names().front(), "w.layer0");
    EXPECT_EQ(reader.names().size(), 12u);
    EXPECT_EQ(reader.dtype("odd"), DType::bf16);
    EXPECT_EQ(reader.shape("w.layer1"), (Shape{rows, 48}));
    // The state file is one that any reader of the format takes, in buffer order, from a whole block on.
    const SafetensorsReader file(*newest + "/state-00000.safetensors");
    EXPECT_EQ(file.data_begin() % 4096, 0);
    int order = 0;
    for (const auto& t : file.tensors())
      if (!t.name.starts_with("~pad.") && order < 9) {
        const std::string expected = fmt::format("{}.layer{}", std::string("wmv")[order % 3], order / 3);
        EXPECT_EQ(t.name, expected);
        ++order;
      }
  }
}

TEST(Checkpoint, KeepsTheNewest) {
  TemporaryFolder folder;
  TestState live(3);
  CheckpointWriter writer;
  for (int64_t step : {10, 20, 30, 40}) {
    live.fill(step);
    writer.save(folder.path(), step, live.state(), 2);
    writer.wait();
  }
  EXPECT_FALSE(folder.has("step_000010") || folder.has("step_000020"));
  EXPECT_TRUE(folder.has("step_000030") && folder.has("step_000040"));
  EXPECT_EQ(folder.count(), 3);
  // A run taken up again from step 30 replaces nothing newer that it does not reach, and resumes from its own.
  live.fill(35);
  writer.save(folder.path(), 35, live.state(), 2);
  writer.wait();
  EXPECT_TRUE(folder.has("step_000030") && folder.has("step_000035") && folder.has("step_000040"));
  EXPECT_EQ(newest_checkpoint(folder.path(), no_warning), folder / "step_000035");
  // The same step again: the new one takes its place.
  live.fill(36);
  auto state = live.state();
  state.scalars["again"] = true;
  writer.save(folder.path(), 35, state, 0);
  writer.wait();
  EXPECT_EQ(writer.take_warning(), std::nullopt);
  EXPECT_EQ(CheckpointReader(folder / "step_000035", true).scalars().count("again"), 1u);
  EXPECT_EQ(folder.count(), 4);
}

TEST(Checkpoint, UpdatesWaitForTheirUnit) {
  TemporaryFolder folder;
  const int64_t rows = 40000;  // 22 MiB a unit: still being written while the first is overwritten
  TestState live(rows), back(rows);
  CheckpointWriter writer;
  live.fill(1);
  for (int64_t step = 1; step <= 4; ++step) {
    writer.save(folder.path(), step, live.state(), 1);
    for (size_t unit = 0; unit < 3; ++unit) {
      writer.wait_unit(unit);
      live.fill_unit(unit, step + 1);
    }
    live.fill(step + 1);  // unit 2 was waited for, and with it what lies outside
    writer.wait();
    EXPECT_EQ(writer.take_warning(), std::nullopt);
    const CheckpointReader reader(*newest_checkpoint(folder.path(), no_warning), true);
    back.load(reader);
    EXPECT_EQ(back.difference(step), "");
  }
}

// Four ranks write slices by rows (and one tensor by columns); two and one read them.
TEST(Checkpoint, AnyLayoutReadsAnyOther) {
  TemporaryFolder folder;
  const Shape global{8, 12};
  std::vector<float> whole(96), columns(96);
  for (size_t i = 0; i < 96; ++i) whole[i] = static_cast<float>(i), columns[i] = static_cast<float>(1000 + i);
  std::vector<std::vector<float>> parts;
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  std::vector<TrainState> states(4);
  for (int64_t r = 0; r < 4; ++r) {
    auto& rows = parts.emplace_back(whole.begin() + r * 24, whole.begin() + (r + 1) * 24);
    states[r].tensors.push_back({"rows", view_of(rows.data(), DType::f32, {2, 12}), global, {2 * r, 0}, 0});
    std::vector<float> cut;
    for (int64_t i = 0; i < 8; ++i)
      cut.insert(cut.end(), columns.begin() + i * 12 + 3 * r, columns.begin() + i * 12 + 3 * r + 3);
    parts.push_back(cut);
    states[r].tensors.push_back({"columns", view_of(parts.back().data(), DType::f32, {8, 3}), global, {0, 3 * r}, 1});
    if (r == 2) states[r].tensors.push_back({"alone", view_of(parts.back().data(), DType::f32, {24}), {24}, {}, 1});
    writers.push_back(std::make_unique<CheckpointWriter>(static_cast<int>(r), 4));
  }
  writers[0]->save(folder.path(), 5, states[0], 1);
  writers[0]->wait_unit(0);  // its own part is written, but without the others nothing is complete
  writers[0]->wait_unit(1);
  EXPECT_FALSE(writers[0]->wait_part());
  EXPECT_FALSE(folder.has("step_000005"));
  for (size_t r = 1; r < 4; ++r) writers[r]->save(folder.path(), 5, states[r], 1);
  for (auto& w : writers) w->wait();
  for (auto& w : writers) EXPECT_EQ(w->take_warning(), std::nullopt);
  EXPECT_EQ(folder.count(), 2);  // latest and step_000005: the folder of the parts is gone
  const CheckpointReader reader(*newest_checkpoint(folder.path(), no_warning), true);
  for (auto& [name, truth] : {std::pair{"rows", whole}, {"columns", columns}}) {
    std::vector<float> one(96);
    reader.read(name, view_of(one.data(), DType::f32, global), global, {});
    EXPECT_EQ(one, truth);
    for (int64_t half = 0; half < 2; ++half) {
      std::vector<float> two(48), side(48), expected;
      reader.read(name, view_of(two.data(), DType::f32, {4, 12}), global, {4 * half, 0});
      EXPECT_TRUE(std::equal(two.begin(), two.end(), truth.begin() + half * 48)) << name;
      reader.read(name, view_of(side.data(), DType::f32, {8, 6}), global, {0, 6 * half});
      for (int64_t i = 0; i < 8; ++i)
        expected.insert(expected.end(), truth.begin() + i * 12 + 6 * half, truth.begin() + i * 12 + 6 * half + 6);
      EXPECT_EQ(side, expected) << name;
    }
    std::vector<float> middle(6);
    reader.read(name, view_of(middle.data(), DType::f32, {3, 2}), global, {3, 5});
    EXPECT_EQ(middle, (std::vector<float>{truth[41], truth[42], truth[53], truth[54], truth[65], truth[66]})) << name;
  }
  std::vector<float> alone(24);
  reader.read("alone", view_of(alone.data(), DType::f32, {24}), {24}, {});
  EXPECT_EQ(alone, parts[5]);
}

TEST(Checkpoint, RanksThatDoNotFitAreNotMadeComplete) {
  TemporaryFolder folder;
  std::vector<float> a(6), b(6);
  TrainState first, second;
  first.tensors.push_back({"x", view_of(a.data(), DType::f32, {3, 2}), {6, 2}, {}, 0});
  second.tensors.push_back({"x", view_of(b.data(), DType::f32, {3, 2}), {6, 2}, {2, 0}, 0});
  CheckpointWriter zero(0, 2), one(1, 2);
  one.save(folder.path(), 1, second, 0);
  zero.save(folder.path(), 1, first, 0);
  zero.wait(), one.wait();
  const std::string text = zero.take_warning().value_or("");
  EXPECT_NE(text.find("'x': slices [0:3, 0:2] and [2:5, 0:2] overlap"), std::string::npos) << text;
  EXPECT_EQ(folder.count(), 0);
}

// Runs `body(notify)` in a child process and kills it `moment` after it has called notify().
template <class F>
void kill_after(std::chrono::microseconds moment, F&& body) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      body([&] { return ::write(pipe[1], "x", 1); });
    } catch (...) {
    }
    ::_exit(3);
  }
  ::close(pipe[1]);
  char ready = 0;
  EXPECT_EQ(::read(pipe[0], &ready, 1), 1) << "the child ended before it told";
  std::this_thread::sleep_for(moment);
  ::close(pipe[0]);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself, status " << status;
}

TEST(Checkpoint, AKillAtAnyMomentLeavesAValidLatest) {
  TemporaryFolder folder;
  const int64_t rows = 3000;  // 5 MB in all: tens of saves in the time below
  std::mt19937 random(11);
  int64_t last = 0, found = 0;
  for (int kill = 0; kill < 20; ++kill) {
    kill_after(std::chrono::microseconds(random() % 120000), [&](auto notify) {
      ::signal(SIGPIPE, SIG_IGN);
      clean_leftovers(folder.path());
      TestState live(rows);
      CheckpointWriter writer;
      for (int64_t step = last + 1;; ++step) {
        live.fill(step);
        writer.save(folder.path(), step, live.state(), 2);
        if (kill > 0) notify();  // the first child completes one at least
        writer.wait();
        notify();
      }
    });
    clean_leftovers(folder.path());
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "latest" || checkpoint_step(name)) << name;
      if (checkpoint_step(name)) {
        TestState any(rows);
        const CheckpointReader reader(entry.path().string(), true);  // every folder of that name is complete
        any.load(reader);
        EXPECT_EQ(any.difference(reader.step()), "");
      }
    }
    const auto newest = newest_checkpoint(folder.path(), no_warning);
    if (!newest) continue;
    ++found;
    last = *checkpoint_step(newest->substr(newest->rfind('/') + 1));
  }
  EXPECT_GT(found, 0);
  EXPECT_LE(folder.count(), 5);
}

}  // namespace test_io_checkpoint
