// Programs of Megatron-LM and ModelLink that do not train: each becomes a command line of ours.
#pragma once
#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// What each of them takes beside the flags of training.
DialectTable megatron_evaluation_rows();
DialectTable megatron_inference_rows();
DialectTable megatron_preprocess_table();
DialectTable megatron_conversion_table();
DialectTable megatron_merge_rows();

// Rows that programs which run a model share, and `own` with the flags of training that lead to nothing there: what config.json
// says, or what only training has.
DialectTable megatron_running_rows();
DialectTable megatron_running_table(const DialectTable& own);
// --load, --lora-load and, where the model has none, the tokenizer of the flags, behind t.command. Flags of another
// network than the model's are refused (megatron_held.h).
void add_megatron_model(Translation& t, const MegatronJob& job);
// Refuses --lora-r and --lora-alpha that are not those of the adapter in --lora-load, as its adapter_config.json says them.
void hold_megatron_adapter(Translation& t);
// The type of compute behind t.command; with `ranks` also parallel.tensor and .pipeline.
void add_megatron_running(Translation& t, bool ranks = true);

Translation translate_evaluation(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_inference(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_preprocessing(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_conversion(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_merge(const std::vector<PlacedWord>& words, const MegatronJob& job);

}  // namespace ravine
