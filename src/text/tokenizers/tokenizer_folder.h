// A folder with a tokenizer of the Hugging Face kind and its settings: tokenizer.json, or vocab.json with merges.txt
// (GPT-2's kind), or vocab.txt (BERT's kind).
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Opens the tokenizer in a folder of the Hugging Face kind, as Transformers 5. tokenizer_config.json is read: special
// tokens, added_tokens_decoder, add_bos_token, add_eos_token, split_special_tokens. If it has no added_tokens_decoder,
// special_tokens_map.json takes priority over it, and added_tokens.json is read, in the order of its ids. If no file
// names a special token, the tokenizer_class selects it: <|endoftext|> for GPT2Tokenizer, GPTNeoXTokenizer and
// Qwen2Tokenizer. A token that is not in the vocabulary gets the next id. Wrong values are a UserError that names file
// and key.
std::unique_ptr<Tokenizer> open_tokenizer_folder(const std::string& dir);

}  // namespace ravine
