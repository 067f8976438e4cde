// Training on instruction files in ModelLink's order: data.order megatron or megatron-2023 with such a prefix.
#pragma once
#include <memory>

#include "data/dataset.h"
#include "data/megatron/split.h"

namespace ravine {

// Numbers [begin, end) of sequences, shuffled by RandomState(seed), again and again until they are more than `samples`; below
// 0: once. Source: modellink/data/decoder_packed_mtf_dataset.py.
std::vector<int64_t> build_instruction_order(SplitRange range, int64_t samples, uint32_t seed);

// Both lists or a split of the first, as open_megatron_datasets says. One prefix each: ModelLink blends none. A row is one
// conversation, cut at options.sequence_length. A validation split is its own part of the file (in ModelLink's of February 2024
// all splits began at the first sequence).
Datasets open_instruction_order(const DatasetOptions& options, int64_t vocabulary, const Tokenizer* tokenizer);

}  // namespace ravine
