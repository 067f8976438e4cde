// Raw SentencePiece: the model file without any other file.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Opens a tokenizer.model file as a tokenizer without any settings file. Its special().bos, eos and pad are control
// pieces. encode() never adds them, and decoding drops them.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::string& path);

}  // namespace ravine
