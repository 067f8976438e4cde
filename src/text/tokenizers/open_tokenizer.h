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
//   DIR                   tokenizer.json, as AutoTokenizer of Transformers; without one tokenizer.model by the rules of its
//                         LlamaTokenizer, legacy or not as the settings say; without either vocab.json with merges.txt, or
//                         vocab.txt; each with the settings beside it. Where both are there, "use_fast": false or
//                         "backend": "sentencepiece" in tokenizer_config.json chooses tokenizer.model, and a warning tells
//                         once that the two give other ids, if they do for a few texts
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);

}  // namespace ravine
