// Which tokenizer a file or a folder holds.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Opens a tokenizer; any file may be compressed as .xz, a FILE also as .gz or .zst. A damaged file, or one with a part that is
// not known here, is a UserError.
//   FILE tokenizer.json   as Hugging Face's tokenizers library reads it
//   FILE tokenizer.model  raw SentencePiece: no special strings in text, nothing added around it, control pieces decode to ""
//   DIR                   tokenizer.model by the rules of Transformers' LlamaTokenizer, legacy or not as its settings say; if
//                         they name another class, or there is no tokenizer.model: tokenizer.json, vocab.json with
//                         merges.txt, or vocab.txt, with the settings beside it
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);

}  // namespace ravine
