// The settings files of a Llama tokenizer folder.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "text/tokenizers/added_tokens.h"

namespace ravine {

struct LlamaSettings {
  bool legacy = true, add_bos = true, add_eos = false, add_prefix_space = true, split_special = false;
  std::map<std::string, std::string> named;  // "bos_token" -> "<s>"; also eos, unk, pad, sep, cls, mask where given
  AddedTokens added;                         // every named string is among them
};

// `pieces`: size of the SentencePiece vocabulary; `piece_id(text)`: id of a piece, or -1. Special strings that have no id yet
// get the ids after the last one, in the order Transformers gives them. Wrong values are a UserError naming file and key, so is
// a tokenizer_class of another kind, unless `any_class`.
LlamaSettings load_llama_settings(const std::string& dir, int64_t pieces,
                                  const std::function<int32_t(const std::string&)>& piece_id, bool any_class = false);

// Whether tokenizer_config.json names a class of Llama's kind, or none.
bool is_llama_folder(const std::string& dir);

// Whether it names a class whose tokenizer.model is encoded as Llama's, though the class is another: CodeLlama, Gemma, or one
// that takes a tokenizer.json as it is.
bool is_nearly_llama_folder(const std::string& dir);

}  // namespace ravine
