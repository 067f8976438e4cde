// Programs of Megatron-LM and ModelLink that do not train. Each is translated into a command line of Ravine.
#pragma once
#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// Return the rows of each program in addition to the flags of training.
DialectTable megatron_evaluation_rows();
DialectTable megatron_inference_rows();
DialectTable megatron_preprocess_table();
DialectTable megatron_conversion_table();
DialectTable megatron_merge_rows();

// Returns the rows that all programs share which run a model.
DialectTable megatron_running_rows();
// Returns `own` with the flags of training added. The added rows are inert: config.json has the value, or only training
// needs it.
DialectTable megatron_running_table(const DialectTable& own);
// Appends --load, --lora-load and, if the model's folder has no tokenizer, the tokenizer of the flags to t.command.
// Refuses given sizes that differ from the model's config.json.
void add_megatron_model(Translation& t);
// Refuses given sizes that differ from the config.json in --load. Megatron does the same with its checkpoint's
// arguments.
void hold_megatron_sizes(Translation& t);
// Refuses --lora-r and --lora-alpha if they differ from the adapter_config.json in --lora-load.
void hold_megatron_adapter(Translation& t);
// Compares --tokenizer-kwargs with the tokenizer's own settings, and refuses differences. If the command accepts stop
// tokens (`ends`) and the settings have no eos_token, returns the given eos_token in place of refusing it.
std::vector<std::string> hold_tokenizer_words(Translation& t, bool ends);
// Appends precision.compute to t.command, with `ranks` also parallel.tensor and parallel.pipeline.
void add_megatron_running(Translation& t, bool ranks = true);

// Translate the words of each program.
Translation translate_evaluation(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_inference(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_preprocessing(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_conversion(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_merge(const std::vector<PlacedWord>& words, const MegatronJob& job);

}  // namespace ravine
