// Runs SentencePiece's own trainer.
#pragma once
#include "text/training/training.h"

namespace ravine {

// Runs train_tokenizer for types bpe and unigram; options are already checked.
TrainedTokenizer train_sentencepiece(const TokenizerTraining& options, TrainingText& text);

}  // namespace ravine
