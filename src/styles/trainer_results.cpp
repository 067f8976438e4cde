#include "styles/trainer_results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "files/atomic.h"
#include "files/folder_mark.h"

namespace ravine {
namespace {

double rounded(double value, double digits) { return std::round(value * digits) / digits; }

// Adds SPLIT_runtime, SPLIT_samples_per_second and SPLIT_steps_per_second, rounded as in run_clm.py.
void add_speed(Json& to, const std::string& split, double seconds, double samples, double steps) {
  to[split + "_runtime"] = rounded(seconds, 1e4);
  if (seconds <= 0) return;
  to[split + "_samples_per_second"] = rounded(samples / seconds, 1e3);
  to[split + "_steps_per_second"] = rounded(steps / seconds, 1e3);
}

// Returns a figure for the log: "0:01:02.50" for a runtime, four decimals for other reals.
std::string shown_figure(const std::string& key, const Json& value) {
  if (!value.is_number_float()) return value.dump();
  if (!key.ends_with("_runtime")) return Json(rounded(value.get<double>(), 1e4)).dump();
  const auto hundredths = static_cast<int64_t>(value.get<double>() * 100), seconds = hundredths / 100;
  return fmt::format("{}:{:02}:{:02}.{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60, hundredths % 100);
}

void replace_results(const std::string& folder, const std::string& name, const Json& figures, Log& log) {
  namespace fs = std::filesystem;
  const std::string path = folder + "/" + name, before = path + ".before";
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error)) && !fs::exists(fs::symlink_status(before, error)) && !read_mark(folder)) {
    fs::rename(path, before, error);
    if (error) throw_system("rename", path, error.value());
    log.line("kept     {} as {}.before: no run made this folder", path, name);
  }
  write_file_atomic(path, figures.dump(4));
}

class TrainerResults : public Hook {
 public:
  explicit TrainerResults(bool tokens) : per_token_(tokens) {}
  void start(RunView&, int64_t) override { began_ = seconds_now(); }
  void after_step(RunView&, StepReport& r) override {
    if (r.left_out) return;
    ++steps_;
    tokens_ += r.tokens_per_second * r.step_time / r.ranks;
    if (r.has_loss() && std::isfinite(r.loss)) sum_ += r.loss, ++losses_;
  }
  void finish(RunView&, bool) override { seconds_ = seconds_now() - began_; }
  void ended(RunView& run) override {
    const StepReport* last = run.last_report();
    if (!last) return;
    const Config& c = run.config();
    const auto batch = static_cast<double>(c.train.global_batch), steps = static_cast<double>(steps_);
    const double pass = std::max(1.0, std::ceil(static_cast<double>(run.samples()) / batch));
    const Json epoch = rounded(static_cast<double>(last->step) / pass, 1e2);
    Json train = {{"epoch", epoch}, {"train_samples", run.samples()}};
    if (losses_ > 0) train["train_loss"] = sum_ / static_cast<double>(losses_);
    add_speed(train, "train", seconds_, steps * batch, steps);
    if (per_token_ && seconds_ > 0) train["train_tokens_per_second"] = rounded(tokens_ / seconds_, 1e3);
    try {
      write_results(c.train.output, "train", train, run.log());
      if (!last->validation) return;
      Json eval = evaluation_figures(*last->validation);
      eval["epoch"] = epoch;
      write_results(c.train.output, "eval", eval, run.log());
    } catch (const Error& e) {
      run.log().warn("results: {}; the run itself is whole", e.what());
    }
  }

 private:
  bool per_token_;
  double began_ = 0, seconds_ = 0, sum_ = 0, tokens_ = 0;
  int64_t steps_ = 0, losses_ = 0;
};

}  // namespace

Json evaluation_figures(const ValidationResult& result) {
  Json out = {{"eval_loss", result.loss}, {"perplexity", std::exp(result.loss)}, {"eval_samples", result.samples}};
  add_speed(out, "eval", result.seconds, static_cast<double>(result.samples), static_cast<double>(result.batches));
  return out;
}

void write_results(const std::string& folder, const std::string& split, const Json& figures, Log& log) {
  size_t keys = 0, values = 0;
  for (const auto& [key, value] : figures.items())
    keys = std::max(keys, key.size()), values = std::max(values, shown_figure(key, value).size());
  log.line("***** {} metrics *****", split);
  for (const auto& [key, value] : figures.items()) log.line("  {:<{}} = {:>{}}", key, keys, shown_figure(key, value), values);
  replace_results(folder, split + "_results.json", figures, log);
  const std::string path = folder + "/all_results.json";
  std::error_code error;
  const auto there = std::filesystem::status(path, error);  // reading e.g. a pipe might block forever
  Json all = std::filesystem::is_regular_file(there) ? read_json(path) : Json::object();
  if ((std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) || !all.is_object())
    throw UserError("no results", path, "it is a plain file with a JSON object, to which the figures are added",
                    "move it away");
  all.update(figures);
  replace_results(folder, "all_results.json", all, log);
}

std::unique_ptr<Hook> trainer_results_hook(bool tokens) { return std::make_unique<TrainerResults>(tokens); }

}  // namespace ravine
