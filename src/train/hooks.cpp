#include "train/hooks.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>
#include <filesystem>

#include "base/counted.h"
#include "files/appended_file.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "files/same_path.h"
#include "files/tensorboard.h"
#include "files/tensorboard_reader.h"
#include "io/run_files.h"

namespace ravine {

bool line_due(const StepReport& r, int64_t every, int64_t steps) {
  return r.step % every == 0 || r.step == steps || r.has_line || !r.more.empty() || (r.skipped && !r.left_out);
}

namespace {

// Loss and speed of a log line: means over the window if it has several steps, else the values of the step. A step
// without labels has no loss.
struct Shown {
  explicit Shown(const StepReport& r)
      : several(r.window.steps > 1 && !r.skipped),
        has_loss(several ? r.window.valid > 0 : r.has_loss()),
        loss(several ? r.window.mean_loss() : r.loss),
        tokens_per_second(several ? r.window.tokens_per_second() : r.tokens_per_second),
        sol(std::min(1.0, several && r.tokens_per_second > 0 ? r.sol * tokens_per_second / r.tokens_per_second : r.sol)),
        step_time(several ? r.window.step_time() : r.step_time) {}
  std::string loss_text(int digits) const { return has_loss ? fmt::format("{:.{}f}", loss, digits) : "-"; }
  bool several, has_loss;
  double loss, tokens_per_second, sol, step_time;
};

class Validation : public Hook {
 public:
  explicit Validation(int64_t every) : every_(every) {}
  void after_step(RunView& run, StepReport& r) override {
    bool due = every_ > 0 && (r.step % every_ == 0 || r.step == run.config().train.steps);
    if (!due) return;
    const auto result = run.validate();
    if (result && result->labels == 0) {
      if (!told_)
        run.log().warn(
            "validation at step {}: no label of the validation data counts, so there is no valid_loss{}: look at data.valid, data.loss_on and train.valid_batches",
            r.step, follows_validation(run.config().schedule) ? ", and the rate stays as it is" : "");
      told_ = true;
    } else if (result) {
      r.validation = result;
      r.more.emplace_back("valid_loss", result->loss);
      for (const auto& [name, value] : result->preferences) r.more.emplace_back("valid_" + name, value);
      run.follow(result->loss);
    }
  }

 private:
  int64_t every_;
  bool told_ = false;
};

Json as_json(const StepReport& r) {
  Json j;
  j["step"] = r.step;
  if (r.left_out) {
    j["skipped"] = true;
    j["tokens"] = r.tokens;
    for (auto& [name, value] : r.more) j[name] = value;
    return j;
  }
  const Shown shown(r);
  j["loss"] = r.has_loss() ? Json(r.loss) : Json();
  if (shown.several) j["mean_loss"] = shown.has_loss ? Json(shown.loss) : Json(), j["mean_steps"] = r.window.steps;
  j["lr"] = r.lr;
  j["grad_norm"] = r.overflow ? Json() : Json(r.grad_norm);
  for (const auto& [name, value] : r.preferences) j[name] = value;
  if (r.routers.balance) j["aux_loss"] = *r.routers.balance;
  if (r.routers.z) j["z_loss"] = *r.routers.z;
  if (!r.routers.layers.empty()) j["drop_rate"] = r.routers.drop_rate, j["expert_load"] = r.routers.load;
  j["tokens"] = r.tokens;
  j["tokens_per_second"] = shown.tokens_per_second;
  j["sol"] = shown.sol;
  j["step_time"] = shown.step_time;
  j["memory_mb"] = r.memory_mb;
  j["data_wait"] = r.wait;
  if (r.skipped) j["skipped"] = true;
  if (r.loss_scale) j["loss_scale"] = *r.loss_scale, j["overflow"] = r.overflow;
  if (r.embedding_local_norm) j["embedding_local_norm"] = *r.embedding_local_norm;
  if (r.weight_norm) j["weight_norm"] = *r.weight_norm;
  if (r.gradient_zeros) j["gradient_zeros"] = *r.gradient_zeros;
  if (r.tflops) j["tflops"] = *r.tflops;
  for (const LocalNorm& n : r.local_norms) {
    Json& to = j["local_norms"][n.parameter];
    to["squares"] = n.squares;
    for (double s : n.squares) to["norms"].push_back(std::sqrt(s));
    if (r.ranks > 1) to["ranks"] = n.ranks;
  }
  if (r.ranks > 1) {
    const StepTraffic& t = r.traffic;
    j["comm_mb"] = t.sent_mb;
    j["comm_wait"] = t.wait;
    j["comm_wait_least"] = t.wait_least;
    j["slowest_rank"] = t.slowest;
    for (const StepTraffic::Part& p : t.parts) j["comm_" + p.axis + "_mb"] = p.mb, j["comm_" + p.axis + "_seconds"] = p.seconds;
    if (t.bubble >= 0) j["bubble"] = t.bubble;
  }
  for (auto& [name, value] : r.more) j[name] = value;
  return j;
}

class Metrics : public Hook {
 public:
  explicit Metrics(int64_t every) : every_(every) {}

