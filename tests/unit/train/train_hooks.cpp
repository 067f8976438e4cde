// Hooks: what each is given, when each acts, what lines, metrics and curves show.
#include "train/hooks.h"

#include <cmath>
#include <map>

#include "files/tensorboard.h"
#include "files/tensorboard_reader.h"
#include "tests/unit/fake_run.h"

namespace ravine {
namespace test_train_hooks {

StepReport report_of(int64_t step) {
  StepReport r;
  r.step = step;
  r.loss = 1.5, r.lr = 2.5, r.grad_norm = 3.5, r.tokens = 40, r.tokens_per_second = 5.5, r.sol = 0.65, r.step_time = 7.5,
  r.memory_mb = 8.5, r.wait = 9.5, r.valid = 40;
  return r;
}

TEST(Hooks, MetricsHoldEachFigureUnderItsName) {
  FakeRun run;
  auto hook = metrics_hook(1);
  hook->start(run, 0);
  StepReport r = report_of(1);
  r.more.emplace_back("valid_loss", 10.5);
  hook->after_step(run, r);
  ASSERT_EQ(run.metrics().size(), 1u);
  EXPECT_EQ(run.metrics()[0], (Json{{"step", 1},
                                    {"loss", 1.5},
                                    {"lr", 2.5},
                                    {"grad_norm", 3.5},
                                    {"tokens", 40},
                                    {"tokens_per_second", 5.5},
                                    {"sol", 0.65},
                                    {"step_time", 7.5},
                                    {"memory_mb", 8.5},
                                    {"data_wait", 9.5},
                                    {"valid_loss", 10.5}}));
  StepReport skipped;
  skipped.step = 2, skipped.left_out = skipped.skipped = true, skipped.tokens = 40;
  hook->after_step(run, skipped);
  EXPECT_EQ(run.metrics()[1], (Json{{"step", 2}, {"skipped", true}, {"tokens", 40}}));
  StepReport judged = report_of(3);  // by a guard: with the figures of the skipped step
  judged.skipped = true;
  hook->after_step(run, judged);
  EXPECT_EQ(run.metrics()[2]["skipped"], true);
  EXPECT_EQ(run.metrics()[2]["grad_norm"], 3.5);
}

TEST(Hooks, MetricsOfSeveralRanksCountWhatWasSent) {
  FakeRun run;
  auto hook = metrics_hook(1);
  hook->start(run, 0);
  StepReport r = report_of(1);
  r.ranks = 2;
  r.traffic.sent_mb = 1, r.traffic.wait = 0.5, r.traffic.wait_least = 0.25, r.traffic.slowest = 1, r.traffic.bubble = 0.125;
  r.traffic.parts.push_back({"data", 3, 4});
  hook->after_step(run, r);
  const Json m = run.metrics()[0];
  const Json want{{"comm_mb", 1},    {"comm_wait", 0.5},  {"comm_wait_least", 0.25}, {"slowest_rank", 1},
                  {"bubble", 0.125}, {"comm_data_mb", 3}, {"comm_data_seconds", 4}};
  for (auto& [key, value] : want.items()) EXPECT_EQ(m.at(key).get<double>(), value.get<double>()) << key;
}

TEST(Hooks, MetricsAreWrittenWhenDueAtTheEndAndWhenThereIsMore) {
  FakeRun run(8);
  auto hook = metrics_hook(3);
  hook->start(run, 0);
  for (int64_t step = 1; step <= 8; ++step) {
    StepReport r = report_of(step);
    if (step == 4) r.more.emplace_back("valid_loss", 1);
    hook->after_step(run, r);
  }
  std::vector<int64_t> steps;
  for (const Json& m : run.metrics()) steps.push_back(m["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4, 6, 8}));
  metrics_hook(1)->start(run, 4);  // a resume after step 4
  steps.clear();
  for (const Json& m : run.metrics()) steps.push_back(m["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4}));
}

TEST(Hooks, MetricsOfStrangeLinesAreLeftOutAndTheRestKept) {
  FakeRun run;
  const std::string path = run.path("metrics.jsonl");
  spill(
      path,
      "{\"step\":1,\"loss\":1}\nnonsense\n{\"loss\":1}\n{\"step\":\"2\"}\n{\"step\":2}\n{\"step\":5}\n{\"step\":1}\n{\"step\":2,\"lo");
  metrics_hook(1)->start(run, 2);
  EXPECT_EQ(slurp(path), "{\"step\":1,\"loss\":1}\n{\"step\":2}\n")
      << "behind the first step that is done again nothing is kept";
}

TEST(Hooks, ValidationAddsItsLossWhenDue) {
  FakeRun run(7);
  auto hook = validation_hook(3);
  std::vector<int64_t> due;
  auto losses_of = [&](Hook& h, int64_t step) {
    StepReport r = report_of(step);
    run.loss = 10.0 + static_cast<double>(step);
    h.after_step(run, r);
    return r.more;
  };
  for (int64_t step = 1; step <= 7; ++step) {
    const auto more = losses_of(*hook, step);
    if (more.empty()) continue;
    due.push_back(step);
    EXPECT_EQ(more, (std::vector<std::pair<std::string, double>>{{"valid_loss", *run.loss}}));
  }
  EXPECT_EQ(due, (std::vector<int64_t>{3, 6, 7}));
  EXPECT_EQ(run.followed, (std::vector<double>{13, 16, 17})) << "a rate that follows is told of each";
  EXPECT_TRUE(losses_of(*validation_hook(0), 7).empty());
  run.loss.reset();  // nothing to validate on
  StepReport r = report_of(3);
  hook->after_step(run, r);
  EXPECT_TRUE(r.more.empty() && run.followed.size() == 3);
}

TEST(Hooks, CheckpointsAreSavedWhenDueAndAtTheEnd) {
  FakeRun run(7);
  auto hook = checkpoint_hook(3);
  auto finish = [&](Hook& h, bool stopped) {
    run.saved.clear();
    h.finish(run, stopped);
    return run.saved;
  };
  EXPECT_TRUE(finish(*hook, true).empty()) << "no step, nothing to save";
  for (int64_t step = 1; step <= 7; ++step) {
    StepReport r = report_of(step);
    hook->after_step(run, r);
    run.last = r;
  }
  EXPECT_EQ(run.saved, (std::vector<int64_t>{3, 6, 7}));
  run.complete = 7;
  EXPECT_TRUE(finish(*hook, false).empty());
  run.complete = 6;
  EXPECT_EQ(finish(*hook, false), (std::vector<int64_t>{7})) << "once more where the save of the last step has failed";
  auto never = checkpoint_hook(0);
  StepReport r = report_of(7);
  never->after_step(run, r);
  EXPECT_TRUE(finish(*never, false).empty());
  EXPECT_EQ(finish(*never, true), (std::vector<int64_t>{7})) << "a run that is stopped is saved in any case";
}

TEST(Hooks, TheWindowBeginsAgainBehindALine) {
  FakeRun run(7);
  auto hook = window_hook(3);
  std::vector<int> windows;
  for (int64_t step = 1; step <= 7; ++step) {
    StepReport r = report_of(step);
    r.skipped = step == 6;  // its line shows the step alone
    hook->after_step(run, r);
    windows.push_back(run.windows);
  }
  EXPECT_EQ(windows, (std::vector<int>{0, 0, 1, 1, 1, 1, 2}));
}

TEST(StepWindow, WeighsLabels) {
  StepWindow w;
  EXPECT_TRUE(w.mean_loss() == 0 && w.tokens_per_second() == 0);
  w.add(2.0, 10, 64, 0.5);
  w.add(4.0, 30, 32, 1.5);
  EXPECT_EQ(w.mean_loss(), (2.0 * 10 + 4.0 * 30) / 40);
  EXPECT_EQ(w.tokens_per_second(), 96 / 2.0);
  EXPECT_EQ(w.step_time(), 1.0);
  const StepWindow back = StepWindow::from_json(w.json(), "here");
  EXPECT_TRUE(back.steps == 2 && back.valid == 40 && back.tokens == 96 && back.loss == 140 && back.seconds == 2);
  EXPECT_NE(message_of<UserError>([] { StepWindow::from_json(Json{{"steps", 1}}, "here"); }).find("here"), std::string::npos);
}

TEST(LineDue, EveryAtTheEndAndWhereThereIsMore) {
  StepReport r;
  auto due = [&](int64_t step, int64_t every, int64_t steps) { return r.step = step, line_due(r, every, steps); };
  EXPECT_TRUE(due(6, 3, 20) && due(20, 3, 20) && !due(7, 3, 20) && !due(19, 3, 20));
  r.more.emplace_back("valid_loss", 1);
  EXPECT_TRUE(due(7, 3, 20));
}

// Tests the values of a log line over several steps.
TEST(Shown, IsOfTheWindow) {
  FakeRun run(100);
  auto metrics = metrics_hook(2), board = tensorboard_hook(2);
  metrics->start(run, 0), board->start(run, 0);
  StepReport r;
  r.step = 2, r.loss = 3, r.valid = 30, r.tokens_per_second = 50, r.sol = 0.25, r.step_time = 1, r.ranks = 2;
  r.traffic.wait = 0.5, r.traffic.wait_least = 0.125, r.traffic.bubble = 0.25, r.traffic.parts = {{"data", 3, 4}};
  r.window.add(2.0, 10, 64, 0.5);
  r.window.add(4.0, 30, 32, 1.5);
  r.more.emplace_back("valid_loss", 1.25);
  metrics->after_step(run, r), board->after_step(run, r);
  const Json m = run.metrics().at(0);
  EXPECT_EQ(m.at("loss"), 3);
  EXPECT_EQ(m.at("mean_loss"), 3.5);
  EXPECT_EQ(m.at("mean_steps"), 2);
  EXPECT_EQ(m.at("tokens_per_second"), 48);
  EXPECT_EQ(m.at("step_time"), 1);
  EXPECT_NEAR(m.at("sol").get<double>(), 0.25 * 48 / 50, 1e-15);
  const EventData data = read_events(event_files(run.path("tensorboard")));
  const std::map<std::string, double> want{
      {"train/loss", 3},         {"train/mean_loss", 3.5},        {"train/lr", 0},
      {"train/grad_norm", 0},    {"speed/tokens_per_second", 48}, {"speed/sol", 0.24f},
      {"memory/resident_mb", 0}, {"ranks/wait_most", 0.5},        {"ranks/wait_least", 0.125},
      {"ranks/bubble", 0.25},    {"ranks/data_seconds", 4},       {"train/valid_loss", 1.25}};
  for (const auto& [tag, value] : want) {
    ASSERT_EQ(data.scalars.count(tag), 1u) << tag;
    EXPECT_EQ(data.scalars.at(tag), (std::vector<std::pair<int64_t, double>>{{2, value}})) << tag;
  }
  EXPECT_EQ(data.scalars.size(), want.size());
  r.step = 3, r.more.clear();
  board->after_step(run, r);
  EXPECT_EQ(read_events(event_files(run.path("tensorboard"))).scalars.at("train/loss").size(), 1u) << "no line, no point";
}

TEST(Console, LinesHaveTheirFigures) {
  FakeRun run(101);
  auto has = [&](const std::string& words) {
    const std::string text = run.logged();
    EXPECT_NE(text.find(words), std::string::npos) << text << "lacks " << words;
  };
  auto report = [](int64_t step, double seconds) {
    StepReport r;
    r.step = step, r.valid = 40, r.loss = 2.5, r.lr = 0.00125, r.grad_norm = 3.25, r.tokens = 40, r.tokens_per_second = 511.6,
    r.sol = 0.454, r.step_time = seconds;
    return r;
  };
  auto hook = console_hook(1);
  hook->start(run, 0);
  StepReport r = report(1, 10);
  hook->after_step(run, r);
  has("step   1/101  loss 2.5000  lr 1.25e-03  norm 3.250      512 tok/s  sol 0.45  10000 ms  left 16m 40s\n");
  // A running mean: a tenth of it is the newest step.
  r = report(2, 20);
  r.more.emplace_back("valid_loss", 1.25), r.embedding_local_norm = 12.34567;
  hook->after_step(run, r);
  has(fmt::format("20000 ms  left {}  valid_loss 1.2500  embedding_local_norm 12.3457\n",
                  human_time((0.9 * 10 + 0.1 * 20) * 99)));
  r = report(3, 11);
  r.ranks = 4, r.traffic.wait = 0.52, r.traffic.wait_least = 0.13, r.traffic.slowest = 3, r.traffic.bubble = 0.26;
  hook->after_step(run, r);
  has(fmt::format("left {}  wait 52 %, 13 % on rank 3, the slowest  bubble 26 %\n", human_time(11 * 98)));
  r.step = 4, r.traffic.bubble = -1, r.skipped = true;
  r.local_norms = {{"a.weight", {0, 2}, {9, 6.25}}};
  hook->after_step(run, r);
  const std::string skipped = run.logged();
  EXPECT_NE(skipped.find("13 % on rank 3, the slowest  skipped\n"), std::string::npos) << skipped << "no pipeline, no bubble";
  EXPECT_NE(skipped.find("local    a.weight on rank 0  squares 9  norm 3\n"), std::string::npos) << skipped;
  EXPECT_NE(skipped.find("local    a.weight on rank 2  squares 6.25  norm 2.5\n"), std::string::npos) << skipped;
  r = report(5, 11);
  r.local_norms = {{"a.weight", {0}, {9}}};
  hook->after_step(run, r);
  has("local    a.weight  squares 9  norm 3\n");
  r = report(6, 11);
  r.left_out = r.skipped = true;
  hook->after_step(run, r);
  EXPECT_NE(run.logged().find("step 6/101  skipped (data.skip_steps)\n"), std::string::npos);
  // Every third step only, but for what has more to say.
  auto third = console_hook(3);
  third->start(run, 0);
  for (int64_t step = 1; step <= 7; ++step) {
    r = report(step, 11);
    if (step == 4) r.more.emplace_back("valid_loss", 1);
    third->after_step(run, r);
  }
  const std::string some = run.logged();
  for (int64_t step = 1; step <= 7; ++step)
    EXPECT_EQ(some.find(fmt::format("step   {}/101", step)) != std::string::npos, step % 3 == 0 || step == 4) << some;
}

// Such a step is no point of a curve and counts in no mean; a validation without labels is said once.
TEST(Hooks, StepsWithoutALabelHaveNoLoss) {
  FakeRun run(4);
  auto metrics = metrics_hook(1), console = console_hook(1), board = tensorboard_hook(1);
  for (auto* hook : {&metrics, &console, &board}) (*hook)->start(run, 0);
  for (int64_t step = 1; step <= 4; ++step) {
    StepReport r = report_of(step);
    if (step == 2 || step == 3) r.valid = 0, r.loss = 0, r.window.add(0, 0, 40, 1);
    if (step == 3) r.window.add(0, 0, 40, 1);
    for (auto* hook : {&metrics, &console, &board}) (*hook)->after_step(run, r);
    if (step == 4) console->finish(run, false);
  }
  const auto rows = run.metrics();
  EXPECT_EQ(rows[0]["loss"], 1.5);
  EXPECT_TRUE(rows[1]["loss"].is_null()) << rows[1];
  EXPECT_TRUE(rows[2]["loss"].is_null() && rows[2]["mean_loss"].is_null()) << rows[2];
  const std::string logged = run.logged();
  EXPECT_NE(logged.find("step 2/4  loss -  lr"), std::string::npos) << logged;
  EXPECT_NE(logged.find("done     4 steps, loss 1.5000 on average over the last 2\n"), std::string::npos) << logged;
  EXPECT_EQ(read_events(event_files(run.path("tensorboard"))).scalars.at("train/loss").size(), 2U);

  FakeRun silent(4);
  silent.loss = 0, silent.labels = 0;
  auto validation = validation_hook(1);
  for (int64_t step : {1, 2}) {
    StepReport r = report_of(step);
    validation->after_step(silent, r);
    EXPECT_TRUE(r.more.empty() && silent.followed.empty());
  }
  const std::string words = silent.logged();
  EXPECT_NE(
      words.find("validation at step 1: no label of the validation data counts, so there is no valid_loss: look at data.valid"),
      std::string::npos)
      << words;
  EXPECT_EQ(words.find("validation at step 2"), std::string::npos) << "once is enough";
}

}  // namespace test_train_hooks
}  // namespace ravine
