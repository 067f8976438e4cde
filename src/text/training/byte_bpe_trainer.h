// Learns merges of bytes like the trainer of Hugging Face's tokenizers.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/training/training.h"

namespace ravine {

// Does the work of train_tokenizer() (trainer.h) for type byte-bpe. The caller has checked the options.
TrainedTokenizer train_byte_bpe(const TokenizerTraining& options, TrainingText& text);

// A merge of a byte-level BPE: tokens `left` and `right` become the token `becomes`, all as ids. Ids 0 to 255 are the
// bytes in the order of their characters. Each merge makes the next id, or the id of an earlier token with the same
// bytes.
struct BpeMerge {
  int32_t left, right, becomes;
};
std::vector<BpeMerge> learn_merges(const std::vector<std::pair<std::string, int64_t>>& words,
                                   const std::vector<int32_t>& id_of_byte, int64_t tokens, int64_t min_frequency);

}  // namespace ravine
