#include "train/trainer.h"

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "files/checksum.h"
#include "files/temporary.h"
#include "optim/schedule.h"
#include "plan/machine.h"
#include "runs/shared_folder.h"
#include "runs/stop_request.h"
#include "step/forensics.h"
#include "train/advice.h"
#include "train/announce.h"
#include "train/export.h"
#include "train/open_run.h"
#include "train/state_norms.h"
#include "train/validation.h"

namespace ravine {

Trainer::Trainer(Config config, Backend backend, Log& log, World* world, RunStyle style)
    : started_(seconds_now()),
      style_(std::move(style)),
      run_(std::move(config), log, world, style_.files),
      progress_(open_run(run_, backend)),
      abnormal_(path(kAbnormalFile)) {
  if (!run_.config().probe.inject.empty()) injection_ = std::make_unique<FaultInjection>(run_.config().probe.inject);
}

void Trainer::run(StopToken& stop) {
  stop_ = &stop;
  take_folder();
  if (first())
    stop.say_when_asked(
        "stopping: before the first step, as soon as all is opened; Ctrl-C again ends at once, and nothing is lost",
        "ended at once: no step was made, nothing is lost");
  run_.ranks.all().barrier();
  if (!prepare()) return;
  start_hooks();
  finish(run_steps());
}

void Trainer::take_folder() {
  if (!first()) return;
  run_.folder->hold();
  run_.log.open(path("log.txt"));
  clean_leftovers(checkpoints_of(run_.config()));
  if (run_.files) run_.files->clean_leftovers(run_.config());
  if (run_.ranks.size() == 1) keep_tokens(run_.data, run_.config(), run_.log);
}

// Prepares the first step: memory, weights, the resumed state, and the files of the run. Returns false if nothing is
// left to do.
bool Trainer::prepare() {
  publish_left(run_);
  const std::optional<ResumePoint> from = find_checkpoint(run_, progress_);
  if (from && is_complete(run_, progress_.done, from->folder)) return false;
  const Ranks& ranks = run_.ranks;
  peak_flops_ = peak_of_ranks(ranks, run_.world ? run_.world->local_size() : 1, run_.spec->types.compute);
  step_seconds_ = announce(run_, progress_.done, peak_flops_);
  run_.engine->allocate();
  if (injection_) run_.engine->ctx().add_observer(injection_.get());
  const uint64_t number = first() ? std::stoull(random_digits(), nullptr, 16) : 0;
  const auto shared = static_cast<uint64_t>(gather_integers(ranks.all(), static_cast<int64_t>(number))[0]);
  const std::string process = checksum_text(shared);
  check_shared(ranks, run_.world, run_.config().train.output, process);
  if (run_.config().health.stop_norm > 0) abnormal_.read();
  saves_ = std::make_unique<Saves>(run_.config(), run_.log, ranks, *run_.folder, run_.bytes, shared, progress_.done);
  if (run_.files) saves_->publish_as(*run_.files, run_.files->publisher(run_));
  place_data(run_, from ? &*from : nullptr, progress_);
  references_ = reference_log_probs(run_, progress_, *stop_);
  begin_run(run_, from ? &*from : nullptr, process, progress_);
  began_at_ = progress_.done, updates_before_ = run_.engine->optimizer().steps();
  for (StepWatch* w : watches_) w->begin(run_, progress_.done);
  refuse_without_room(run_.config(), ranks, run_.bytes, progress_.done);
  if (first()) {
    warn_of_little_room(run_.config(), run_.log, run_.bytes, progress_.done);
    run_.folder->write_config(run_.spec->config_text);
  }
  return true;
}

void Trainer::start_hooks() {
  const Config& c = run_.config();
  hooks_.push_back(validation_hook(c.train.valid_every));
  if (first()) {
    hooks_.push_back(metrics_hook(c.log.every));
    if (c.log.tensorboard) hooks_.push_back(style_.tensorboard(steps_between_points(c.log)));
    hooks_.push_back(style_.console(c.log.every));
  }
  hooks_.push_back(window_hook(c.log.every));
  hooks_.push_back(checkpoint_hook(c.checkpoint.every));
  if (first())
    for (const auto& make : style_.more) hooks_.push_back(make());
  for (auto& h : hooks_) h->start(*this, progress_.done);
}

void Trainer::replay(int64_t last, const StepMade& made) {
  const Config& c = run_.config();
  const std::optional<ResumePoint> from = find_checkpoint(run_, progress_);
  const int64_t done = progress_.done;
  if (last <= done || last > c.train.steps)
    throw UserError(fmt::format("step {} does not follow step {}", last, done), from ? c.checkpoint.resume : c.train.output,
                    fmt::format("a replay runs from a checkpoint (or the start) to a later step of its run, which has {} steps",
                                c.train.steps),
                    "choose a later step, or an earlier checkpoint");
  if (follows_validation(c.schedule) && c.train.valid_every > 0 &&
      done / c.train.valid_every != (last - 1) / c.train.valid_every)
    throw UserError(fmt::format("between steps {} and {} is a validation that sets the learning rate", done, last),
                    c.checkpoint.resume, "a replay does not validate", "replay from the last checkpoint before the step");
  run_.engine->allocate();
  if (injection_) run_.engine->ctx().add_observer(injection_.get());
  place_data(run_, from ? &*from : nullptr, progress_);
  references_ = reference_log_probs(run_, progress_, *stop_);
  begin_run(run_, from ? &*from : nullptr, "", progress_);
  for (StepWatch* w : watches_) w->begin(run_, done);
  open_loader();
  while (progress_.done < last) {
    StepBatches batches = loader_->next();
    const int64_t step = progress_.done + 1;
    if (!batches.skipped) {
      const UpdateRates rates = this->rates();
      const StepResult r = compute(batches, step, rates);
      if (made) made(step, r.loss, rates.lr);
      run_.log.line("step {:>6}  loss {:.9g}  gradient norm {:.9g}{}", step, r.loss, r.grad_norm,
                    r.verdict == Verdict::apply ? "" : "  (no update)");
      if (r.verdict == Verdict::stop && step < last)
        fail("step {} ends the run, so there is no step {}: its loss is {}, its gradient norm {}", step, last, r.loss,
             r.grad_norm);
    }
    progress_.done = step;
  }
}

void Trainer::open_loader() {
  const Config& c = run_.config();
  LoaderOptions loading{.global_batch = c.train.global_batch,
                        .micro_batch = c.train.micro_batch,
                        .first_step = progress_.done,
                        .prefetch = c.data.prefetch,
                        .skip_steps = c.data.skip_steps,
                        .rank = run_.ranks.at().data,
                        .ranks = run_.ranks.mesh().data,
                        .round_robin = run_.spec->layout.round_robin,
                        .history = progress_.history};
  loader_ = std::make_unique<Loader>(*run_.data.train, loading);
}

// Runs all steps. Returns true if the run was stopped before the last step.
bool Trainer::run_steps() {
  const Config& c = run_.config();
  open_loader();
  bool stopped = stop_wanted();
  while (progress_.done < c.train.steps && !stopped) {
    say_what_stops();
    step(progress_.done + 1);
    stopped = stop_wanted() || ends_by_plan();
  }
  return stopped && progress_.done < c.train.steps;
}

void Trainer::finish(bool stopped) {
  if (first())
    stop_->say_when_asked(
        "all steps are done: what is left to write is written first; Ctrl-C again ends at once, and the same command goes on from the last checkpoint",
        fmt::format("ended at once: {} goes on from the last checkpoint", saves_->command_that_goes_on()));
  for (auto& h : hooks_) h->finish(*this, stopped);
  saves_->wait();
  saves_->report(progress_.done);
  if (first()) clear_stop_request(run_.config().train.output);
  if (stopped) {
    if (ended_by_.empty()) saves_->end_stopped(progress_.done);
    run_.log.line("{}: {}", ended_by_, saves_->ended_early(progress_.done));
    return;
  }
  if (first()) run_.folder->check_there();
  const std::string lost = saves_->what_is_lost(progress_.done);
  const int64_t updates = run_.engine->optimizer().steps();
  if (style_.best && style_.best->loads && load_best(run_, *style_.best, progress_.done) && last_ && last_->validation)
    last_->validation = validate();
  for (auto& h : hooks_) h->ended(*this);
  if (!run_.files || run_.files->beside_model()) export_model(run_, progress_, *saves_);
  if (std::error_code error; run_.files && first() && !saves_->unpublished())
    remove_whole(checkpoints_of(run_.config()), error);
  if (!lost.empty()) fail("{}", lost);
  if (progress_.done == began_at_ || updates > updates_before_) return;
  run_.log.warn(
      "no step of {} changed a weight: {}", progress_.done - began_at_,
      overflowed_
          ? fmt::format("each overflowed, at last at a loss scale of {}; lower precision.loss_scale or precision.scale_initial",
                        progress_.loss_scale->scale())
          : std::string("each was left out, by health.skip_norm or data.skip_steps"));
}

void Trainer::step(int64_t step) {
  meter_.begin(run_.ranks);
  if (first()) run_.folder->check_there();
  double began = seconds_now();
  StepBatches batches = loader_->next();
  double waited = seconds_now() - began;
  if (batches.skipped) return leave_out(step);
  const UpdateRates rates = this->rates();
  const StepResult r = compute(batches, step, rates);
  StepReport report = report_of(r, step, rates);
  report.step_time = seconds_now() - began;
  report.wait = waited;
  if (r.verdict == Verdict::stop) end_by_rule(batches, step, r, report);
  if (r.valid == 0 && !told_of_no_labels_) {
    run_.log.warn(
        "step {} has no label to learn, so it has no loss and its gradient is 0: weight decay, what the optimizer kept of steps before and auxiliary losses still change the weights. Look at it by ravine data show --step {}",
        step, step);
    told_of_no_labels_ = true;
  }
  say_empty_micro_batches(batches, step, r);
  progress_.done = step;
  progress_.tokens += r.tokens;
  report.next_lr = this->rates().lr;
  report.tokens = progress_.tokens;
  report.tokens_per_second = static_cast<double>(r.tokens) / report.step_time;
  report.sol = share_of_peak(report.flops / report.step_time);
  if (figure_due(run_.config(), "tflops", step)) report.tflops = report.flops / report.step_time / report.ranks / 1e12;
  report.memory_mb = static_cast<double>(resident_memory()) / (1 << 20);
  report.traffic = meter_.end(run_.ranks, report.step_time);
  if (!report.skipped) progress_.window.add(r.loss, r.valid, r.tokens, report.step_time);
  report.window = progress_.window;
  end_step(report);
  if (report.skipped && !report.overflow) say_skipped(step, r);
}

StepReport Trainer::report_of(const StepResult& r, int64_t step, const UpdateRates& rates) {
  const Config& c = run_.config();
  StepEngine& engine = *run_.engine;
  StepReport report;
  report.step = step;
  report.has_line = style_.first_line && step == 1;
  report.skipped = r.verdict == Verdict::skip;
  if (progress_.loss_scale) {
    report.overflow = is_overflow(r.loss, r.grad_norm);
    overflowed_ = overflowed_ || report.overflow;
    report.loss_scale = progress_.loss_scale->scale();
  }
  report.loss = r.loss;
  report.lr = rates.lr;
  report.grad_norm = r.grad_norm;
  report.valid = r.valid;
  report.preferences = r.preferences;
  report.routers = r.routers;
  report.times = r.times;
  report.ranks = run_.ranks.size();
  report.flops = static_cast<double>(r.tokens) * run_.model->training_flops_per_token(run_.data.train->columns());
  report.updates = engine.optimizer().steps();
  if (is_spike_) report.spikes = progress_.spikes.in_a_row();
  if (c.health.embedding_norm > 0) report.embedding_local_norm = embedding_squares(engine);
  report.gradient_zeros = r.gradient_zeros;
  if (figure_due(c, "weight_norm", step)) report.weight_norm = weight_norm(engine);
  const auto asked = [&](const char* what) { return step % c.log.monitor_every == 0 && monitors(c.log, what); };
  const std::string norms = asked("local_norm") || asked("device_local_norm") ? "*" : c.log.local_norms;
  if (!norms.empty()) report.local_norms = gather_local_norms(engine, norms);
  if (asked("optimizer_state") || asked("weight_state")) report.state_squares = state_squares(engine);
  return report;
}

// Returns flops_per_second / peak. A step above the peak shows that the measured peak was too low: the peak is raised,
// for later runs, too. The result is above 1 only if a model computes fewer FLOPs than are counted.
double Trainer::share_of_peak(double flops_per_second) {
  if (flops_per_second <= peak_flops_ || !counts_every_flop(*run_.model)) return flops_per_second / peak_flops_;
  if (first()) {
    const int local = run_.world ? run_.world->local_size() : 1;
    raise_peak_of_ranks(run_.ranks, local, run_.spec->types.compute, flops_per_second);
    if (!told_of_peak_)
      run_.log.line(
          "peak     a step reached {:.0f} GFLOP/s, more than the {:.0f} measured as this machine's peak: sol counts from the fastest step now, and the next run measures again",
          flops_per_second * 1e-9, peak_flops_ * 1e-9);
  }
  told_of_peak_ = true;
  peak_flops_ = flops_per_second;
  return 1;
}

// Reports a step that data.skip_steps skips.
void Trainer::leave_out(int64_t step) {
  progress_.done = step;
  StepReport report;
  report.step = step;
  report.left_out = report.skipped = true;
  report.tokens = progress_.tokens;
  end_step(report);
}

// Warns once of micro batches without labels under train.loss_average=micro.
void Trainer::say_empty_micro_batches(const StepBatches& batches, int64_t step, const StepResult& r) {
  if (told_of_empty_micro_ || r.valid == 0 || run_.config().train.loss_average != LossAverage::micro) return;
  const auto empty =
      std::count_if(batches.micro.begin(), batches.micro.end(), [](const MicroBatch& m) { return m.valid_tokens == 0; });
  if (empty == 0) return;
  told_of_empty_micro_ = true;
  run_.log.warn(
      "step {}: {} of {} micro batches without a label; with train.loss_average=micro each counts as a mean of 0, as in Megatron: loss and gradients are smaller by their share",
      step, empty, batches.micro.size());
}

void Trainer::end_step(StepReport& report) {
  for (auto& h : hooks_) h->after_step(*this, report);
  last_ = report;
  saves_->report(progress_.done);
}

// Returns the learning rates of the next update.
UpdateRates Trainer::rates() const {
  const Config& c = run_.config();
  const Optimizer& optimizer = run_.engine->optimizer();
  UpdateRates rates = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, optimizer.steps());
  if (follows_validation(c.schedule)) rates.lr = progress_.plateau.rate();
  rates.lr = optimizer.rate(rates.lr);
  return rates;
}

