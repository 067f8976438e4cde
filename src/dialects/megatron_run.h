// What a training program of Megatron makes of its flags, and what it refuses.
#pragma once
#include "dialects/megatron_job.h"
#include "dialects/megatron_tables.h"

namespace ravine {

// Sizes that several rules need; 0: not given.
struct MegatronSizes {
  int64_t ranks = 0, tensor = 1, pipeline = 1, data = 0;  // data: 0 where the ranks are not known
  int64_t layers = 0, hidden = 0, heads = 0, groups = 0, micro = 0, global = 0, steps = 0;
};

// The flags' values; what cannot be is refused (7.3 and 8 of Megatron's argument checks, in their words' meaning).
MegatronSizes megatron_sizes(Translation& t, const MegatronJob& job);
void refuse_megatron_conflicts(Translation& t, const MegatronSizes& sizes, const MegatronJob& job, MegatronAge age);

// config.json of the network that the flags describe: the family that is built so. One that no family is built as is refused.
void set_megatron_model(Translation& t, const MegatronSizes& sizes, const MegatronJob& job, MegatronAge age);
// The path that the flags of the tokenizer name; "" if none does.
std::string megatron_tokenizer(const Translation& t);

// Sources, their order, and what is held out of them.
void set_megatron_data(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age);

// Folders of ranks lie in the folder, or a file that names the newest; no file is read.
bool holds_megatron_ranks(const std::string& folder);
// --load: true if the model comes from it, in place of one that the flags describe. A tracker file that names nothing, a folder
// without weights for --finetune, and flags of another network than the model's are refused.
bool set_megatron_load(Translation& t, const MegatronJob& job);
// The form of the run's checkpoints, and what it goes on from or takes its weights of; behind all other settings.
void set_megatron_checkpoints(Translation& t, const MegatronJob& job);
// Whose schedule and decay count where a run goes on from the files in `folder`: the checkpoint's, that of the flags, or both,
// which are then equal. "": it begins.
void set_megatron_scheduler(Translation& t, const MegatronJob& job, const std::string& folder);

// Checkpoints, lines, event files and adapters of the run, and what ends it before its last iteration.
void set_megatron_outputs(Translation& t);

void set_megatron_run(Translation& t, const MegatronSizes& sizes, const MegatronJob& job, MegatronAge age);

}  // namespace ravine
