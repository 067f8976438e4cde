// Trainer: what a run writes, whether the disk has room for it, and what is left when it has not.
#include <algorithm>
#include <filesystem>

#include "engine/flat.h"
#include "files/disk_space.h"
#include "io/checkpoint.h"
#include "io/huggingface.h"
#include "train/disk_needs.h"
#include "train/open.h"
#include "train/trainer.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

std::string human(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

int64_t checkpoints_in(const std::string& folder) {
  int64_t n = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (checkpoint_step(entry.path().filename().string())) ++n;
  return n;
}

}  // namespace

// As state_of lists it, once over all ranks: weights and states of what is trained, and frozen weights where there is no
// model.path to read them from again.
int64_t Trainer::checkpoint_bytes() const {
  const std::unique_ptr<UpdateRule> rule = make_update_rule(config_.optimizer);
  const bool keeps_frozen = weights_.empty() || weights_ != began_with_;
  std::vector<Unit*> units;
  for (Unit& u : model_->params().units()) units.push_back(&u);
  int64_t bytes = 0;
  for (const Bucket& b : flat_buckets(model_->params(), units, {}, types_))
    for (const Bucket::Span& s : b.spans)
      bytes += s.param->trainable ? s.shape.count() * size_of(b.master_type) + state_bytes(*rule, *s.param, b.master_type)
               : keeps_frozen     ? s.shape.count() * size_of(b.has_master() ? b.master_type : b.copy_type)
                                  : 0;
  return bytes;
}

void Trainer::refuse_without_room(int64_t step) const {
  std::string refusal;
  if (ranks_.first()) {
    const CheckpointOptions& c = config_.checkpoint;
    const DiskNeeds needs =
        disk_needs(checkpoint_bytes_, model_bytes_, saves_from(step), c.keep, checkpoints_in(path("checkpoints")));
    const auto room = free_space(config_.train.output);
    const bool saves = saves_from(step) > 0;
    if (room && *room < needs.least)
      refusal = fmt::format(
          "no room for the run ({}): {} are free, it needs at least {}: {}the model of {}; free some, or choose another train.output{}",
          config_.train.output, human(*room), human(needs.least),
          saves ? fmt::format("a checkpoint of {} and ", human(checkpoint_bytes_)) : "", human(model_bytes_),
          saves ? ", or go without checkpoints by checkpoint.every=0" : "");
  }
  refusal = gather_texts(ranks_.all(), refusal)[0];
  if (!refusal.empty()) fail("{}", refusal);
}

int64_t Trainer::saves_from(int64_t step) const {
  const int64_t every = config_.checkpoint.every, left = std::max(int64_t{0}, config_.train.steps - step);
  return every > 0 ? left / every + (left % every != 0) : 0;
}

void Trainer::measure_what_is_saved() {
  checkpoint_bytes_ = checkpoint_bytes();
  model_bytes_ = 0;
  for (const FileTensor& t : model_->files().tensors)
    model_bytes_ += t.shape.count() * size_of(config_.checkpoint.model_dtype.value());
}

void Trainer::check_disk() {
  refuse_without_room(done_);
  if (!ranks_.first()) return;
  const CheckpointOptions& c = config_.checkpoint;
  const int64_t saves = saves_from(done_);
  const DiskNeeds needs = disk_needs(checkpoint_bytes_, model_bytes_, saves, c.keep, checkpoints_in(path("checkpoints")));
  const auto room = free_space(config_.train.output);
  if (room && *room < needs.most)
    log_.warn(
        "{} has {} free, the run may need {}: checkpoints of {} ({}, and one while it is written) and the model of {}; a checkpoint that finds no room is left "
        "out and said, earlier ones stay",
        config_.train.output, human(*room), human(needs.most), human(checkpoint_bytes_),
        c.keep == 0 ? "all are kept" : fmt::format("checkpoint.keep={}", c.keep), human(model_bytes_));
  else if (room && saves == 0 && *room < checkpoint_bytes_)
    log_.warn("{} has {} free, and a checkpoint needs {}: stopping this run will not save it", config_.train.output,
              human(*room), human(checkpoint_bytes_));
}

// With another checkpoint.resume the same command would begin where this one began, or be refused.
std::string Trainer::command_that_goes_on() const {
  return config_.checkpoint.resume == kResumeNewest ? "the same command" : "the same command with checkpoint.resume=auto";
}

// What a run that could not write goes on from; read from the disk, not remembered.
std::string Trainer::what_is_kept() const {
  try {
    if (const auto newest = first_step_to_try(path("checkpoints")))
      return fmt::format("what is kept is {}: once that is mended {} goes on from there",
                         path("checkpoints/" + checkpoint_name(*newest)), command_that_goes_on());
  } catch (const Error& e) {
    return e.what();
  }
  return fmt::format("no checkpoint was saved before: once that is mended the same command begins {}; a checkpoint needs {}",
                     config_.checkpoint.resume == kResumeNewest || config_.checkpoint.resume == kResumeNone
                         ? "anew"
                         : "again at " + config_.checkpoint.resume,
                     human(checkpoint_bytes_));
}

// At the end of a run, before its model is exported: warns where the last checkpoint failed. Where all did, what to end with
// once the model is there, on all ranks: nobody can go on from a model.
std::string Trainer::what_is_lost() {
  std::string lost;
  if (config_.checkpoint.every > 0 && last_ && ranks_.first() && saved_ != done_) {
    std::error_code error;
    if (!checkpoints_to_try(path("checkpoints")).empty()) {
      log_.warn("no checkpoint of step {} could be saved, and only the model will hold its last steps; {}", done_,
                what_is_kept());
    } else {
      log_.warn("no checkpoint of step {} could be saved, nor any before it: only the model will hold what was trained", done_);
      lost = fmt::format(
          "the run was not saved, only its model is, in {}: no checkpoint could be written{}; a checkpoint needs {}. The model is complete, but nothing can go on from it: to train again "
          "begin anew in another train.output, or here with checkpoint.resume=none, which replaces the model",
          path("model"), not_saved_.empty() ? "" : " (" + not_saved_ + ")", human(checkpoint_bytes_));
    }
  }
  return gather_texts(ranks_.all(), lost)[0];
}

void Trainer::end_stopped() {
  std::string lost;
  if (ranks_.first() && saved_ != done_ && done_ > 0)
    lost = fmt::format("stopped after step {}, which was not saved{}; {}", done_, not_saved_.empty() ? "" : ": " + not_saved_,
                       what_is_kept());
  lost = gather_texts(ranks_.all(), lost)[0];  // of ranks, the first knows whether the whole is there
  if (!lost.empty()) fail("{}", lost);
  throw Stopped(done_ > 0 ? fmt::format("stopped after step {}, saved; {} goes on from there", done_, command_that_goes_on())
                          : std::string("stopped before the first step; the same command begins there"));
}

}  // namespace ravine
