#include "runs/saves.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "files/mapped_file.h"
#include "files/temporary.h"
#include "io/checkpoint_health.h"
#include "runs/opened_run.h"

namespace ravine {
namespace {

// The key kUnhealthy of a hidden state: the record of health uses the name of the published checkpoint.
constexpr const char* kHiddenVerdict = "hidden_unhealthy";

std::string hidden_state(const Config& config, int64_t step) { return checkpoints_of(config) + "/" + checkpoint_name(step); }

// Publishes a state, and then removes its hidden folder. On an Error the state is kept.
void publish_state(const Config& config, Log& log, const Publisher& publish, int64_t step) {
  const std::string folder = hidden_state(config, step);
  Json scalars = CheckpointReader(folder, false).scalars();
  if (const auto verdict = scalars.find(kHiddenVerdict); verdict != scalars.end()) scalars[kUnhealthy] = Json(*verdict);
  log.line("written  {}", publish(folder, step, scalars));
  std::error_code error;
  remove_whole(folder, error);
}

std::string not_published(const Config& config, int64_t step, const std::string& why) {
  return fmt::format("step {} is saved in {}, and could not be written for checkpoint.layout={}: {}", step,
                     hidden_state(config, step), name(config.checkpoint.layout), why);
}

// The newest state that is left in the hidden folder; damaged ones are a warning where `at`, a published one, is there.
std::optional<std::string> left_state(const OpenedRun& run, const std::string& at) {
  const std::string hidden = checkpoints_of(run.config());
  try {
    return newest_checkpoint(hidden, [&](const std::string& text) { run.log.warn("{}", text); });
  } catch (const UserError&) {
    if (at.empty()) throw;
    run.log.warn("no state in {} can be used; the run goes on from {}, which was written before", hidden, at);
    return {};
  }
}

}  // namespace

void publish_left(const OpenedRun& run) {
  const Config& config = run.config();
  std::string refusal;
  if (run.ranks.first() && run.files && config.checkpoint.resume == kResumeNewest) {
    int64_t step = 0;
    try {
      const bool any = !checkpoints_to_try(checkpoints_of(config)).empty();
      const std::string at = any ? run.files->to_resume(config) : "";
      const std::optional<std::string> left = any ? left_state(run, at) : std::nullopt;
      if (left) step = CheckpointReader(*left, false).step();
      if (left && (at.empty() || run.files->open(run, at).step < step))
        publish_state(config, run.log, run.files->publisher(run), step);
    } catch (const Error& e) {
      refusal = fmt::format(
          "{}; once that is mended the same command goes on from there, and with checkpoint.resume=none it begins anew",
          step > 0 ? not_published(config, step, e.what()) : std::string(e.what()));
    }
  }
  refusal = gather_texts(run.ranks.all(), refusal)[0];
  if (!refusal.empty()) fail("{}", refusal);
}

std::string checkpoints_of(const Config& config) {
  return run_path(config, config.checkpoint.layout == CheckpointLayout::ravine ? "checkpoints" : ".saving");
}

Saves::Saves(const Config& config, Log& log, const Ranks& ranks, RunFolder& folder, const SavedBytes& bytes, uint64_t run,
             int64_t from)
    : config_(config), log_(log), ranks_(ranks), folder_(folder), bytes_(bytes), writer_(ranks.rank(), ranks.size(), run) {
  if (from > 0) newest_ = from;
}

void Saves::save(int64_t step, TrainState state, double embedding_squares, int64_t best) {
  wait();
  if (ranks_.first()) folder_.check_there();
  check_mapped_files();  // a truncated file reads as zeros: their result is not saved
  if (const double limit = config_.health.embedding_norm; limit > 0) {
    const bool judged = ranks_.mesh().pipeline > 1 && ranks_.at().pipeline == 0;
    unhealthy_[step] = any(ranks_.all(), judged && !(embedding_squares <= limit));  // also true if it is not finite
  }
  if (const auto verdict = unhealthy_.find(step); verdict != unhealthy_.end())
    state.scalars[publish_ ? kHiddenVerdict : kUnhealthy] = verdict->second;
  writer_.save(checkpoints_of(config_), step, state, publish_ ? 0 : config_.checkpoint.keep, best);
}

// A rank whose part failed, and that could not record it in the folder, reports it to the first rank here.
void Saves::wait() {
  if (any(ranks_.all(), writer_.wait_part())) writer_.give_up_parts();
  writer_.wait();
}

bool Saves::is_saved(int64_t done) {
  wait();
  report(done);
  return !any(ranks_.all(), ranks_.first() && newest_ != done);  // only the first rank knows if it is complete
}

void Saves::report(int64_t done) {
  bool saved = false;
  if (auto s = writer_.take_saved()) {
    saved = true;
    newest_ = s->step;
    if (ranks_.first() && !publish_) folder_.note_saved(s->step);
    publish(s->step);
    warn_of_health(s->step);
    log_.line("saved    {}: {} in {:.2f} s, {:.2f} GB/s", checkpoint_name(s->step), human_bytes(static_cast<double>(s->bytes)),
              s->seconds, 1e-9 * static_cast<double>(s->bytes) / s->seconds);
  }
  if (auto warning = writer_.take_warning()) {
    if (!saved) not_saved_ = *warning;
    if (!saved && unpublished_) publish(*unpublished_);
    const int64_t every = config_.checkpoint.every,
                  next = every > 0 ? std::min(config_.train.steps, (done / every + 1) * every) : 0;
    log_.warn("{}{}", *warning,
              saved || next <= done ? "" : fmt::format("; the next is tried after step {}, or when the run stops", next));
  }
}

void Saves::publish(int64_t step) {
  if (!publish_ || !ranks_.first()) return;
  std::error_code error;
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_of(config_), error))
    if (checkpoint_step(entry.path().filename().string()).value_or(step) != step) others.push_back(entry.path());
  for (const auto& other : others) remove_whole(other.string(), error);
  try {
    publish_state(config_, log_, publish_, step);
    unpublished_.reset();
  } catch (const Error& e) {
    unpublished_ = step;
    log_.warn("{}; it is tried again at the next save, and at the next start with checkpoint.resume=auto",
              not_published(config_, step, e.what()));
  }
}

