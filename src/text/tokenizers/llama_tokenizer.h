// The tokenizer of a Llama model folder: SentencePiece with the rules that Transformers' LlamaTokenizer puts around it
// (transformers 4.46 models/llama/tokenization_llama.py, the class backed by sentencepiece).
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace ravine {

// Reads DIR/tokenizer.model and, where they exist, tokenizer_config.json (legacy, add_bos_token, add_eos_token,
// add_prefix_space, split_special_tokens, added_tokens_decoder, the special tokens), special_tokens_map.json and
// added_tokens.json. A tokenizer.json beside them is not looked at. Transformers 5 reads that one: it agrees except for text
// that begins with a space, which it gives no prefix. Wrong settings are a UserError naming file and key, so is a
// tokenizer_class of another kind; with `any_class` it is not looked at.
std::unique_ptr<Tokenizer> open_llama_tokenizer(const std::string& dir, bool any_class = false);

}  // namespace ravine