StepResult Trainer::compute(StepBatches& batches, int64_t step, const UpdateRates& rates) {
  for (MicroBatch& m : batches.micro) references_.train.fill(m);
  if (injection_) injection_->begin_step(step);
  for (StepWatch* w : watches_) w->begin_step(step);
  const double scale = progress_.loss_scale ? progress_.loss_scale->scale() : 1;
  StepResult r = run_.engine->run(
      batches.micro, step, rates,
      [&](const Unit& u) {
        if (saves_) saves_->wait_unit(u.index);
      },
      [&](double loss, double norm) {
        for (StepWatch* w : watches_) w->before_update();
        return decide(step, loss, norm);
      },
      scale);
  for (StepWatch* w : watches_) w->end_step(r, rates, scale);
  if (injection_ && !injection_->missed().empty())
    run_.log.warn("step {}: probe.inject found no call of {}", step, injection_->missed());
  return r;
}

// Decides a step. An overflow changes the loss scale; a finite step is judged by its norm.
Verdict Trainer::decide(int64_t step, double loss, double norm) {
  const HealthOptions& health = run_.config().health;
  const auto judge = [&] {
    const Verdict verdict = progress_.spikes.judge(loss, norm);
    is_spike_ = health.skip_norm > 0 && verdict != Verdict::apply;
    return verdict;
  };
  is_spike_ = false;
  if (health.stop_not_finite && is_overflow(loss, norm)) return Verdict::stop;
  if (health.stop_norm > 0 && norm >= health.stop_norm && !abnormal_.seen(step)) return Verdict::stop;
  if (!progress_.loss_scale) return judge();
  const bool overflow = is_overflow(loss, norm), goes_on = progress_.loss_scale->update(overflow);
  if (overflow) {
    progress_.spikes.go_on_from(0);  // an overflow is no spike, and ends a row of spikes
    return goes_on ? Verdict::skip : Verdict::stop;
  }
  return judge();
}

