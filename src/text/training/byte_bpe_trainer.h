// Merges of bytes, learned as Hugging Face's tokenizers does.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/training/training.h"

namespace ravine {

// The part of train_tokenizer for type byte-bpe; options are checked already.
TrainedTokenizer train_byte_bpe(const TokenizerTraining& options, TrainingText& text);

// The merges that the trainer of Hugging Face's tokenizers finds (tokenizers/src/models/bpe/trainer.rs): the most frequent pair
// first, of those the one with the lowest ids. Words are bytes; ids 0 to 255 stand for bytes in the order of their characters,
// and each merge makes the next id, or that of a token made before of the same bytes.
struct BpeMerge {
  int32_t left, right, becomes;
};
std::vector<BpeMerge> learn_merges(const std::vector<std::pair<std::string, int64_t>>& words,
                                   const std::vector<int32_t>& id_of_byte, int64_t tokens, int64_t min_frequency);

}  // namespace ravine
