// A folder with a tokenizer of the Hugging Face kind: tokenizer.json, or vocab.json with merges.txt (GPT-2's kind), or
// vocab.txt (BERT's kind), and the settings beside it.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Reads the folder as Transformers 5 does: tokenizer_config.json (special tokens, added_tokens_decoder, add_bos_token,
// add_eos_token, split_special_tokens); for what it lacks, special_tokens_map.json, and added_tokens.json in place of
// added_tokens_decoder, in the order of its ids. Wrong values are a UserError naming
// file and key.
std::unique_ptr<Tokenizer> open_tokenizer_folder(const std::string& dir);

}  // namespace ravine
