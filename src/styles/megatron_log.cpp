#include "styles/megatron_log.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "styles/event_files.h"

namespace ravine {
namespace {

constexpr double kMostExponent = 20;  // largest exponent of a perplexity

double perplexity(double loss) { return std::exp(std::min(kMostExponent, loss)); }

std::optional<double> valid_loss(const StepReport& r) {
  for (const auto& [name, value] : r.more)
    if (name == "valid_loss") return value;
  return {};
}

class MegatronConsole : public Hook {
 public:
  explicit MegatronConsole(int64_t every) : every_(every) {}

  void after_step(RunView& run, StepReport& r) override {
    const Config& c = run.config();
    ++steps_;
    seconds_ += r.step_time;
    flops_ += r.flops;
    if (r.skipped)
      ++skipped_;
    else if (r.has_loss())
      loss_ += r.loss, ++losses_;
    if (r.step % every_ == 0) {
      if (!r.local_norms.empty() && !c.log.local_norms.empty()) run.log().line("{}", local_norm_lines(r.local_norms));
      print(run, r);
    }
    if (const auto loss = valid_loss(r)) {
      const bool last = r.step == c.train.steps;
      run.log().line("{}", validation_lines(fmt::format("iteration {}{}", r.step, last ? " on validation set" : ""), *loss));
    }
    run.log().progress(static_cast<double>(r.step) / static_cast<double>(c.train.steps),
                       fmt::format("{}/{}", r.step, c.train.steps));
  }
  void finish(RunView& run, bool) override { run.log().end_progress(); }

 private:
  void print(RunView& run, const StepReport& r) {
    const Config& c = run.config();
    IterationLine line{.iteration = r.step,
                       .iterations = c.train.steps,
                       .samples = r.step * c.train.global_batch,
                       .milliseconds = 1000 * seconds_ / static_cast<double>(steps_),
                       .lr = r.next_lr,
                       .batch = c.train.global_batch,
                       .loss_scale = r.loss_scale.value_or(1),
                       .skipped = skipped_};
    if (losses_ > 0) line.loss = loss_ / static_cast<double>(losses_);
    if (!r.skipped) line.grad_norm = r.grad_norm, line.zeros = r.gradient_zeros;
    line.weight_norm = r.weight_norm;
    if (r.tflops) line.tflops = flops_ / seconds_ / r.ranks / 1e12;
    run.log().line("{}", iteration_line(line));
    steps_ = skipped_ = losses_ = 0;
    loss_ = seconds_ = flops_ = 0;
  }

  int64_t every_, steps_ = 0, skipped_ = 0, losses_ = 0;
  double loss_ = 0, seconds_ = 0, flops_ = 0;
};

class MegatronTensorBoard : public Hook {
 public:
  explicit MegatronTensorBoard(int64_t every) : every_(every) {}

  void start(RunView& run, int64_t done) override {
    const std::string& given = run.config().log.tensorboard_dir;
    writer_ = event_writer(given.empty() ? run.path("tensorboard") : given, done);
  }

  void after_step(RunView& run, StepReport& r) override {
    if (r.step % every_ != 0 && r.more.empty()) return;
    const int64_t samples = r.step * run.config().train.global_batch;
    const auto one = [&](const std::string& tag, double value) {
      if (!leaves_out(run.config().log, tag)) writer_->scalar(tag, r.step, value);
    };
    const auto both = [&](const std::string& tag, double value) {
      one(tag, value);
      if (!leaves_out(run.config().log, tag)) writer_->scalar(tag + " vs samples", samples, value);
    };
    try {
      if (r.step % every_ == 0 && !r.left_out) {
        both("learning-rate", r.lr);
        both("batch-size", static_cast<double>(run.config().train.global_batch));
        if (!r.skipped && r.has_loss()) both("lm loss", r.loss);
        both("loss-scale", r.loss_scale.value_or(1));
        both("world-size", r.ranks);
        if (!r.overflow) both("grad-norm", r.grad_norm);
        if (r.gradient_zeros && !r.skipped) both("num-zeros", static_cast<double>(*r.gradient_zeros));
        if (r.weight_norm) both("params-norm", *r.weight_norm);
        if (r.tflops) one("throughput", *r.tflops);
        one("iteration-time", r.step_time);
        one("mem-allocated-bytes", r.memory_mb * (1 << 20));
      }
      if (const auto loss = valid_loss(r)) {
        both("lm loss validation", *loss);
        both("lm loss validation ppl", perplexity(*loss));
      }
      writer_->flush();
    } catch (const Error& e) {
      run.log().warn("TensorBoard file: {}; the run goes on", e.what());
    }
  }

 private:
  int64_t every_;
  std::unique_ptr<EventWriter> writer_;
};

}  // namespace

std::string local_norm_lines(const std::vector<LocalNorm>& norms) {
  std::string squares;
  for (const LocalNorm& n : norms) {
    const auto at = std::find(n.ranks.begin(), n.ranks.end(), 0);
    if (at == n.ranks.end()) continue;
    squares +=
        fmt::format("{}tensor({:.7g})", squares.empty() ? "" : ", ", n.squares[static_cast<size_t>(at - n.ranks.begin())]);
  }
  return "print torch local norm:\n[" + squares + "]";
}

std::string iteration_line(const IterationLine& l) {
  std::string text = fmt::format(" iteration {:8d}/{:8d} | consumed samples: {:12d} |", l.iteration, l.iterations, l.samples);
  text += fmt::format(" elapsed time per iteration (ms): {:.1f} |", l.milliseconds);
  // Below 1 TFLOP/s, as on a few CPU cores, one decimal is too coarse.
  if (l.tflops) text += fmt::format(" throughput per GPU (TFLOP/s/GPU): {:.{}f} |", *l.tflops, *l.tflops < 1 ? 6 : 1);
  text += fmt::format(" learning rate: {:.3E} | global batch size: {:5d} |", l.lr, l.batch);
  if (l.loss && *l.loss > 0) text += fmt::format(" lm loss: {:.6E} |", *l.loss);
  text += fmt::format(" loss scale: {:.1f} |", l.loss_scale);
  if (l.grad_norm) text += fmt::format(" grad norm: {:.3f} |", *l.grad_norm);
  if (l.zeros) text += fmt::format(" num zeros: {:.1f} |", static_cast<double>(*l.zeros));
  if (l.weight_norm) text += fmt::format(" params norm: {:.3f} |", *l.weight_norm);
  return text + fmt::format(" number of skipped iterations: {:3d} | number of nan iterations: {:3d} |", l.skipped, 0);
}

std::string validation_lines(const std::string& prefix, double loss) {
  const std::string text =
      fmt::format(" validation loss at {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", prefix, loss, perplexity(loss));
  const std::string dashes(text.size() + 1, '-');
  return dashes + "\n" + text + "\n" + dashes;
}

std::unique_ptr<Hook> megatron_console_hook(int64_t every) { return std::make_unique<MegatronConsole>(every); }
std::unique_ptr<Hook> megatron_tensorboard_hook(int64_t every) { return std::make_unique<MegatronTensorBoard>(every); }

}  // namespace ravine
