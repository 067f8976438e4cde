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

// Facts about a job that the Trainer's flags do not contain. The caller fills them. An empty field is not known.
struct TrainerFacts {
  int64_t ranks = 1;
  std::optional<int64_t> hidden_size, positions;  // sizes in the model's config.json: hidden_size, longest sequence
  std::string dtype;                              // torch_dtype of config.json; "": none
  std::optional<int64_t> columns;                 // length of the rows in a file of fixed batches
  std::optional<int64_t> samples;                 // number of samples in one epoch of the training data
  std::optional<bool> ordered;                    // true if the parameter order in DeepSpeed's files is known
  bool own_form = false;                          // true: the output folder has a run with Ravine's checkpoints
  std::optional<int64_t> resumed;                 // step of the Trainer's checkpoint to resume from
  bool runs = false;                              // true: the job runs; false: it is only explained or printed
  TransformersVersion version = TransformersVersion::v4_37;
};

// Return the number of updates that a Trainer run has, and that one of its epochs has. 0: it depends on facts.samples,
// which is not known.
// updates_of_run = max_steps if set, else num_train_epochs * updates_of_pass, rounded up.
// updates_of_pass = batches / gradient_accumulation_steps, at least 1. The quotient is rounded up in 5.x, where the
// last batches of an epoch are an update too, and down in 4.37.
int64_t updates_of_run(const TrainerArguments& args, const TrainerFacts& facts);
int64_t updates_of_pass(const TrainerArguments& args, const TrainerFacts& facts);

// Returns the value of data.pass_end that corresponds to the Trainer's flags: `drop` with --dataloader_drop_last, else
// `short`. In 4.37 it is `go-on` if the batches of an epoch are not a multiple of gradient_accumulation_steps: the last
// update of an epoch continues into the next epoch.
std::string_view pass_end(const TrainerArguments& args, const TrainerFacts& facts);

// Returns the number of warmup steps that the Trainer's flags give: warmup_steps if it is at least 1. A warmup_steps
// below 1, or warmup_ratio, is a share of the run's updates, rounded up. -1: the length of the run is not known.
int64_t warmup_of_run(const TrainerArguments& args, const TrainerFacts& facts);

// True if Transformers compares this key of a DeepSpeed config with a flag, and refuses a difference.
bool compared_with_flag(std::string_view key);

// Replaces every "auto" in a DeepSpeed config by the value that Transformers fills in. An "auto" without a rule keeps
// DeepSpeed's default in zero_optimization, fp16, bf16, aio and the monitors, as in DeepSpeed. In other sections it is
// appended to `refusals`, as is an "auto" whose value is not known. A key whose value differs from its flag is appended
// to `refusals` with both values.
void fill_auto(DeepSpeedConfig& config, const TrainerArguments& args, const TrainerFacts& facts,
               std::vector<KeyRefusal>& refusals);

}  // namespace ravine
