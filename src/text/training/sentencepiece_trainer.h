// SentencePiece's own trainer.
#pragma once
#include "text/training/training.h"

namespace ravine {

// The part of train_tokenizer for types bpe and unigram; options are checked already.
TrainedTokenizer train_sentencepiece(const TokenizerTraining& options, TrainingText& text);

}  // namespace ravine
