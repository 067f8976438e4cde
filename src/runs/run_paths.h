// Resolves paths in options. A folder made by `ravine init` stands for its run, and a run for its model.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"

namespace ravine {

// True if `ravine init` has made this folder: it has run.yaml and is no run.
bool is_prepared(const std::string& folder);

// Returns the run folder that belongs to a folder made by `ravine init` (a prepared folder). The run folder is
// train.output of its run.yaml, or `run` in the folder if the folder was moved or copied. Any other path is returned
// unchanged. A prepared folder without a run is a UserError with the command that starts it.
std::string resolve_run(const std::string& path);

// Returns the model folder that `path` stands for: for a run or a prepared folder (`ravine init`) its exported model.
// Any other path is returned unchanged. A run without a model is a UserError that names `key`, the option or flag of
// the path.
std::string resolve_model(const std::string& path, const std::string& key);

// The result of resolve_model_and_adapter: the model folder and the adapter folder for the flags --model and --adapter
// of a command. If --adapter is set, a run of an adapter (or its prepared folder) as --model stands for its base. If
// --adapter is not set, such a run as --model stands for both its base and its adapter, unless it has exported a merged
// model.
struct ResolvedPaths {
  std::string model, adapter;  // "": none
};
ResolvedPaths resolve_model_and_adapter(const std::string& model, const std::string& adapter);

// Returns the adapter folder that `path` stands for: for a run or a prepared folder (`ravine init`) its adapter. Any
// other path is returned unchanged if it is an adapter, else it is a UserError that names `key`, the option or flag of
// the path.
std::string resolve_adapter(const std::string& path, const std::string& key);

// Returns the checkpoints of a run that saves in another program's layout (checkpoint.layout), the oldest first:
// folders checkpoint-N or iter_NNNNNNN, or files of rank_0. Empty for other runs.
std::vector<std::string> checkpoints_of_other_layout(const std::string& run);

// The result of resolve_weights: the path from which a command reads weights. For a run with checkpoints in another
// program's layout it is the newest checkpoint. If this checkpoint has no config.json and the caller names none,
// model_config is the config.json of the run's model, or its text. Any other path is returned unchanged, also a run
// with Ravine's checkpoints.
struct ResolvedWeights {
  std::string path, model_config;
};
ResolvedWeights resolve_weights(const std::string& path, const std::string& model_config);

// Returns a warning if the exported folder `made` (RUN/model or RUN/adapter) is older than the newest checkpoint of its
// run. Also if the run now exports the other kind, model or adapter. The warning has the commands for both. "" if there
// is nothing to warn of.
std::string older_than_its_run(const std::string& made);

// Returns a warning if an adapter was trained on other weights than `model`: the base folder that the adapter names
// exists, and its weights differ. Else "". Reads 256 blocks of each file.
std::string trained_on_other_base(const std::string& adapter, const std::string& model);

// Throws a UserError if `path` is a run without a checkpoint, or a run (or a checkpoint) of an adapter: it has no
// weights of a whole model. `key`: the flag of the path.
void refuse_run_without_weights(const std::string& path, const std::string& key);

// Returns the command that resumes the run in this folder: "ravine train --config RUN/config.yaml". Adds
// train.output=RUN if config.yaml names another folder, as in a copied or moved run.
std::string command_that_goes_on_in(const std::string& run);

// Throws a UserError if train.output has a run with another checkpoint.layout: both would write config.yaml and
// metrics.jsonl.
void refuse_run_of_other_layout(const Config& config);

// Throws a UserError if the config file of a copied or moved run (or prepared folder) sets train.output to another
// folder than the run next to this file.
void refuse_config_of_other_run(const Config& config);

}  // namespace ravine
