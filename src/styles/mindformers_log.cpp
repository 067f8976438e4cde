#include "styles/mindformers_log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/error.h"
#include "styles/event_files.h"
#include "styles/mindformers_monitor.h"

namespace ravine {
namespace {

constexpr int kBar = 50;  // characters

// Returns the prefix of a log line: "2025-04-07 15:34:27,308 - INFO - ", in local time.
std::string prefix() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = ms / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("{},{:03} - INFO - ", text, ms % 1000);
}

int64_t epoch_of(const MindFormersLine& l) { return (l.step - 1) / l.steps_per_epoch + 1; }
int64_t step_in_epoch(const MindFormersLine& l) { return (l.step - 1) % l.steps_per_epoch + 1; }

std::string step_text(const MindFormersLine& l) {
  return fmt::format("Epoch:[{:3d}/{:3d}], step:[{:5d}/{:5d}]", epoch_of(l), l.epochs, step_in_epoch(l), l.steps_per_epoch);
}

// Returns a duration as Python prints a timedelta of whole seconds.
std::string duration(int64_t seconds) {
  const int64_t days = seconds / 86400;
  const std::string clock = fmt::format("{}:{:02}:{:02}", seconds % 86400 / 3600, seconds % 3600 / 60, seconds % 60);
  return days == 0 ? clock : fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", clock);
}

// The epochs of the run.
struct Epochs {
  int64_t steps = 1, count = 1, whole = 0;  // steps of an epoch, number of epochs, and steps of all epochs
  void look(RunView& run) {
    const Config& c = run.config();
    steps = std::max<int64_t>(1, run.samples() / c.train.global_batch);
    const int64_t planned = std::max(c.train.steps, c.schedule.classes.total_steps);
    count = (planned + steps - 1) / steps;
    whole = count * steps;
  }
};

bool monitors(const LogOptions& log, const char* what) {
  return std::find(log.monitor.begin(), log.monitor.end(), what) != log.monitor.end();
}

// The mean loss of the current epoch.
class EpochMean {
 public:
  double add(int64_t epoch, double loss) {
    if (epoch != epoch_) epoch_ = epoch, sum_ = 0, count_ = 0;
    sum_ += loss;
    return sum_ / static_cast<double>(++count_);
  }

 private:
  int64_t epoch_ = 0, count_ = 0;
  double sum_ = 0;
};

class MindFormersConsole : public Hook {
 public:
  explicit MindFormersConsole(int64_t every) : every_(every) {}

  void start(RunView& run, int64_t) override {
    epochs_.look(run);
    monitor_.emplace(run.config().log);
  }

  void after_step(RunView& run, StepReport& r) override {
    if (r.left_out) return;
    show(run, r);
    run.log().progress(static_cast<double>(r.step) / static_cast<double>(run.config().train.steps),
                       fmt::format("{}/{}", r.step, run.config().train.steps));
  }
  void last_words(RunView& run, StepReport& r) override { show(run, r); }

  void finish(RunView& run, bool stopped) override {
    run.log().end_progress();
    if (!stopped && run.config().train.steps < epochs_.whole && run.last_report())
      run.log().line("{}set train process early stop at {} steps in yaml", prefix(), run.config().train.steps);
  }

