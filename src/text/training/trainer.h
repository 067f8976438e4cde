// Makes a tokenizer from text.
#pragma once
#include "text/training/training.h"

namespace ravine {

// Writes tokenizer.model, tokenizer_config.json, special_tokens_map.json and, where the model has a counterpart
// (sentencepiece_json.h), tokenizer.json into `output`, where Transformers loads them; for byte-bpe tokenizer.json and
// tokenizer_config.json, which Transformers' PreTrainedTokenizerFast loads. The same text and options give the same tokenizer,
// with any number of threads. Wrong options and texts too small are UserErrors, with nothing written. Blocks until done.
TrainedTokenizer train_tokenizer(const TokenizerTraining& options, TrainingText& text);

}  // namespace ravine
