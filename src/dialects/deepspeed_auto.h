// What "auto" in a DeepSpeed config stands for, and where a config and the flags of the Trainer contradict each other:
// integrations/deepspeed.py of Transformers 4.37 and 5.23.
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

// What the flags alone do not say.
struct TrainerFacts {
  int64_t ranks = 1;
  std::optional<int64_t> hidden_size, positions;  // of the model's config.json
  std::string dtype;                              // torch_dtype of config.json; "": it says none
  std::optional<int64_t> columns;                 // of a file of fixed batches: its sequences
  std::optional<int64_t> samples;                 // of one pass over the training data
  std::optional<bool> ordered;                    // whether the order of its parameters in DeepSpeed's files is known
  bool own_form = false;                          // the output folder holds a run whose checkpoints have Ravine's own form
  std::optional<int64_t> resumed;                 // steps of the Trainer's checkpoint that the run goes on from
  bool runs = false;                              // a run follows, not only a look at it
  TransformersVersion version = TransformersVersion::v4_37;
};

// Updates of the run and of one pass: max_steps, or num_train_epochs times the updates of a pass, rounded up, of which one has
// batches / gradient_accumulation_steps, at least 1: rounded up in 5.x, where the batches left of a pass are an update of their own,
// down in 4.37. 0: not known without the samples.
int64_t updates_of_run(const TrainerArguments& args, const TrainerFacts& facts);
int64_t updates_of_pass(const TrainerArguments& args, const TrainerFacts& facts);

// data.pass_end: `short` or `drop` (--dataloader_drop_last). 4.37 goes on into the next pass where accumulation leaves batches over.
std::string_view pass_end(const TrainerArguments& args, const TrainerFacts& facts);

// warmup_steps, or warmup_ratio of the run, rounded up.
int64_t warmup_of_run(const TrainerArguments& args, const TrainerFacts& facts);

// Whether Transformers compares this key with a flag.
bool compared_with_flag(std::string_view key);

// Fills every "auto". One that nothing fills is left to its default inside zero_optimization, fp16, bf16, aio and the monitors,
// as DeepSpeed does; elsewhere it goes to `refusals`. So does every key that has another value than its flag, with both values.
void fill_auto(DeepSpeedConfig& config, const TrainerArguments& args, const TrainerFacts& facts,
               std::vector<KeyRefusal>& refusals);

}  // namespace ravine
