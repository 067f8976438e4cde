// Datasets of .bin/.idx prefixes in Megatron's order: data.order megatron or megatron-2023. Instruction files have
// ModelLink's order (instruction_order.h).
#pragma once
#include "data/dataset.h"

namespace ravine {

// Opens the datasets of .bin/.idx prefixes in Megatron's order. If options.valid is empty, train and valid are the
// first two shares of options.split of the files in options.train; else each list is used whole. After the last sample
// the same order begins again. tokenizer: null if no end token is needed.
Datasets open_megatron_datasets(const DatasetOptions& options, const Tokenizer* tokenizer);

// The result of gpt_blend_list(): prefixes of token files, and the weight of each.
struct GptBlendList {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // empty: no source has a weight, so the files are blended by size
};
// Returns the prefixes of the sources and their weights. A source of several files divides its weight equally between
// them. key: the option or flag that has the list of sources, for messages.
GptBlendList gpt_blend_list(const std::vector<DataSource>& sources, const char* key);

// Throws a UserError if an option is set that is used only with data.order=megatron or megatron-2023. Called for other
// orders.
void refuse_megatron_options(const DatasetOptions& options);

}  // namespace ravine
