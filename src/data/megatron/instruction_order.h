// Instruction files in ModelLink's order: data.order megatron or megatron-2023 with the prefix of such files.
#pragma once
#include <memory>

#include "data/dataset.h"
#include "data/megatron/split.h"

namespace ravine {

// Returns the order of the sequences [range.begin, range.end) as their numbers. The sequences are repeated until there
// are more than `samples` of them, and each repetition is shuffled by numpy's RandomState(seed). samples below 0: one
// epoch. Source: modellink/data/decoder_packed_mtf_dataset.py.
std::vector<int64_t> build_instruction_order(SplitRange range, int64_t samples, uint32_t seed);

// Opens the instruction files in options.train and options.valid in ModelLink's order. If options.valid is empty, train
// and valid are the first two shares of options.split of the files in options.train. Each list has one prefix, because
// ModelLink does not blend. A sample is one conversation, cut at options.sequence_length. The splits have no sequence
// in common; in ModelLink of February 2024 all splits began at the first sequence.
Datasets open_instruction_order(const DatasetOptions& options, int64_t vocabulary, const Tokenizer* tokenizer);

}  // namespace ravine
