// Translates a job of MindFormers by topic: sizes, model, updates, files.
#pragma once
#include "dialects/dialect.h"
#include "dialects/mindformers_facts.h"
#include "dialects/mindformers_tables.h"

namespace ravine {

// The sizes of a job that several translations need: the result of mindformers_sizes(). Without semi-automatic
// parallelism all ranks are data ranks.
struct MindFormersSizes {
  int64_t ranks = 1, data = 1, tensor = 1, pipeline = 1, expert = 1;
  bool semi = false;                                   // semi-automatic parallelism: one program over all ranks
  int64_t micro = 1;                                   // rows of a micro batch
  int64_t micro_batches = 1;                           // number of micro batches of a rank in a step
  int64_t global = 1;                                  // rows of a step
  int64_t epochs = 1, steps_per_epoch = 0, steps = 0;  // 0: the size of the data is not known
  int64_t sequence = 0, ids = 0;                       // seq_length; number of ids in a row of the data, 0: not known
};

// Returns the sizes of a job of MindFormers, and refuses impossible ones. data_set: the key of the dataset whose rows
// the steps read: train_dataset or eval_dataset.
MindFormersSizes mindformers_sizes(Translation& t, const MindFormersFacts& facts, const std::string& data_set);

// Sets model.config to the config.json of the network, and the options that are among the keys of the network. A
// network that no family has is refused.
void set_mindformers_model(Translation& t);
// Returns the key of model.model_config that the user has set for a field of config.json; the field may have several
// names in MindFormers. "" if the user has set none.
std::string mindformers_model_key(const Translation& t, const char* field);
// Translates moe_config: sets the fields of experts in `config` (config.json), and the options of their training.
// Returns true if the model has experts. from_folder: `config` is read from a model folder.
bool set_mindformers_experts(Translation& t, Json& config, bool from_folder);

// Translates the switches of fused ops and the compute types.
void set_mindformers_precision(Translation& t, bool experts);

// Translates steps, batches, learning rate, optimizer, loss scale and ranks.
void set_mindformers_updates(Translation& t, const MindFormersSizes& sizes);
// Translates data, weights, checkpoints and outputs. `runs`: a missing file is refused.
void set_mindformers_files(Translation& t, const MindFormersSizes& sizes, bool runs);

// Translates the keys of log lines, event files and the end of a run by a signal. `runs`: files are looked at.
void set_mindformers_outputs(Translation& t, bool runs);
// A switch of the section tensorboard, and the tags of the scalars that event files have with it alone.
struct MindFormersScalars {
  std::string key;
  std::vector<std::string> tags;
};
const std::vector<MindFormersScalars>& mindformers_scalars();

// Translates the parallel_config: sets the options of ranks. Called by set_mindformers_updates().
void set_mindformers_ranks(Translation& t, const MindFormersSizes& sizes);
// Returns the paths of a dataset of MindRecord files, and the key that has them. data_set: train_dataset or
// eval_dataset.
std::pair<std::vector<std::string>, std::string> mindformers_paths(const Translation& t, const std::string& data_set);
// Returns the sources of a dataset (train_dataset or eval_dataset) in the format of data.train; null if they are
// refused or not set. runs: true refuses missing files.
Json mindformers_sources(Translation& t, const std::string& data_set, bool runs);
void set_mindformers_columns(Translation& t, const std::string& data_set);  // input_columns and ids without a loss
// True if the weights at the path in `key` exist, or if the job does not run. Missing weights are refused.
bool has_mindformers_weights(Translation& t, const std::string& key, bool runs);

// Marks keys as inert that have no effect because of the values of other keys.
void mark_idle_keys(Translation& t);

// Refuses a metric other than loss and perplexity, the results of an evaluation.
void hold_mindformers_metric(Translation& t);
// Translates a job with run_mode eval.
void set_mindformers_evaluation(Translation& t, const MindFormersSizes& sizes, const MindFormersFacts& facts);

// Translates a job with run_mode predict.
void set_mindformers_prediction(Translation& t);

// Returns the key of the first callback of a class, "callbacks[1]"; "" if there is none.
std::string callback_of(const Translation& t, const std::string& type);
// True if the user has set the key.
bool gives(const Translation& t, const std::string& key);

}  // namespace ravine
