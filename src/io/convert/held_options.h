// Options of the run that wrote a checkpoint of another program, as far as its files say them. A run that goes on from there
// compares them with its own, as it does with those that checkpoints of ours record.
#pragma once
#include <string>

#include "base/json.h"

namespace ravine {

struct HeldOptions {
  Json values = Json::object();  // of our options, from fields of the other program: {"optimizer.lr": 0.001}
  Json kept;                     // what a run of ours has added to its files (kept_scalars.h); null: nothing
  // As checkpoints of ours record options: {"optimizer.lr": "0.001"}. A run of ours has kept all of them; of `values` those
  // that are no value of an option stay out.
  Json recorded() const;
};

// `path` is DIR, a folder of ranks in it, or a folder of torch_dist. Steps of the schedule are counted in batches of
// `global_batch`, as Megatron counts them in samples. "end_weight_decay" is there where the decay was to change.
HeldOptions megatron_held(const std::string& path, int64_t global_batch);
// `path`: checkpoint-N, a folder with the file latest, or that of a tag.
HeldOptions deepspeed_held(const std::string& path);
// `path`: a file of a rank.
HeldOptions mindformers_held(const std::string& path);

}  // namespace ravine
