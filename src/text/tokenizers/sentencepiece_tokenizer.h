// Raw SentencePiece: the model file and nothing around it.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Control pieces are what bos(), eos() and pad() name; encode never adds them, decoding drops them.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::string& path);

}  // namespace ravine