 private:
  void show(RunView& run, const StepReport& r) {
    const Config& c = run.config();
    MindFormersLine l{.step = r.step,
                      .epochs = epochs_.count,
                      .steps_per_epoch = epochs_.steps,
                      .loss = r.loss,
                      .seconds = r.step_time,
                      .lr = r.lr,
                      .overflow = r.overflow,
                      .loss_scale = r.loss_scale.value_or(1),
                      .grad_norm = r.grad_norm,
                      .batch = c.train.global_batch,
                      .ranks = r.ranks,
                      .flops = r.flops};
    const double mean = mean_.add(epoch_of(l), r.loss);
    if (c.log.sink == 0) l.mean = mean;
    if (r.step % every_ != 0 && r.step != c.train.steps && !r.skipped) return;
    if (!r.local_norms.empty() && !c.log.local_norms.empty()) run.log().line("{}{}", prefix(), norm_lines(run, r));
    run.log().line("{}{}", prefix(), step_line(l));
    run.log().line("{}{}", prefix(), bar_line(l));
    if (r.spikes > 0) skipped(run, r);
    if (r.embedding_local_norm) run.log().line("{}embedding_local_norm: {}", prefix(), f32_text(*r.embedding_local_norm));
    monitor_->each(run, r, c.log.monitor, false, [&](const std::string& tag, double value) {
      run.log().line("{}{} {}: {:.4f}", prefix(), step_text(l), tag, value);
    });
    for (const auto& [name, value] : r.more)
      if (name == "valid_loss")
        run.log().line("{}Eval result: PerplexityMetric is {{'loss': {}, 'PPL': {}}}", prefix(), value, std::exp(value));
    if (monitors(c.log, "drop_rate"))
      for (size_t i = 0; i < r.routers.layers.size(); ++i)
        run.log().line("{}layer: {}, drop_rate: {:.5f}", prefix(), r.routers.layers[i], r.routers.drop_rate[i]);
  }

  // Prints the lines of a step that health.skip_norm skips. If the step ends the run, the second line is the error.
  static void skipped(RunView& run, const StepReport& r) {
    const HealthOptions& health = run.config().health;
    const std::string norm = f32_text(r.grad_norm), limit = python_text(health.skip_norm);
    run.log().line("{}opt_global_step: {}, skip_data_grad_norm_threshold: {}, is_skip: [ True]", prefix(), r.updates, limit);
    if (health.skip_count > 0 && r.spikes >= health.skip_count)
      run.log().line(
          "ValueError: Current global norm [{}] of step {} has been {} consecutive times greater than threshold {}, stop training...",
          norm, r.step, r.spikes, limit);
    else
      run.log().line("{}Current global norm [{}] of step {} has been {} consecutive times greater than threshold: {}", prefix(),
                     norm, r.step, r.spikes, limit);
  }

  // Returns the lines with the local norms of the first rank.
  static std::string norm_lines(RunView& run, const StepReport& r) {
    std::string sizes, values;
    for (const LocalNorm& n : in_mindformers_order(r.local_norms, run.model_config())) {
      const auto at = std::find(n.ranks.begin(), n.ranks.end(), 0);
      if (at == n.ranks.end()) continue;
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", n.counts[static_cast<size_t>(at - n.ranks.begin())]);
      values += fmt::format("{}{}", values.empty() ? "" : ", ", f32_text(n.squares[static_cast<size_t>(at - n.ranks.begin())]));
    }
    return fmt::format(" norm_size: ({})\nlocal_norm:\n({})", sizes, values);
  }

  int64_t every_;
  Epochs epochs_;
  EpochMean mean_;
  std::optional<MindFormersMonitor> monitor_;
};

// Calls `write` with the share of each expert of a layer in the choices of its router.
template <class Write>
void expert_loads(int64_t layer, const std::vector<int64_t>& claims, Write&& write) {
  double all = 0;
  for (const int64_t n : claims) all += static_cast<double>(n);
  for (size_t i = 0; i < claims.size(); ++i)
    write(fmt::format("expert_load/{}/ep_{}", layer, i), all > 0 ? static_cast<double>(claims[i]) / all : 0);
}

class MindFormersTensorBoard : public Hook {
 public:
  explicit MindFormersTensorBoard(int64_t every) : every_(every) {}

  void start(RunView& run, int64_t done) override {
    const std::string& given = run.config().log.tensorboard_dir;
    writer_ = event_writer(given.empty() ? run.path("tensorboard") : given + "/rank_0", done);
    monitor_.emplace(run.config().log);
  }

