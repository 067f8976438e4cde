// Makes a tokenizer from text.
#pragma once
#include "text/training/training.h"

namespace ravine {

// Trains a tokenizer and writes it to `output`. bpe and unigram: tokenizer.model, tokenizer_config.json,
// special_tokens_map.json and, if the format can express the model (sentencepiece_json.h), tokenizer.json; Transformers
// loads the folder. byte-bpe: tokenizer.json and tokenizer_config.json, which Transformers' PreTrainedTokenizerFast
// loads. The same text and options give the same tokenizer, with any number of threads. Wrong options and texts that
// are too small are UserErrors, with nothing written. Blocks until done.
TrainedTokenizer train_tokenizer(const TokenizerTraining& options, TrainingText& text);

}  // namespace ravine
