// The facts about jobs of other programs that their translations need: sizes of tokenizers, data and models on this
// machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dialects/megatron_job.h"
#include "dialects/mindformers_facts.h"
#include "dialects/trainer.h"

namespace ravine {

// Returns a job with all its functions. ranks: 0 if not known; runs: false if the job is only explained or printed.
MegatronJob megatron_job(int64_t ranks, bool runs);
MindFormersFacts mindformers_facts(int64_t ranks, bool runs);

// Reads facts from the config.json of the model that the arguments name. A missing file leaves `facts` as they are.
void look_at_model(const TrainerArguments& args, TrainerFacts& facts);
// Returns the length of the rows in a file of fixed batches; nothing for another file.
std::optional<int64_t> columns_of_batches(const std::string& file);

}  // namespace ravine
