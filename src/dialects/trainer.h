// `ravine trainer`: the command line of a training script of Transformers, with or without a DeepSpeed config, as options of
// a run. The batch, optimizer, schedule, precision and ZeRO stage of a DeepSpeed config count where it has them, else the flags.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "dialects/deepspeed_auto.h"
#include "dialects/dialect.h"
#include "dialects/trainer_outcome.h"

namespace ravine {

// A command line, read but not yet understood.
struct TrainerLine {
  TrainerArguments args;
  std::optional<DeepSpeedConfig> config;  // of --deepspeed
  TransformersVersion version = TransformersVersion::v4_37;
  std::vector<KeyRefusal> refusals;
  std::vector<std::string> notices;
  bool misread = false;  // a flag was refused: others that are missing may follow from that, and are not missed
};

bool trainer_evaluates(const TrainerArguments& args);
bool only_evaluates(const TrainerArguments& args);  // --do_eval without --do_train

// Reads the words, and the file of --deepspeed, whose syntax must be right (deepspeed_json.h); other mistakes are kept for
// translate_trainer.
TrainerLine read_trainer_line(const std::vector<PlacedWord>& words);

Translation translate_trainer(TrainerLine line, const TrainerFacts& facts);

// What a DeepSpeed config leads to, once it is filled: optimizer, schedule, precision, ZeRO and offload.
void lead_deepspeed(const DeepSpeedConfig& config, const TrainerArguments& args, TrainerOutcome& out);

}  // namespace ravine