  void start(RunView& run, int64_t done) override {
    std::string path = run.path("metrics.jsonl"), kept;
    int64_t lost = 0;
    // If the checkpoint is outside train.output, the rows of the file here belong to another run.
    const std::string &from = run.config().checkpoint.resume, &output = run.config().train.output;
    const bool elsewhere = from != kResumeNone && from != kResumeNewest && !lies_within(from, output);
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
      LineReader lines(path, kMetricsLine);
      while (const auto line = lines.next()) {
        Json j = Json::parse(*line, nullptr, false);  // the last line of a killed run may be half a line
        if (!j.is_object() || !j.contains("step") || !j["step"].is_number_integer()) continue;
        if (elsewhere || lost > 0 || j["step"].get<int64_t>() > done) {
          lost = std::max(lost, j["step"].get<int64_t>());
          continue;
        }
        kept.append(*line) += '\n';
      }
    } else if (error) {
      throw_system("read", path, error.value());
    }
    if (lost > done && done == 0)
      run.log().line("anew     the run begins again: it was at step {} at least, and goes on from no checkpoint", lost);
    if (lost > 0 && elsewhere)
      run.log().line("anew     metrics.jsonl: the run goes on from {}, and rows of another one lay here", from);
    write_file_atomic(path, kept);
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) throw_system("open file", path, errno);
    out_ = AppendedFile(std::move(fd), path);
  }

  void after_step(RunView& run, StepReport& r) override {
    if (!line_due(r, every_, run.config().train.steps)) return;
    try {
      out_.append(as_json(r).dump() + "\n");
    } catch (const Error& e) {
      run.log().warn("metrics of step {} are lost, the run goes on: {}", r.step, e.what());
    }
  }

 private:
  int64_t every_;
  AppendedFile out_;
};

class TensorBoard : public Hook {
 public:
  // folder "": train.output/tensorboard.
  TensorBoard(std::string folder, int64_t every) : folder_(std::move(folder)), every_(every) {}
  void start(RunView& run, int64_t done) override {
    if (folder_.empty()) folder_ = run.path("tensorboard");
    create_folders(folder_);
    const bool before = done > 0 || !event_files(folder_).empty();  // a new run drops the events of an old one
    writer_ = std::make_unique<EventWriter>(folder_, before ? done + 1 : 0);
  }
  void after_step(RunView& run, StepReport& r) override {
    if (!line_due(r, every_, run.config().train.steps)) return;
    const Shown shown(r);
    try {
      if (!r.left_out) write_step(r, shown);
      for (auto& [name, value] : r.more) writer_->scalar("train/" + name, r.step, value);
      if (r.embedding_local_norm) writer_->scalar("train/embedding_local_norm", r.step, *r.embedding_local_norm);
      for (const LocalNorm& n : r.local_norms)
        for (size_t i = 0; i < n.ranks.size(); ++i) {
          const std::string of = r.ranks > 1 ? fmt::format("{}/rank_{}", n.parameter, n.ranks[i]) : n.parameter;
          writer_->scalar("local_squares/" + of, r.step, n.squares[i]);
          writer_->scalar("local_norm/" + of, r.step, std::sqrt(n.squares[i]));
        }
      writer_->flush();
    } catch (const Error& e) {
      run.log().warn("TensorBoard file: {}; the run goes on", e.what());
    }
  }

