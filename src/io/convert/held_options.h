// Options of the run that wrote a checkpoint of another program, as far as its files contain them. A resuming run
// compares them with its own options, as it does for Ravine's checkpoints.
#pragma once
#include <string>

#include "base/json.h"

namespace ravine {

// The options in the files of another program's checkpoint; the result of megatron_held, deepspeed_held and
// mindformers_held.
struct HeldOptions {
  Json values = Json::object();  // Ravine's options, from the other program's fields: {"optimizer.lr": 0.001}
  Json kept;                     // additional data of a Ravine run in the files (kept_scalars.h); null: none
  // Returns the options in the form in which Ravine's checkpoints record them: {"optimizer.lr": "0.001"}. If a Ravine
  // run wrote the files, the result has all options. Else it has the entries of `values` that are valid values of an
  // option.
  Json recorded() const;
};

// Reads the options of a Megatron checkpoint. `path` is DIR, a folder of ranks in it, or a folder of torch_dist.
// Megatron counts schedule steps in samples; they are converted to batches of `global_batch`. "end_weight_decay" is set
// if the weight decay was to change.
HeldOptions megatron_held(const std::string& path, int64_t global_batch);
// Reads the options of a DeepSpeed checkpoint. `path` is checkpoint-N, a folder with the file latest, or the folder of
// a tag.
HeldOptions deepspeed_held(const std::string& path);
// Reads the options of a MindFormers checkpoint. `path` is the file of a rank.
HeldOptions mindformers_held(const std::string& path);

}  // namespace ravine
