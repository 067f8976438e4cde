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

// A parsed command line, before its translation.
struct TrainerLine {
  TrainerArguments args;
  std::optional<DeepSpeedConfig> config;  // the file of --deepspeed
  TransformersVersion version = TransformersVersion::v4_37;
  std::vector<KeyRefusal> refusals;
  std::vector<std::string> notices;
  bool misread = false;  // a flag was refused: missing flags are then not reported, as they may follow from it
};

// True if the run validates.
bool trainer_evaluates(const TrainerArguments& args);
bool only_evaluates(const TrainerArguments& args);  // --do_eval without --do_train

// Parses the words and the file of --deepspeed. Wrong JSON in it is a UserError (deepspeed_json.h); other mistakes are
// stored in the result for translate_trainer.
TrainerLine read_trainer_line(const std::vector<PlacedWord>& words);

Translation translate_trainer(TrainerLine line, const TrainerFacts& facts);

// Translates a DeepSpeed config after fill_auto(): batches, optimizer, schedule, precision, ZeRO, offload and monitors.
void lead_deepspeed(const DeepSpeedConfig& config, const TrainerArguments& args, TrainerOutcome& out);

}  // namespace ravine
