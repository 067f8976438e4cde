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
  int64_t sequence = 0;
};

MindFormersSizes mindformers_sizes(Translation& t, const MindFormersFacts& facts);

// config.json of the network, and the options that lie among its keys; what no family is built as is refused.
void set_mindformers_model(Translation& t);
std::string mindformers_prefix(const Translation& t);  // "model.model_config."

void set_mindformers_updates(Translation& t, const MindFormersSizes& sizes);
// runs: files that are named have to be there.
void set_mindformers_files(Translation& t, const MindFormersSizes& sizes, bool runs);

// Keys that have no effect as long as others are as they are: their lines say so.
void mark_idle_keys(Translation& t);

// run_mode predict.
void set_mindformers_prediction(Translation& t);

// The first callback of this class, "callbacks[1]"; "": none.
std::string callback_of(const Translation& t, const std::string& type);
// Whether the line has this key.
bool gives(const Translation& t, const std::string& key);

}  // namespace ravine
