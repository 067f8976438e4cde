// Translates the flags of Megatron's training programs into options, and refuses what Megatron refuses.
#pragma once
#include "dialects/megatron_job.h"
#include "dialects/megatron_tables.h"

namespace ravine {

// The sizes in Megatron's flags that several translations need: the result of megatron_sizes(). 0: not set.
struct MegatronSizes {
  int64_t ranks = 0, tensor = 1, pipeline = 1, data = 0;  // data: 0 if the number of ranks is not known
  int64_t layers = 0, hidden = 0, heads = 0, groups = 0, micro = 0, global = 0, steps = 0;
};

// Returns the sizes that Megatron's flags set. Refuses impossible sizes, as Megatron's argument checks.
MegatronSizes megatron_sizes(Translation& t, const MegatronJob& job);
// Refuses flags that contradict each other, as Megatron's argument checks.
void refuse_megatron_conflicts(Translation& t, const MegatronSizes& sizes, const MegatronJob& job, MegatronAge age);

// Sets model.config to the config.json of the network that the flags describe, with its family. A network that no
// family has is refused.
void set_megatron_model(Translation& t, const MegatronSizes& sizes, const MegatronJob& job, MegatronAge age);
// Returns the path of the tokenizer that Megatron's flags name; "" if they name none.
std::string megatron_tokenizer(const Translation& t);

// Sets the data sources, their order, and the data held out for validation.
void set_megatron_data(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age);

// True if the folder looks like Megatron's checkpoints: it has folders of ranks (mp_rank_*), a tracker file or the file
// latest.
bool holds_megatron_ranks(const std::string& folder);
// Sets model.path if --load is a model folder with config.json, and then returns true. Returns false if the flags
// describe the model. Refuses a tracker file without a valid number, a folder without weights for --finetune, and flags
// of another network than the model's.
bool set_megatron_load(Translation& t, const MegatronJob& job);
// Sets the format of the run's checkpoints, and the checkpoint to resume from or the weights to start with. Call it
// after all other settings.
void set_megatron_checkpoints(Translation& t, const MegatronJob& job);
// Sets the learning rate schedule and weight decay of a run that resumes from the checkpoint in `folder`; "": a new
// run. A flag selects the values of the checkpoint, or the values of the flags. If there is no such flag and the two
// differ, they are refused.
void set_megatron_scheduler(Translation& t, const MegatronJob& job, const std::string& folder);

// A switch of Megatron that adds scalars to event files, or removes them.
struct ScalarSwitch {
  std::string flag;
  std::vector<std::string> tags;
  bool removes = false;
};
const std::vector<ScalarSwitch>& scalar_switches();

// Sets the options for checkpoints, log lines, event files and adapters of the run, and for the conditions that end it
// early, from Megatron's flags.
void set_megatron_outputs(Translation& t);

// Sets all options of a run from Megatron's flags, by the functions above.
void set_megatron_run(Translation& t, const MegatronSizes& sizes, const MegatronJob& job, MegatronAge age);

}  // namespace ravine
