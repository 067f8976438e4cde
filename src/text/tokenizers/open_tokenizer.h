// Opens the tokenizer of a file or a folder.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Opens the tokenizer at a path, which is a FILE or a folder DIR. All files may be compressed as .xz, a FILE also as
// .gz or .zst. A damaged file, or one with an unknown part, is a UserError.
//   FILE tokenizer.json   as in Hugging Face's library tokenizers.
//   FILE tokenizer.model  raw SentencePiece: no special strings in text, no tokens around it.
//                         Control pieces decode to "".
//   DIR                   tokenizer.json, as AutoTokenizer of Transformers. Without it tokenizer.model, by the rules of
//                         LlamaTokenizer, legacy or not by the settings. Without both vocab.json with merges.txt, or
//                         vocab.txt. The settings files of the folder are read too.
// If a folder has tokenizer.json and tokenizer.model, "use_fast": false or "backend": "sentencepiece" in
// tokenizer_config.json selects tokenizer.model. If the two give other ids for a few test texts, a warning says so
// once.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);

}  // namespace ravine
