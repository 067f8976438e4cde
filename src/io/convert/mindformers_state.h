// Reads and writes training checkpoints of MindFormers, to resume from and for MindFormers to resume from
// (checkpoint.layout=mindformers).
//
//   DIR/rank_R/PREFIX_rank_R-EPOCH_STEP.safetensors   weights, states of the optimizer, epoch_num, step_num,
//                                                     global_step, loss_scale, scale_sense, global_batch_size;
//     states: AdamW adam_m.NAME adam_v.NAME; Adam moment1.NAME moment2.NAME beta1_power beta2_power; Lamb lamb_m.NAME
//     lamb_v.NAME; SGD accum.NAME stat.NAME momentum
//   DIR/rank_R/meta.json                              {"last_epoch", "last_step", "last_ckpt_file"}
//
// Source: mindformers/core/callback/callback.py (CheckpointMonitor), tools/resume_ckpt.py. Ravine's additional state
// (position in blended data, state of a schedule) is in the metadata of the safetensors file, under "ravine".
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/checkpoint.h"

namespace ravine {

// Returns the checkpoint files of MindFormers in DIR/rank_0 (or DIR itself) that exist for every rank_R of DIR, by
// epoch and step, oldest first.
std::vector<std::string> mindformers_checkpoints(const std::string& dir);

// Opens a training checkpoint of MindFormers to resume from: `file`, as mindformers_checkpoints returns it, with the
// other ranks' files. `model` is the model's config.json, `where` its name in messages. `global_batch` is the batch
// size of the resuming run. If the checkpoint's batch size differs, steps are recounted as in MindFormers: step * its
// batch / global_batch. `data_steps` is the number of steps whose data count as used; -1: the number of steps done.
ForeignState open_mindformers_state(const std::string& file, const Json& model, const std::string& where, int64_t global_batch,
                                    int64_t data_steps = -1);

// The settings of write_mindformers_state.
struct MindFormersState {
  std::string dir, prefix;               // DIR; file names begin with the prefix
  int64_t epoch = 1, step_in_epoch = 1;  // the two numbers in a file name
  bool ckpt = false;                     // .ckpt instead of .safetensors
  std::vector<std::string> copies;       // "network", "trainable": weights alone, in separate folders next to DIR
  int64_t keep = 0;                      // newest files of a rank that stay, of those that the run has written; 0: all
  std::string run;                       // id of the run over all of its starts; a mark in DIR has it
  std::set<std::string> before;          // files_of_states(dir) at the start of the run: new names avoid them
  int64_t data = 1, tensor = 1, pipeline = 1;
  // Layers of each part of the pipeline, in order. The parts are assigned to the stages in turn.
  std::vector<int64_t> stage_layers;
};
// Returns the paths of all checkpoint files in DIR, and in the folders of weights alone next to it
// (MindFormersState::copies).
std::set<std::string> files_of_states(const std::string& dir);
// Writes a MindFormers checkpoint, the files of all ranks. `checkpoint` is the folder of a Ravine checkpoint with the
// state to write. Returns the name of the first rank's file.
std::string write_mindformers_state(const std::string& checkpoint, const Json& model, const std::string& where,
                                    const MindFormersState& state);

}  // namespace ravine