void Saves::warn_of_health(int64_t step) {
  const auto verdict = unhealthy_.find(step);
  if (verdict == unhealthy_.end()) return;
  if (verdict->second)
    log_.warn(
        "{} is unhealthy: embedding_local_norm is above health.embedding_norm={} on a rank of the first stage; a resume takes an older one",
        checkpoint_name(step), config_.health.embedding_norm);
  unhealthy_.erase(verdict);
}

std::string Saves::command_that_goes_on() const {
  if (publish_ && !unpublished_) return files_->how_to_go_on(config_);
  return config_.checkpoint.resume == kResumeNewest ? "the same command" : "the same command with checkpoint.resume=auto";
}

std::string Saves::what_is_kept() const {
  if (publish_)
    return newest_ ? fmt::format("what is kept is step {}, in {}", *newest_,
                                 unpublished_ ? checkpoints_of(config_) : files_->folder(config_))
                   : std::string("no checkpoint was saved before");
  const std::string& resume = config_.checkpoint.resume;
  try {
    if (const auto newest = first_step_to_try(checkpoints_of(config_)))
      return fmt::format("what is kept is {}: once that is mended {} goes on from there",
                         checkpoints_of(config_) + "/" + checkpoint_name(*newest), command_that_goes_on());
  } catch (const Error& e) {
    return e.what();
  }
  return fmt::format("no checkpoint was saved before: once that is mended the same command begins {}; a checkpoint needs {}",
                     resume == kResumeNewest || resume == kResumeNone ? "anew" : "again at " + resume,
                     human_bytes(static_cast<double>(bytes_.checkpoint)));
}

std::string Saves::what_is_lost(int64_t done) {
  std::string lost;
  const auto model_alone = [&] {
    return fmt::format("the model of step {} is complete, in {}", done, run_path(config_, exported_name(config_)));
  };
  if (unpublished_)
    lost = fmt::format(
        "the last checkpoint is not there: step {} is saved in {} alone: once there is room {} writes it for checkpoint.layout={}{}",
        *unpublished_, hidden_state(config_, *unpublished_), command_that_goes_on(), name(config_.checkpoint.layout),
        files_->beside_model() ? "; " + model_alone() : "");
  if (config_.checkpoint.every > 0 && ranks_.first() && newest_ != done) {
    if (newest_ || !checkpoints_to_try(checkpoints_of(config_)).empty()) {
      log_.warn("no checkpoint of step {} could be saved, and only the model will hold its last steps; {}", done,
                what_is_kept());
      if (publish_ && lost.empty())
        lost = fmt::format("the last checkpoint is not there: that of step {} could not be saved{}; {}{}", done,
                           not_saved_.empty() ? "" : " (" + not_saved_ + ")", what_is_kept(),
                           files_->beside_model() ? "; " + model_alone() : "");
    } else {
      log_.warn("no checkpoint of step {} could be saved, nor any before it: only the model will hold what was trained", done);
      lost = fmt::format(
          "the run was not saved, only its model is, in {}: no checkpoint could be written{}; a checkpoint needs {}. The model is complete, but nothing can go on from it: to train again "
          "begin anew in another train.output, or here with checkpoint.resume=none, which replaces the model",
          run_path(config_, exported_name(config_)), not_saved_.empty() ? "" : " (" + not_saved_ + ")",
          human_bytes(static_cast<double>(bytes_.checkpoint)));
    }
  }
  return gather_texts(ranks_.all(), lost)[0];
}

void Saves::end_stopped(int64_t done) { throw Stopped(ended_early(done)); }

std::string Saves::ended_early(int64_t done) {
  std::string lost;
  const bool meant = !config_.checkpoint.on_stop && not_saved_.empty();
  if (ranks_.first() && newest_ != done && done > 0 && !meant)
    lost = fmt::format("stopped after step {}, which was not saved{}; {}", done, not_saved_.empty() ? "" : ": " + not_saved_,
                       what_is_kept());
  lost = gather_texts(ranks_.all(), lost)[0];  // only the first rank knows if it is complete
  if (!lost.empty()) fail("{}", lost);
  if (meant && newest_ != done && done > 0)
    return fmt::format("stopped after step {}, not saved (checkpoint.on_stop=false); {}", done,
                       newest_ ? fmt::format("{} goes on from step {}", command_that_goes_on(), *newest_)
                               : std::string("no checkpoint was saved before"));
  return done > 0 ? fmt::format("stopped after step {}, saved; {} goes on from there", done, command_that_goes_on())
                  : "stopped before the first step; the same command begins there";
}

}  // namespace ravine
