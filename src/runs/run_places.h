// What the path of a folder means where a run, or the model of one, is asked for: the folder that `ravine init` made stands for
// its run, a run for its model.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"

namespace ravine {

// Whether `ravine init` has prepared this folder: it holds run.yaml and is no run itself.
bool is_prepared(const std::string& folder);

// Of a prepared folder the run: where the train.output of its run.yaml is, or `run` in it, should the folder have been moved or
// copied. Any other path as it is. A prepared folder in which nothing has run yet is a UserError with the command that begins
// it.
std::string run_meant_by(const std::string& path);

// Of a run, or a prepared folder, the model that the run has made; any other path as it is. A run without one yet is a
// UserError that names `key`, the option or flag that gave the path.
std::string model_meant_by(const std::string& path, const std::string& key);

// Of --model and --adapter of a command: what they stand for. Beside an adapter a run that trained one, or its prepared folder,
// stands for its base; alone for both, where the run has made no model.
struct MeantModel {
  std::string model, adapter;  // "": none
};
MeantModel model_and_adapter_meant_by(const std::string& model, const std::string& adapter);

// Of a run, or a prepared folder, the adapter that the run has made; any other path as it is, if it is an adapter. Else a
// UserError that names `key`.
std::string adapter_meant_by(const std::string& path, const std::string& key);

// Of a run whose checkpoints are another program's (checkpoint.layout) these, the oldest first: folders checkpoint-N or
// iter_NNNNNNN, or files of rank_0. Of other runs none.
std::vector<std::string> checkpoints_of_other_layout(const std::string& run);

// Where weights are read of a run: the newest of these, with the config.json of the run's model, or its text, where they have none
// and nobody names one. Any other path as it is, a run with checkpoints of Ravine too.
struct WeightsOfRun {
  std::string path, model_config;
};
WeightsOfRun weights_meant_by(const std::string& path, const std::string& model_config);

// Where RUN/model or RUN/adapter is of an earlier end than the run's newest checkpoint, or the run has come to make the other of
// the two: a warning with both and the commands; else "".
std::string older_than_its_run(const std::string& made);

// Where the adapter names a base that is there, and its weights are others than those of `model`: a warning with both; else "".
// Reads 256 blocks of each file.
std::string trained_beside_another(const std::string& adapter, const std::string& model);

// A UserError where `path` is a run without a checkpoint, or a run or a checkpoint of one that trains an adapter: no weights of a
// whole model can be read there. `key`: the flag that gave it.
void refuse_run_without_weights(const std::string& path, const std::string& key);

// "ravine train --config RUN/config.yaml", with train.output=RUN where the file, of a copied or moved run, names another
// folder.
std::string command_that_goes_on_in(const std::string& run);

// A UserError where train.output holds a run whose checkpoints have another layout than this one's (checkpoint.layout): both would
// write config.yaml and metrics.jsonl.
void refuse_run_of_other_layout(const Config& config);

// A UserError where train.output comes from the file of a run, or of a prepared folder, that was copied or moved, and so names
// another folder than that of the run which lies with the file.
void refuse_config_of_other_run(const Config& config);

}  // namespace ravine
