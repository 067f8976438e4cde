#include "runs/disk_needs.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "engine/flat.h"
#include "files/disk_space.h"
#include "io/checkpoint.h"
#include "io/huggingface.h"
#include "model/adapters.h"
#include "optim/make_update_rule.h"
#include "optim/optimizer.h"
#include "runs/run_folder.h"

namespace ravine {

DiskNeeds disk_needs(int64_t checkpoint, int64_t model, int64_t saves, int64_t keep, int64_t there, int64_t extra) {
  auto kept = [&](int64_t n) {
    return keep == 0 ? n : std::min(n, std::max(keep, int64_t{1}));
  };  // of n, after older checkpoints are removed
  // Bytes to add after `n` more saves. While the last one is written, the checkpoint that it replaces still exists;
  // then the model is written.
  auto needs = [&](int64_t n) {
    if (n == 0) return model;
    const int64_t before = n == 1 ? 0 : std::max(int64_t{0}, kept(there + n - 1) - there), after = kept(there + n) - there;
    return std::max((before + 1) * checkpoint + extra, after * checkpoint + model);
  };
  DiskNeeds d;
  d.least = std::max(int64_t{0}, needs(std::min<int64_t>(saves, 1)));
  d.most = std::max(d.least, needs(saves));
  return d;
}

namespace {

std::string human(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// Returns the bytes of a checkpoint, as state_of lists its tensors, once over all ranks: weights and states of trained
// parameters, and frozen weights if model.path does not have them. If an update rule keeps states on each data rank,
// they count once per rank, as after the ranks have diverged.
int64_t checkpoint_bytes(const Config& config, Model& model, const Types& types, bool keeps_frozen, int data_ranks) {
  const std::unique_ptr<UpdateRule> rule = make_update_rule(config.optimizer);
  std::vector<Unit*> units;
  for (Unit& u : model.params().units()) units.push_back(&u);
  int64_t bytes = 0, elements = 0, width = 0;
  const bool owns = data_ranks > 1 && rule->unreduced_from() > 0, parts = owns && rule->diverges();
  for (const Bucket& b : flat_buckets(model.params(), units, {}, types))
    for (const Bucket::Span& s : b.spans) {
      bytes += s.param->policy.trainable
                   ? s.shape.count() * size_of(b.master_type) + state_bytes(*rule, *s.param, b.master_type)
               : keeps_frozen || changes(*s.param) ? s.shape.count() * size_of(b.has_master() ? b.master_type : b.copy_type)
                                                   : 0;
      if (!owns || !s.param->policy.trainable) continue;
      width = size_of(b.master_type), elements += s.shape.count();
      if (rule->sees() != Whole::model) bytes += data_ranks * rule->own_count(s.shape.count(), data_ranks) * width;
      if (parts) bytes += data_ranks * (s.shape.count() * width + local_state_bytes(*rule, *s.param, b.master_type));
    }
  if (owns && rule->sees() == Whole::model) bytes += data_ranks * rule->own_count(elements, data_ranks) * width;
  return bytes;
}

// The disk space that a run from this step needs, and the free space.
struct DiskRoom {
  DiskRoom(const Config& config, const SavedBytes& bytes, int64_t step) {
    const int64_t every = config.checkpoint.every, left = std::max(int64_t{0}, config.train.steps - step);
    saves = every > 0 ? left / every + (left % every != 0) : 0;
    int64_t there = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(run_path(config, "checkpoints"), error))
      if (checkpoint_step(entry.path().filename().string())) ++there;
    // else the hidden state exists next to the published files
    const bool own = config.checkpoint.layout == CheckpointLayout::ravine;
    needs = disk_needs(bytes.checkpoint, bytes.model, saves, config.checkpoint.keep, there, own ? 0 : bytes.checkpoint);
    free = free_space(config.train.output);
  }
  int64_t saves = 0;  // saves still to come
  DiskNeeds needs;
  std::optional<int64_t> free;  // empty: unknown
};

std::string twice(const Config& config) {
  return config.checkpoint.layout == CheckpointLayout::ravine
             ? ""
             : fmt::format(", twice while it is written for checkpoint.layout={},", name(config.checkpoint.layout));
}

}  // namespace

SavedBytes saved_bytes(const Config& config, Model& model, const Types& types, bool keeps_frozen, int data_ranks) {
  SavedBytes bytes{.checkpoint = checkpoint_bytes(config, model, types, keeps_frozen, data_ranks)};
  const bool adapter = config.lora.enabled() && !config.lora.merge;
  for (const FileTensor& t : adapter ? adapter_files(model).tensors : model.files().tensors)
    bytes.model += t.shape.count() * (adapter ? 4 : size_of(config.checkpoint.model_dtype.value()));
  return bytes;
}

void refuse_without_room(const Config& config, const Ranks& ranks, const SavedBytes& bytes, int64_t step) {
  std::string refusal;
  if (ranks.first()) {
    const DiskRoom room(config, bytes, step);
    const bool saves = room.saves > 0;
    if (room.free && *room.free < room.needs.least)
      refusal = fmt::format(
          "no room for the run ({}): {} are free, it needs at least {}: {}the model of {}; free some, or choose another train.output{}",
          config.train.output, human(*room.free), human(room.needs.least),
          saves ? fmt::format("a checkpoint of {}{} and ", human(bytes.checkpoint), twice(config)) : "", human(bytes.model),
          saves ? ", or go without checkpoints by checkpoint.every=0" : "");
  }
  refusal = gather_texts(ranks.all(), refusal)[0];
  if (!refusal.empty()) fail("{}", refusal);
}

void warn_of_little_room(const Config& config, Log& log, const SavedBytes& bytes, int64_t step) {
  const DiskRoom room(config, bytes, step);
  const int64_t keep = config.checkpoint.keep;
  if (room.free && *room.free < room.needs.most)
    log.warn(
        "{} has {} free, the run may need {}: checkpoints of {}{} ({}, and one while it is written) and the model of {}; a checkpoint that finds no room is left "
        "out and said, earlier ones stay",
        config.train.output, human(*room.free), human(room.needs.most), human(bytes.checkpoint), twice(config),
        keep == 0 ? "all are kept" : fmt::format("checkpoint.keep={}", keep), human(bytes.model));
  else if (room.free && room.saves == 0 && *room.free < bytes.checkpoint)
    log.warn("{} has {} free, and a checkpoint needs {}: stopping this run will not save it", config.train.output,
             human(*room.free), human(bytes.checkpoint));
}

}  // namespace ravine
