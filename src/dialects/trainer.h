// Translates the command line of a Transformers training script into options of a run (`ravine trainer`). A DeepSpeed
// config is optional. Its batch, optimizer, schedule, precision and ZeRO stage override the flags.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "dialects/deepspeed_auto.h"
#include "dialects/dialect.h"
#include "dialects/trainer_outcome.h"

namespace ravine {

// A parsed command line of a Transformers training script, before its translation: the result of read_trainer_line().
struct TrainerLine {
  TrainerArguments args;
  std::optional<DeepSpeedConfig> config;  // the keys in the file of --deepspeed; empty: the flag is not set
  TransformersVersion version = TransformersVersion::v4_37;
  std::vector<KeyRefusal> refusals;
  std::vector<std::string> notices;
  bool misread = false;  // true: a flag was refused; missing flags are then not reported, as they may follow from it
};

// True if the job validates, during training or alone, by its flags.
bool trainer_evaluates(const TrainerArguments& args);
bool only_evaluates(const TrainerArguments& args);  // true if the job validates and does not train (no --do_train)

// Parses the flags of a Transformers training script, and the file of --deepspeed. Wrong JSON in the file is a
// UserError (deepspeed_json.h). Other mistakes are stored in the result, and translate_trainer() reports them.
TrainerLine read_trainer_line(const std::vector<PlacedWord>& words);

Translation translate_trainer(TrainerLine line, const TrainerFacts& facts);

// Translates a DeepSpeed config into options in `out`: batches, optimizer, schedule, precision, ZeRO, offload and
// monitors. Called after fill_auto(), which has replaced every "auto".
void lead_deepspeed(const DeepSpeedConfig& config, const TrainerArguments& args, TrainerOutcome& out);

}  // namespace ravine
