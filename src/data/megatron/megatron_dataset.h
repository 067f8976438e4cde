// Datasets of .bin/.idx prefixes in Megatron's order: data.order megatron or megatron-2023. Instruction files have
// ModelLink's order (instruction_order.h).
#pragma once
#include "data/dataset.h"

namespace ravine {

// Opens the datasets. If data.valid is empty, train and valid are the first two shares of options.split of the files in
// `train`; else each list is used whole. After the last sample the same order begins again. tokenizer: may be null if
// no end token is needed.
Datasets open_megatron_datasets(const DatasetOptions& options, const Tokenizer* tokenizer);

// Returns the prefixes of the sources and their weights; weights are empty if no source has one (blend by size). A
// source of several files divides its weight equally between them. key: the option or flag of the list, for messages.
struct GptBlendList {
  std::vector<std::string> prefixes;
  std::vector<double> weights;
};
GptBlendList gpt_blend_list(const std::vector<DataSource>& sources, const char* key);

// Throws a UserError if an option is set that only Megatron orders use.
void refuse_megatron_options(const DatasetOptions& options);

}  // namespace ravine
