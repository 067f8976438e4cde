// Fills "auto" in a DeepSpeed config, and finds contradictions between the config and the flags of the Trainer.
// Source: integrations/deepspeed.py of Transformers 4.37 and 5.23.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/deepspeed_config.h"
#include "dialects/trainer_flags.h"

namespace ravine {

enum class TransformersVersion : uint8_t { v4_37, v5_23 };

// Facts about the job that the flags do not have. An empty field is not known.
struct TrainerFacts {
  int64_t ranks = 1;
  std::optional<int64_t> hidden_size, positions;  // of the model's config.json
  std::string dtype;                              // torch_dtype of config.json; "": none
  std::optional<int64_t> columns;                 // length of the rows in a file of fixed batches
  std::optional<int64_t> samples;                 // in one epoch of the training data
  std::optional<bool> ordered;                    // true if the parameter order in DeepSpeed's files is known
  bool own_form = false;                          // the output folder has a run with checkpoints in Ravine's format
  std::optional<int64_t> resumed;                 // step of the Trainer's checkpoint to resume from
  bool runs = false;                              // the job runs; false: it is only explained or printed
  TransformersVersion version = TransformersVersion::v4_37;
};

// Return the number of updates of the run and of an epoch; 0 if it depends on facts.samples, which is not known.
// updates_of_run = max_steps if set, else num_train_epochs * updates_of_pass, rounded up.
// updates_of_pass = batches / gradient_accumulation_steps, at least 1. The quotient is rounded up in 5.x, where the
// last batches of an epoch are an update too, and down in 4.37.
int64_t updates_of_run(const TrainerArguments& args, const TrainerFacts& facts);
int64_t updates_of_pass(const TrainerArguments& args, const TrainerFacts& facts);

// Returns data.pass_end: `drop` with --dataloader_drop_last, else `short`. In 4.37 it is `go-on` if the batches of an
// epoch are not a multiple of gradient_accumulation_steps: the last update continues into the next epoch.
std::string_view pass_end(const TrainerArguments& args, const TrainerFacts& facts);

// Returns the warmup steps: warmup_steps if it is at least 1. A warmup_steps below 1, or warmup_ratio, is a share of
// the run and is rounded up; -1 if the length of the run is not known.
int64_t warmup_of_run(const TrainerArguments& args, const TrainerFacts& facts);

// True if Transformers compares this key with a flag.
bool compared_with_flag(std::string_view key);

// Replaces every "auto" by its value. An "auto" without a rule keeps DeepSpeed's default in zero_optimization, fp16,
// bf16, aio and the monitors, as in DeepSpeed. In other sections it is appended to `refusals`, as is an "auto" whose
// value is not known. A key whose value differs from its flag is appended to `refusals` with both values.
void fill_auto(DeepSpeedConfig& config, const TrainerArguments& args, const TrainerFacts& facts,
               std::vector<KeyRefusal>& refusals);

}  // namespace ravine