 private:
  void write_step(const StepReport& r, const Shown& shown) {
    if (r.has_loss()) writer_->scalar("train/loss", r.step, r.loss);
    if (shown.several && shown.has_loss) writer_->scalar("train/mean_loss", r.step, shown.loss);
    writer_->scalar("train/lr", r.step, r.lr);
    if (!r.overflow) writer_->scalar("train/grad_norm", r.step, r.grad_norm);
    if (r.loss_scale) writer_->scalar("train/loss_scale", r.step, *r.loss_scale);
    if (r.weight_norm) writer_->scalar("train/weight_norm", r.step, *r.weight_norm);
    if (r.gradient_zeros) writer_->scalar("train/gradient_zeros", r.step, static_cast<double>(*r.gradient_zeros));
    if (r.tflops) writer_->scalar("speed/tflops", r.step, *r.tflops);
    for (const auto& [name, value] : r.preferences) writer_->scalar("train/" + name, r.step, value);
    if (r.routers.balance) writer_->scalar("train/aux_loss", r.step, *r.routers.balance);
    if (r.routers.z) writer_->scalar("train/z_loss", r.step, *r.routers.z);
    for (size_t i = 0; i < r.routers.layers.size(); ++i) {
      writer_->scalar(fmt::format("drop_rate/{}", r.routers.layers[i]), r.step, r.routers.drop_rate[i]);
      writer_->scalar(fmt::format("expert_load/{}", r.routers.layers[i]), r.step, r.routers.load[i]);
    }
    writer_->scalar("speed/tokens_per_second", r.step, shown.tokens_per_second);
    writer_->scalar("speed/sol", r.step, shown.sol);
    writer_->scalar("memory/resident_mb", r.step, r.memory_mb);
    if (r.ranks > 1) {
      writer_->scalar("ranks/wait_most", r.step, r.traffic.wait);
      writer_->scalar("ranks/wait_least", r.step, r.traffic.wait_least);
      if (r.traffic.bubble >= 0) writer_->scalar("ranks/bubble", r.step, r.traffic.bubble);
      for (const StepTraffic::Part& p : r.traffic.parts) writer_->scalar("ranks/" + p.axis + "_seconds", r.step, p.seconds);
    }
  }

  std::string folder_;
  int64_t every_;
  std::unique_ptr<EventWriter> writer_;
};

// Returns "wait 12 %, 3 % on rank 2, the slowest  bubble 9 %".
std::string waiting(const StepTraffic& t) {
  std::string out =
      fmt::format("  wait {:.0f} %, {:.0f} % on rank {}, the slowest", 100 * t.wait, 100 * t.wait_least, t.slowest);
  return t.bubble >= 0 ? out + fmt::format("  bubble {:.0f} %", 100 * t.bubble) : out;
}

// Returns "  aux 2.0312  dropped 1.2 % in layer 3" for the layer that drops most.
std::string of_experts(const RouterReport& r) {
  std::string out = r.balance ? fmt::format("  aux {:.4f}", *r.balance) : "";
  const auto most = std::max_element(r.drop_rate.begin(), r.drop_rate.end());
  if (most == r.drop_rate.end() || *most == 0) return out;
  return out +
         fmt::format("  dropped {:.2f} % in layer {}", 100 * *most, r.layers[static_cast<size_t>(most - r.drop_rate.begin())]);
}

