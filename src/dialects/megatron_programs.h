// Programs of Megatron-LM and ModelLink that do not train. Each is translated into a command line of Ravine.
#pragma once
#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// Return the rows of the tables of flags, one function per program: the flags that it has in addition to the flags of
// training.
DialectTable megatron_evaluation_rows();
DialectTable megatron_inference_rows();
DialectTable megatron_preprocess_table();
DialectTable megatron_conversion_table();
DialectTable megatron_merge_rows();

// Returns the rows of the flags that all programs have which run a model without training it.
DialectTable megatron_running_rows();
// Returns the table of a program that runs a model without training it: its rows `own`, and the flags of training. The
// added rows are inert, because config.json has the value, or only training needs it.
DialectTable megatron_running_table(const DialectTable& own);
// Appends the flags for the model to Ravine's command line t.command: the folders of --load and --lora-load. The
// tokenizer of the flags is appended if the model's folder is another. Refuses flags of another network than the
// model's (megatron_held.h).
void add_megatron_model(Translation& t, const MegatronJob& job);
// Refuses --lora-r and --lora-alpha if they differ from the files in --lora-load: its adapter_config.json, or the
// arguments in Megatron's files.
void hold_megatron_adapter(Translation& t, const MegatronJob& job);
// True if the tokenizer of the command has a chat template.
bool tokenizer_has_chat_template(const Translation& t);
// Compares --tokenizer-kwargs with the tokenizer's own settings, and refuses differences. Returns stop tokens for
// Ravine's command, mostly none: with `ends` (the command accepts stop tokens), an eos_token in the flag that the
// tokenizer's settings lack is returned, not refused.
std::vector<std::string> hold_tokenizer_words(Translation& t, bool ends);
// Appends the options precision.compute and, with `ranks`, the options of parallel.* to Ravine's command line t.command,
// from Megatron's flags.
void add_megatron_running(Translation& t, const MegatronJob& job, bool ranks = true);

// Translate the command line of a program that does not train, one function per program. words: its flags. The result
// has Ravine's command line in Translation::command.
Translation translate_evaluation(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_inference(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_preprocessing(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_conversion(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_merge(const std::vector<PlacedWord>& words, const MegatronJob& job);

}  // namespace ravine
