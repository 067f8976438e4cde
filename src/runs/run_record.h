// The record of a run in its checkpoints: its options after auto, and its model. A resume keeps the choices of auto,
// reports changed options, and rejects changes that are not allowed (OnResume in config/option.h).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"
#include "io/checkpoint.h"
#include "io/open_weights.h"
#include "kernels/backend.h"
#include "kernels/cpu_id.h"
#include "model/model.h"

namespace ravine {

// The record of a run as a checkpoint stores it: its options after auto, its model, and numbers of its layout. The
// result of run_record.
struct RunRecord {
  std::string checkpoint;  // "step_000200"
  int64_t step = 0;
  // The options: "train.steps" -> "200", as Option::yaml writes values. Few or none if an older program or `convert`
  // made the checkpoint.
  std::map<std::string, std::string> options;
  Json model;  // config.json of the model; null: not recorded
  std::optional<int64_t> sum_leaves, layers;
  std::string weights;  // weights_checksum of model.path when the run began; empty: none, or not recorded
};

// Checks the counts in the scalars of a checkpoint. A UserError if they are impossible or contradict each other; it
// names `where` (the checkpoint) and the field. `step`: the step in the manifest of the checkpoint.
void refuse_counts(const Json& scalars, int64_t step, const std::string& where);

// Returns the options of `config` as checkpoints record them, by name. parallel.data and parallel.sum_leaves are
// recorded with the resolved values `data_ranks` and `sum_leaves`.
Json recorded_options(const Config& config, int64_t data_ranks, int64_t sum_leaves);

// Parses the record of a run from `scalars` and `instructions` of a checkpoint. A missing value leaves its field empty.
// A value of another type is a UserError that names `where` and the field. `checkpoint`: its folder name. `step`: its
// step.
RunRecord run_record(const std::string& checkpoint, int64_t step, const Json& scalars, const std::string& instructions,
                     const std::string& where);

// Reads the record of the checkpoint that checkpoint.resume leads to, before the run is opened: the first candidate
// whose manifest can be read. Empty if there is none. Other damage is reported when the checkpoint is opened. `takes`:
// a filter of checkpoint names; null: all.
std::optional<RunRecord> glance_at_checkpoint(const std::string& checkpoints_dir, const std::string& resume,
                                              const TakesCheckpoint& takes = {});

// Resolves options of a resumed run: precision.compute, precision.bf16_products and checkpoint.model_dtype get the
// values of the checkpoint's run, if they are auto. A UserError if `cpu` cannot compute with them (cpu backend only).
void keep_choices(Config& config, const RunRecord& was, Backend backend, const CpuArithmetic& cpu);

// An option that differs between the record of a checkpoint (`was`) and this run (`now`), and the rule for such a
// change.
struct OptionChange {
  std::string name, was, now;
  OnResume rule = OnResume::undecided;
  std::string text() const;  // "train.steps: 400, was 200"
};
// Compares the options recorded in a checkpoint with `now`, the options of this run. Returns the options that both have
// and that differ, in the order of the option table. Another spelling of the same path is no difference. model.path may
// change if its weights have the recorded checksum `weights`, or if no checksum was recorded and the old folder does
// not exist.
std::vector<OptionChange> option_changes(const RunRecord& was, const Json& now, const std::string& weights);

// Throws a UserError that names all changed options that a resumed run may not change (OnResume). With
// checkpoint.other_data, options of the section data are allowed.
void refuse_other_options(const RunRecord& was, const std::vector<OptionChange>& changes, const Config& config);
// Throws a UserError if train.output is not set, and the run in the default folder has another model or other data than
// this run. The default folder would mix unrelated runs. The error names the run there, and the option for another
// folder.
void refuse_strangers_in_default(const RunRecord& was, const Config& config);
// Throws a UserError if `model` differs from the model in the record of the checkpoint. The message names the first
// field of config.json that differs.
void refuse_other_model(const RunRecord& was, const Model& model, const Config& config);

}  // namespace ravine