class Console : public Hook {
 public:
  Console(int64_t every, bool bar) : every_(every), bar_(bar) {}
  void start(RunView&, int64_t) override { average_ = 0; }
  void after_step(RunView& run, StepReport& r) override {
    std::string added;
    for (auto& [name, value] : r.more) added += fmt::format("  {} {:.4f}", name, value);
    if (r.left_out) return run.log().line("step {}/{}  skipped (data.skip_steps){}", r.step, run.config().train.steps, added);
    if (!r.skipped && r.has_loss()) losses_.push_back(r.loss);
    if (losses_.size() > kLast) losses_.pop_front();
    average_ = average_ == 0 ? r.step_time : 0.9 * average_ + 0.1 * r.step_time;
    int64_t steps = run.config().train.steps;
    std::string left = human_time(average_ * static_cast<double>(steps - r.step));
    std::string width = std::to_string(steps);
    if (line_due(r, every_, steps)) {
      const Shown shown(r);
      std::string more;
      for (const auto& [name, value] : r.preferences)
        if (name == "rewards/margins" || name == "rewards/accuracies") more += fmt::format("  {} {:.4f}", name, value);
      more += of_experts(r.routers);
      if (r.ranks > 1) more += waiting(r.traffic);
      if (r.loss_scale) more += fmt::format("  scale {:g}{}", *r.loss_scale, r.overflow ? "  overflow" : "");
      more += added;
      if (r.embedding_local_norm) more += fmt::format("  embedding_local_norm {:.6g}", *r.embedding_local_norm);
      run.log().line("step {:>{}}/{}  loss {}  lr {:.2e}  norm {}  {:>7} tok/s  sol {:.2f}  {:.0f} ms  left {}{}", r.step,
                     width.size(), steps, shown.loss_text(4), r.lr, r.overflow ? "-" : fmt::format("{:.3f}", r.grad_norm),
                     std::llround(shown.tokens_per_second), shown.sol, 1000 * shown.step_time, left,
                     r.skipped ? more + "  skipped" : more);
      for (const LocalNorm& n : r.local_norms)
        for (size_t i = 0; i < n.ranks.size(); ++i)
          run.log().line("local    {}{}  squares {:.6g}  norm {:.6g}", n.parameter,
                         r.ranks > 1 ? fmt::format(" on rank {}", n.ranks[i]) : "", n.squares[i], std::sqrt(n.squares[i]));
    }
    if (!bar_) return;
    run.log().progress(
        static_cast<double>(r.step) / static_cast<double>(steps),
        fmt::format("{}/{}  loss {}  left {}", r.step, steps, r.has_loss() ? fmt::format("{:.3f}", r.loss) : "-", left));
  }
  void finish(RunView& run, bool stopped) override {
    run.log().end_progress();
    if (stopped || losses_.empty()) return;
    double sum = 0;
    for (double loss : losses_) sum += loss;
    run.log().line("done     {}, loss {:.4f} on average over the last {}", counted(run.config().train.steps, "step"),
                   sum / static_cast<double>(losses_.size()), losses_.size());
  }

 private:
  static constexpr size_t kLast = 20;  // single losses scatter
  int64_t every_;
  bool bar_;
  double average_ = 0;
  std::deque<double> losses_;
};

class Window : public Hook {
 public:
  explicit Window(int64_t every) : every_(every) {}
  void after_step(RunView& run, StepReport& r) override {
    if (!r.skipped && line_due(r, every_, run.config().train.steps)) run.begin_window();
  }

 private:
  int64_t every_;
};

class Checkpoints : public Hook {
 public:
  explicit Checkpoints(int64_t every) : every_(every) {}
  void after_step(RunView& run, StepReport& r) override {
    if (every_ > 0 && (r.step % every_ == 0 || r.step == run.config().train.steps)) run.save_checkpoint(r.step);
  }
  // Saves again if the save of the last step has failed.
  void finish(RunView& run, bool stopped) override {
    if (!run.last_report() || (stopped ? !run.config().checkpoint.on_stop : every_ == 0)) return;
    if (const int64_t step = run.last_report()->step; !run.is_saved(step)) run.save_checkpoint(step);
  }

 private:
  int64_t every_;
};

}  // namespace

std::unique_ptr<Hook> validation_hook(int64_t every) { return std::make_unique<Validation>(every); }
std::unique_ptr<Hook> metrics_hook(int64_t every) { return std::make_unique<Metrics>(every); }
std::unique_ptr<Hook> tensorboard_hook(int64_t every) { return std::make_unique<TensorBoard>("", every); }
std::unique_ptr<Hook> tensorboard_hook_in(const std::string& folder, int64_t every) {
  return std::make_unique<TensorBoard>(folder, every);
}
std::unique_ptr<Hook> console_hook(int64_t every) { return std::make_unique<Console>(every, true); }
std::unique_ptr<Hook> lines_hook(int64_t every) { return std::make_unique<Console>(every, false); }
std::unique_ptr<Hook> window_hook(int64_t every) { return std::make_unique<Window>(every); }
std::unique_ptr<Hook> checkpoint_hook(int64_t every) { return std::make_unique<Checkpoints>(every); }

}  // namespace ravine