// Ends the run after a step with the verdict stop. Messages of health.* have the text of the program that the option is
// from, so that readers of its logs can read them.
void Trainer::end_by_rule(const StepBatches& batches, int64_t step, const StepResult& r, StepReport& report) {
  StepEngine& engine = *run_.engine;
  const HealthOptions& health = run_.config().health;
  saves_->wait();
  saves_->report(progress_.done);
  for (auto& h : hooks_) h->last_words(*this, report);
  const std::string left =
      fmt::format("the weights are those after {} updates, the last checkpoint is untouched", engine.optimizer().steps());
  if (health.stop_not_finite && is_overflow(r.loss, r.grad_norm))
    fail("loss is {}, local_norm is None, global_norm is [{}], terminate training (step {}, health.stop_not_finite); {}",
         r.loss, r.grad_norm, step, left);
  if (health.stop_norm > 0 && r.grad_norm >= health.stop_norm && !abnormal_.seen(step)) {
    if (first()) abnormal_.note(step, r.grad_norm);
    run_.log.line("Current global norm [{}] is greater equal than threshold {}, stop training...",
                  static_cast<float>(r.grad_norm), health.stop_norm);
    fail(
        "TREError occurred: the gradient norm of step {} is {}, health.stop_norm {}; {}. The same command goes on, and past this step",
        step, r.grad_norm, health.stop_norm, left);
  }
  if (progress_.loss_scale && is_overflow(r.loss, r.grad_norm))
    fail(
        "step {}: gradients overflow at the smallest loss scale (precision.scale_min={}): the weights are those after {} updates, the last checkpoint is untouched; lower optimizer.lr, or take precision.compute=bf16, whose range is that of f32",
        step, run_.config().precision.scale_min, engine.optimizer().steps());
  if (health.skip_norm == 0) {
    const std::string origin = run_.config().train.find_nan ? origin_of_nan(engine, batches.micro, step, injection_.get())
                                                            : "; set train.find_nan=true to have the first op named";
    end_not_finite(engine, step, r, origin);
  }
  say_skipped(step, r);
  if (run_.config().log.style == LogStyle::mindformers)  // its log has the rest
    fail("step {} ends the run (health.skip_count={}): the weights are those of step {}, the last checkpoint is untouched",
         step, health.skip_count, step - progress_.spikes.in_a_row());
  fail(
      "Current global norm [{}] of step {} has been {} consecutive times greater than threshold {}, stop training (health.skip_count={}); the weights are those of step {}, the last checkpoint is untouched",
      r.grad_norm, step, progress_.spikes.in_a_row(), health.skip_norm, health.skip_count, step - progress_.spikes.in_a_row());
}

