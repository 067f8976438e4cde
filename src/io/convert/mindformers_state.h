// Training checkpoints of MindFormers, as a run goes on from them and leaves them (checkpoint.layout=mindformers).
//
//   DIR/rank_R/PREFIX_rank_R-EPOCH_STEP.safetensors   weights, states of the optimizer, epoch_num, step_num, global_step,
//                                                     loss_scale, scale_sense, global_batch_size
//     states: AdamW adam_m.NAME adam_v.NAME; Adam moment1.NAME moment2.NAME beta1_power beta2_power; Lamb lamb_m.NAME
//     lamb_v.NAME; SGD accum.NAME stat.NAME momentum
//   DIR/rank_R/meta.json                              {"last_epoch", "last_step", "last_ckpt_file"}
//
// Source: mindformers/core/callback/callback.py (CheckpointMonitor), tools/resume_ckpt.py. What a run of ours keeps beyond that
// (its place in blended data, the state of a schedule) lies in the metadata of the safetensors file, under "ravine".
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/checkpoint.h"

namespace ravine {

// Checkpoint files in DIR/rank_0 (or DIR itself), oldest first, by epoch and step, that are there for every rank_R of DIR.
std::vector<std::string> mindformers_checkpoints(const std::string& dir);

// One of these files, with those of the other ranks beside it. `model`: its config.json, `where` for messages. global_batch: of
// the run that goes on; where the checkpoint's was another, steps are counted anew, as MindFormers does:
// step * its batch / global_batch.
// data_steps: of data that count as used; -1: as many as steps.
ForeignState open_mindformers_state(const std::string& file, const Json& model, const std::string& where, int64_t global_batch,
                                    int64_t data_steps = -1);

// How the files of a step are written.
struct MindFormersState {
  std::string dir, prefix;          // DIR; names begin with the prefix
  int64_t epoch = 1, place = 1;     // the two numbers of a name
  bool ckpt = false;                // .ckpt instead of .safetensors
  std::vector<std::string> copies;  // "network", "trainable": weights alone, in folders of their own beside DIR
  int64_t keep = 0;                 // files of a rank that stay, the newest of those that the run has made; 0: all
  std::string run;                  // whose files they are, over all of its starts: a mark in DIR says so
  std::set<std::string> before;     // files_of_states(dir) when the run began: new names go around them
  int64_t data = 1, tensor = 1, pipeline = 1;
  std::vector<int64_t> stage_layers;  // of each part of the pipeline, in order; parts go around the stages
};
// Paths of all files in DIR and in the folders of weights alone beside it.
std::set<std::string> files_of_states(const std::string& dir);
// From a checkpoint of ours: its folder. Returns the name of the first rank's file. All ranks' files are written here.
std::string write_mindformers_state(const std::string& checkpoint, const Json& model, const std::string& where,
                                    const MindFormersState& state);

}  // namespace ravine
