// Verdicts on checkpoints: where they are written, which one applies, and that a problem with them never makes a save
// fail.
#include "io/checkpoint_health.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/io_checkpoint_state.h"

using namespace ravine;

namespace test_io_checkpoint_health {

using Steps = std::vector<int64_t>;

struct HealthRun {
  TemporaryFolder folder;
  TestState live{3};
  CheckpointWriter writer;
  std::string dir() const { return folder / "checkpoints"; }
  std::string file() const { return folder / kHealthFile; }
  void write(const std::string& text) { std::ofstream(file()) << text; }
  // unhealthy: null is one that was not judged.
  std::string save(int64_t step, const Json& unhealthy = {}, int64_t keep = 0) {
    TrainState state = live.state();
    if (!unhealthy.is_null()) state.scalars[kUnhealthy] = unhealthy;
    writer.save(dir(), step, state, keep);
    writer.wait();
    saved = writer.take_saved().has_value();
    return writer.take_warning().value_or("");
  }
  Steps steps() const {
    Steps out;
    for (const std::string& path : checkpoints_to_try(dir()))
      out.insert(out.begin(), checkpoint_step(path.substr(dir().size() + 1)).value());
    return out;
  }
  bool healthy(int64_t step) const { return CheckpointVerdicts(dir()).healthy(checkpoint_name(step)); }
  bool saved = false;
};

TEST(CheckpointHealth, TheFileIsWrittenWithTheCheckpoint) {
  HealthRun run;
  EXPECT_EQ(run.save(1), "");
  EXPECT_FALSE(run.folder.has(kHealthFile)) << "nothing was judged";
  EXPECT_EQ(run.save(2, false), "");
  EXPECT_EQ(run.save(3, true), "");
  EXPECT_EQ(Json::parse(slurp(run.file())),
            Json::parse(R"([{"is_health":0,"ckpt_name":"step_000002"},{"is_health":1,"ckpt_name":"step_000003"}])"));
  EXPECT_TRUE(run.healthy(1) && run.healthy(2) && !run.healthy(3));
  EXPECT_EQ(run.save(2, true), "");
  EXPECT_EQ(Json::parse(slurp(run.file())),
            Json::parse(R"([{"is_health":1,"ckpt_name":"step_000003"},{"is_health":1,"ckpt_name":"step_000002"}])"));
  EXPECT_EQ(run.save(3), "") << "not judged this time: the verdict on the one before has gone with it";
  EXPECT_TRUE(run.healthy(3));
}

TEST(CheckpointHealth, TheManifestCountsWhereTheFileLacksOne) {
  HealthRun run;
  run.save(1, false), run.save(2, true);
  run.write(R"([{"is_health":1,"ckpt_name":"step_000001"}])");  // edited; and 2 is missing, as after a kill
  EXPECT_FALSE(run.healthy(1) || run.healthy(2));
  unlink(run.file().c_str());
  EXPECT_TRUE(run.healthy(1) && !run.healthy(2));
  EXPECT_TRUE(run.healthy(7)) << "nothing says otherwise";
}

TEST(CheckpointHealth, TheNewestHealthyOneStaysByTheSameVerdicts) {
  HealthRun run;
  for (int64_t step : {1, 2, 3}) run.save(step, step == 2);
  run.write(
      R"([{"is_health":0,"ckpt_name":"step_000001"},{"is_health":1,"ckpt_name":"step_000002"},{"is_health":1,"ckpt_name":"step_000003"}])");
  EXPECT_EQ(run.save(4, true, 1), "");
  EXPECT_EQ(run.steps(), (Steps{1, 4})) << "1 is the only one that the file calls healthy";
}

TEST(CheckpointHealth, WhatCannotBeReadIsAWarningOfTheSaveAndAnErrorOfTheResume) {
  HealthRun run;
  std::string message = run.save(1, Json(5));
  EXPECT_TRUE(run.saved) << message;
  EXPECT_NE(message.find(kHealthFile), std::string::npos) << message;
  run.save(2, true);
  run.write("[{\"is_health\":0,");
  message = run.save(3, true, 1);
  EXPECT_TRUE(run.saved) << message;
  EXPECT_NE(message.find(kHealthFile), std::string::npos) << message;
  EXPECT_EQ(run.steps(), (Steps{1, 2, 3})) << "nothing goes whose verdict is not known";
  try {
    run.healthy(3);
    ADD_FAILURE() << "taken";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(run.file()), std::string::npos) << e.what();
  }
  unlink(run.file().c_str());
  message = run.save(4, true, 1);  // 1 carries a verdict that is none
  EXPECT_TRUE(run.saved) << message;
  EXPECT_NE(message.find("step_000001"), std::string::npos) << message;
  EXPECT_THROW(run.healthy(1), UserError);
}

// A rank whose folder was removed cannot write its failure mark: the ranks report it to rank 0, and its save fails
// instead of waiting forever.
TEST(CheckpointHealth, APartThatWillNeverComeIsGivenUp) {
  TemporaryFolder folder;
  std::vector<float> values(8, 1);
  auto part = [&](int64_t rank) {
    TrainState s;
    s.tensors.push_back({"x", view_of(values.data(), DType::f32, {8}), {16}, {rank * 8}, 0});
    return s;
  };
  CheckpointWriter first(0, 2, 7), second(1, 2, 7);
  std::ofstream(folder / "file") << "no folder";
  first.save(folder / "c", 1, part(0), 0);
  second.save(folder / "file/c", 1, part(1), 0);
  EXPECT_TRUE(second.wait_part());
  EXPECT_FALSE(first.wait_part());
  first.give_up_parts();
  first.wait();
  EXPECT_NE(first.take_warning().value_or("").find("was not saved"), std::string::npos);
  EXPECT_FALSE(folder.has("c/step_000001"));
  first.save(folder / "c", 1, part(0), 0);
  second.save(folder / "c", 1, part(1), 0);
  EXPECT_FALSE(second.wait_part());
  first.wait();
  EXPECT_EQ(first.take_warning(), std::nullopt);
}

// In a separate process, with stacks too large for any machine: signals are restored if the thread could not start.
TEST(CheckpointHealth, SignalsStayOpenWhereAThreadCannotStart) {
  const pid_t child = fork();
  if (child == 0) {
    pthread_attr_t large;  // no stack of this size is kept from a thread before
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, size_t{1} << 46);
    pthread_setattr_default_np(&large);
    bool refused = false;
    try {
      CheckpointWriter writer;
    } catch (const std::exception&) {
      refused = true;
    }
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    _exit(!refused ? 77 : sigismember(&now, SIGINT) ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "the thread started all the same";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "all signals stay blocked";
}

}  // namespace test_io_checkpoint_health