// Logs a step that health.skip_norm skipped, after its line; only the first of two lines if the step ends the run. In
// the style of MindFormers these lines are logged by its console.
void Trainer::say_skipped(int64_t step, const StepResult& r) {
  const HealthOptions& health = run_.config().health;
  if (run_.config().log.style == LogStyle::mindformers) return;
  run_.log.line("opt_global_step: {}, skip_data_grad_norm_threshold: {}, is_skip: [ True]", run_.engine->optimizer().steps(),
                health.skip_norm);
  if (r.verdict == Verdict::stop) return;
  run_.log.line("Current global norm [{}] of step {} has been {} consecutive times greater than threshold: {}",
                static_cast<float>(r.grad_norm), step, progress_.spikes.in_a_row(), health.skip_norm);
}

bool Trainer::stop_wanted() const {
  return any(run_.ranks.all(), stop_->requested() || (first() && stop_requested(run_.config().train.output)));
}

// True if train.exit_every or train.exit_minutes end the run after this step. All ranks call it together and get the
// same.
bool Trainer::ends_by_plan() {
  const TrainOptions& t = run_.config().train;
  const double minutes = (seconds_now() - started_) / 60;
  if (t.exit_every > 0 && progress_.done % t.exit_every == 0)
    ended_by_ = fmt::format("train.exit_every={}", t.exit_every);
  else if (t.exit_minutes > 0 && any(run_.ranks.all(), first() && minutes > t.exit_minutes))
    ended_by_ = fmt::format("train.exit_minutes={}", t.exit_minutes);
  return !ended_by_.empty();
}

