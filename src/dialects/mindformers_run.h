// What a job of MindFormers comes to: its sizes, its model, its run.
#pragma once
#include "dialects/dialect.h"
#include "dialects/mindformers_facts.h"
#include "dialects/mindformers_tables.h"

namespace ravine {

// Sizes that several rules need. Outside of semi-automatic parallelism layouts count nothing: ranks share the data.
struct MindFormersSizes {
  int64_t ranks = 1, data = 1, tensor = 1, pipeline = 1, expert = 1;
  bool semi = false;                                   // semi-automatic parallelism: one program over all ranks
  int64_t micro = 1;                                   // rows of a micro batch
  int64_t micro_batches = 1;                           // of a rank and step
  int64_t global = 1;                                  // rows of a step
  int64_t epochs = 1, steps_per_epoch = 0, steps = 0;  // 0: the data is not known
  int64_t sequence = 0, ids = 0;                       // seq_length; ids of a row of the data, 0: not known
};

// data_set: whose rows make the steps, train_dataset or eval_dataset.
MindFormersSizes mindformers_sizes(Translation& t, const MindFormersFacts& facts, const std::string& data_set);

// config.json of the network, and the options that lie among its keys; what no family is built as is refused.
void set_mindformers_model(Translation& t);
// The key of model.model_config that gives a field of config.json, under any of the field's names; "": none does.
std::string mindformers_model_key(const Translation& t, const char* field);
// moe_config: experts in config.json, and how they are trained. True if the model has some.
bool set_mindformers_experts(Translation& t, Json& config, bool from_folder);

// Fused switches and compute types.
void set_mindformers_precision(Translation& t, bool experts);

void set_mindformers_updates(Translation& t, const MindFormersSizes& sizes);
// runs: files that are named have to be there.
void set_mindformers_files(Translation& t, const MindFormersSizes& sizes, bool runs);

// Parts of these two.
void set_mindformers_ranks(Translation& t, const MindFormersSizes& sizes);
// The paths that a data set of MindRecord files names, and the key that names them.
std::pair<std::vector<std::string>, std::string> mindformers_paths(const Translation& t, const std::string& data_set);
// The sources of a data set, as data.train has them; null: refused, or not given.
Json mindformers_sources(Translation& t, const std::string& data_set, bool runs);
void set_mindformers_columns(Translation& t, const std::string& data_set);  // input_columns, and ids that count nothing
// Whether the weights that a key names are there, where they have to be; else it is refused.
bool has_mindformers_weights(Translation& t, const std::string& key, bool runs);

// Keys that have no effect as long as others are as they are: their lines say so.
void mark_idle_keys(Translation& t);

// An evaluation gives loss and perplexity: another metric is refused.
void hold_mindformers_metric(Translation& t);
// run_mode eval.
void set_mindformers_evaluation(Translation& t, const MindFormersSizes& sizes, const MindFormersFacts& facts);

// run_mode predict.
void set_mindformers_prediction(Translation& t);

// The first callback of this class, "callbacks[1]"; "": none.
std::string callback_of(const Translation& t, const std::string& type);
// Whether the line has this key.
bool gives(const Translation& t, const std::string& key);

}  // namespace ravine
