// Runs SentencePiece's own trainer.
#pragma once
#include "text/training/training.h"

namespace ravine {

// Does the work of train_tokenizer() (trainer.h) for types bpe and unigram. The caller has checked the options.
TrainedTokenizer train_sentencepiece(const TokenizerTraining& options, TrainingText& text);

}  // namespace ravine