  void after_step(RunView& run, StepReport& r) override {
    if (r.step % every_ != 0 || r.left_out) return;
    const double batch = static_cast<double>(run.config().train.global_batch),
                 per_rank = batch / r.ranks / std::max(1e-9, r.step_time);
    const int64_t samples = r.step * run.config().train.global_batch;
    const auto one = [&](const std::string& tag, double value) {
      if (!leaves_out(run.config().log, tag)) writer_->scalar(tag, r.step, value);
    };
    const auto both = [&](const std::string& tag, double value) {
      one(tag, value);
      if (!leaves_out(run.config().log, tag)) writer_->scalar(tag + "_vs_samples", samples, value);
    };
    try {
      both("learning-rate", r.lr);
      both("batch-size", batch);
      both("loss", r.loss);
      both("loss-scale", r.loss_scale.value_or(1));
      both("grad-norm", r.grad_norm);
      both("iteration-time", r.step_time);
      both("throughput", per_rank);
      one("B-samples-per-day", per_rank * r.ranks * 86400 / 1e9);
      for (size_t i = 0; i < r.routers.claims.size(); ++i) expert_loads(r.routers.layers[i], r.routers.claims[i], one);
      for (const auto& [name, value] : r.more) writer_->scalar(name, r.step, value);
      monitor_->each(run, r, run.config().log.tensorboard_monitor, true,
                     [&](const std::string& tag, double value) { writer_->scalar(tag, r.step, value); });
      writer_->flush();
    } catch (const Error& e) {
      run.log().warn("TensorBoard file: {}; the run goes on", e.what());
    }
  }

 private:
  int64_t every_;
  std::optional<MindFormersMonitor> monitor_;
  std::unique_ptr<EventWriter> writer_;
};

}  // namespace

std::string f32_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", static_cast<float>(x));
  if (text.find_first_of(".e") == std::string::npos) text += text.find("inf") == std::string::npos ? ".0" : "";
  return text;
}

std::string python_text(double x) {
  const std::string text = fmt::format("{}", x);
  return text.find_first_of(".enif") == std::string::npos ? text + ".0" : text;
}

namespace {
// Returns a loss scale as text. Ravine's loss scale is an f64; a value beyond the range of f32 is printed in f64.
std::string scale_text(double x) {
  return std::isinf(static_cast<float>(x)) && !std::isinf(x) ? fmt::format("{}", x) : f32_text(x);
}
}  // namespace

std::string step_line(const MindFormersLine& l) {
  const std::string loss =
      l.mean ? fmt::format("loss:[{:5.3f}/{:5.3f}]", l.loss, *l.mean) : fmt::format("loss: {:5.3f}", l.loss);
  const double tera = l.flops / l.ranks / std::max(1e-9, l.seconds) / 1e12;
  const std::string speed = l.flops > 0 ? fmt::format(", train_throughput_per_npu: {:.3f}T", tera) : "";
  return fmt::format("{{ {}, {}, per_step_time: {}ms, lr: {}, overflow cond: {}, loss_scale: {}, global_norm: [{}]{}",
                     step_text(l), loss, static_cast<int64_t>(l.seconds * 1000), f32_text(l.lr), l.overflow ? "True" : "False",
                     scale_text(l.loss_scale), f32_text(l.grad_norm), speed);
}

std::string bar_line(const MindFormersLine& l) {
  const double percent = 100.0 * static_cast<double>(l.step) / static_cast<double>(l.epochs * l.steps_per_epoch);
  const int filled = std::clamp(static_cast<int>(kBar * percent / 100 + 1e-9), 0, kBar);
  std::string bar;
  for (int i = 0; i < filled; ++i) bar += "█";
  bar += std::string(static_cast<size_t>(kBar - filled), ' ');
  const int64_t rest = (l.epochs - epoch_of(l) + 1) * l.steps_per_epoch - step_in_epoch(l);
  const double seconds = std::max(1e-9, l.seconds);
  return fmt::format("  {:4.1f}% |{}| {:.5f} samples/s/p  {} }}", percent, bar,
                     static_cast<double>(l.batch) / l.ranks / seconds,
                     duration(static_cast<int64_t>(static_cast<double>(std::max<int64_t>(0, rest)) * seconds)));
}

std::unique_ptr<Hook> mindformers_console_hook(int64_t every) { return std::make_unique<MindFormersConsole>(every); }
std::unique_ptr<Hook> mindformers_tensorboard_hook(int64_t every) { return std::make_unique<MindFormersTensorBoard>(every); }

}  // namespace ravine
