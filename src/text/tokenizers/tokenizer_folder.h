// A folder with a tokenizer of the Hugging Face kind: tokenizer.json, or vocab.json with merges.txt (GPT-2's kind), or
// vocab.txt (BERT's kind), and the settings beside it.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Reads the folder as Transformers 5 does: tokenizer_config.json (special tokens, added_tokens_decoder, add_bos_token,
// add_eos_token, split_special_tokens). Where it has no added_tokens_decoder, special_tokens_map.json wins over it, and
// added_tokens.json is read, in the order of its ids. A special token that neither names is that of the tokenizer_class:
// <|endoftext|> for GPT2Tokenizer, GPTNeoXTokenizer and Qwen2Tokenizer. One that the vocabulary lacks gets the next id. Wrong
// values are a UserError naming file and key.
std::unique_ptr<Tokenizer> open_tokenizer_folder(const std::string& dir);

}  // namespace ravine
