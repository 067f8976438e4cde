// Training on .bin/.idx prefixes in the order that Megatron gives them: data.order megatron or megatron-2023. Instruction files
// take ModelLink's order (instruction_order.h).
#pragma once
#include "data/dataset.h"

namespace ravine {

// With data.valid empty, train and valid are the first two shares of options.split of the files in `train`; else each list is
// taken whole. Behind the last sample the same order begins again. `tokenizer` may be null if no end token is
// needed.
Datasets open_megatron_datasets(const DatasetOptions& options, const Tokenizer* tokenizer);

// The prefixes that sources name, with their weights; without any, a source by its size. A source of several files shares its
// weight between them. `key`: the option or flag that lists the sources, for messages.
struct GptBlendList {
  std::vector<std::string> prefixes;
  std::vector<double> weights;
};
GptBlendList gpt_blend_list(const std::vector<DataSource>& sources, const char* key);

// A UserError if an option is set that only a Megatron order honours.
void refuse_megatron_options(const DatasetOptions& options);

}  // namespace ravine
