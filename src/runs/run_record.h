// What a checkpoint remembers of the run that wrote it: its options with what auto had chosen, its model. By it a resume keeps
// what was chosen, names what is another option now, and refuses what must not be (OnResume in config/option.h says which).
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

struct RunRecord {
  std::string checkpoint;  // "step_000200"
  int64_t step = 0;
  std::map<std::string, std::string> options;  // "train.steps" -> "200", as Option::yaml writes it. A checkpoint of an older
                                               // program or of `convert` holds few or none
  Json model;                                  // its config.json; null: not recorded
  std::optional<int64_t> sum_leaves, layers;
  std::string weights;  // weights_checksum of model.path when the run began; empty: none, or not recorded
};

// A UserError where counts of a checkpoint cannot be those of a run, or disagree; it names `where` and the field. `step` is the
// manifest's.
void refuse_counts(const Json& scalars, int64_t step, const std::string& where);

// The options of `config` as checkpoints hold them. What is a matter of the ranks at hand (parallel.data, parallel.sum_leaves)
// goes in as it came out.
Json recorded_options(const Config& config, int64_t data_ranks, int64_t sum_leaves);

// `scalars` and `instructions` of a checkpoint. What is missing there is left out; a value of another type is a UserError that
// names `where` and the field.
RunRecord run_record(const std::string& checkpoint, int64_t step, const Json& scalars, const std::string& instructions,
                     const std::string& where);

// Of the checkpoint that checkpoint.resume means, seen at a glance: of those that a resume would try the first whose manifest
// can be read. Nothing if there is none; what is wrong with one is said when it is read whole.
std::optional<RunRecord> glance_at_checkpoint(const std::string& checkpoints_dir, const std::string& resume,
                                              const TakesCheckpoint& takes = {});

// precision.compute, precision.bf16_products and checkpoint.model_dtype become what the checkpoint's run had where they say
// auto. A UserError where `cpu` cannot (the cpu backend only).
void keep_choices(Config& config, const RunRecord& was, Backend backend, const CpuArithmetic& cpu);

struct OptionChange {
  std::string name, was, now;
  OnResume rule = OnResume::undecided;
  std::string text() const;  // "train.steps: 400, was 200"
};
// What both know and what differs, in the order of the option table; another spelling of one place is no difference. model.path
// may change where it leads to weights of the same checksum `weights`; and where none was recorded and the folder of then is
// gone.
std::vector<OptionChange> option_changes(const RunRecord& was, const Json& now, const std::string& weights);

// A fixed option that differs is a UserError that names all such; with checkpoint.other_data those of the data section may.
void refuse_other_options(const RunRecord& was, const std::vector<OptionChange>& changes, const Config& config);
// Where nobody has named train.output, its default gathers unrelated runs: another model or other data than the run's there are
// a UserError that says which run it is and how to name another.
void refuse_strangers_in_default(const RunRecord& was, const Config& config);
// Another model is a UserError that names the first field that differs.
void refuse_other_model(const RunRecord& was, const Model& model, const Config& config);

}  // namespace ravine
