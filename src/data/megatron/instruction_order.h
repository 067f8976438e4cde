// Instruction files in ModelLink's order: data.order megatron or megatron-2023 with the prefix of such files.
#pragma once
#include <memory>

#include "data/dataset.h"
#include "data/megatron/split.h"

namespace ravine {

// Returns the numbers [begin, end) of sequences, shuffled by RandomState(seed) and repeated until there are more than
// `samples`; samples below 0: once. Source: modellink/data/decoder_packed_mtf_dataset.py.
std::vector<int64_t> build_instruction_order(SplitRange range, int64_t samples, uint32_t seed);

// Opens both lists, or a split of the first one, as open_megatron_datasets() does. A list has one prefix, because
// ModelLink does not blend. A row is one conversation, cut at options.sequence_length. A validation split has its own
// sequences; in ModelLink of February 2024 all splits began at the first sequence.
Datasets open_instruction_order(const DatasetOptions& options, int64_t vocabulary, const Tokenizer* tokenizer);

}  // namespace ravine