// Sets the answer to a signal during the next step: the step that is finished first, its duration, and the loss by a
// second signal.
void Trainer::say_what_stops() const {
  if (!first()) return;
  const int64_t saved = saves_->newest().value_or(0);
  const double seconds = last_ && last_->step_time > 0 ? last_->step_time : step_seconds_;
  stop_->say_when_asked(
      fmt::format("stopping: step {} is finished {}first (a step takes {}); Ctrl-C again ends at once and {}",
                  progress_.done + 1, run_.config().checkpoint.on_stop ? "and saved " : "", roughly(seconds),
                  saved > 0 ? fmt::format("loses what came after {}", checkpoint_name(saved))
                            : "loses the whole run: nothing is saved yet"),
      fmt::format("ended at once: {}", saved > 0 ? fmt::format("what came after {} is not saved; {} goes on from there",
                                                               checkpoint_name(saved), saves_->command_that_goes_on())
                                                 : std::string("nothing was saved, the same command begins again")));
}

std::optional<ValidationResult> Trainer::validate() {
  return validation_result(*run_.engine, run_.data.valid.get(), run_.config().train, references_.valid, style_.valid_rows);
}

void Trainer::follow(double validation_loss) {
  const ScheduleOptions& schedule = run_.config().schedule;
  if (!follows_validation(schedule)) return;
  PlateauRate& plateau = progress_.plateau;
  const double was = plateau.rate();
  plateau.observe(validation_loss);
  if (plateau.rate() != was)
    run_.log.line("rate     {:.4g}, was {:.4g}: schedule.type={} follows the validation loss", plateau.rate(), was,
                  name(schedule.type));
}

void Trainer::save_checkpoint(int64_t step) {
  const bool stays = style_.best && style_.best->loads && first();
  const auto best = stays ? best_step(path("metrics.jsonl"), run_.config(), step, *style_.best) : std::optional<BestStep>{};
  saves_->save(step, checkpoint_state(run_, progress_), embedding_squares(*run_.engine), best ? best->step : 0);
}

}  // namespace ravine
