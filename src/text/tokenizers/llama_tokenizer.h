// The tokenizer of a Llama model folder: SentencePiece with the rules of Transformers' LlamaTokenizer (transformers
// 4.46 models/llama/tokenization_llama.py, the class on top of sentencepiece).
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Opens the tokenizer in dir/tokenizer.model. If they exist, these files are read too: tokenizer_config.json (legacy,
// add_bos_token, add_eos_token, add_prefix_space, split_special_tokens, added_tokens_decoder, the special tokens),
// special_tokens_map.json and added_tokens.json.
// A tokenizer.json in the folder is ignored. Transformers 5 reads it instead; the results are equal except for text
// that begins with a space, which gets no prefix there.
// Wrong settings are a UserError that names file and key. A tokenizer_class of another kind is a UserError too, unless
// `any_class`.
std::unique_ptr<Tokenizer> open_llama_tokenizer(const std::string& dir, bool any_class = false);

}  // namespace ravine
