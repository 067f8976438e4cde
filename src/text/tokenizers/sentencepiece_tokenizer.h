// Raw SentencePiece: the model file without any other file.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// bos(), eos() and pad() are control pieces; encode never adds them, decoding drops them.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::string& path);

}  // namespace ravine
