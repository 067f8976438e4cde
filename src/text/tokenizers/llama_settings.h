// Reads the settings files of a Llama tokenizer folder.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "text/tokenizers/added_tokens.h"

namespace ravine {

// The settings of a Llama tokenizer folder: the result of load_llama_settings().
struct LlamaSettings {
  bool legacy = true, add_bos = true, add_eos = false, add_prefix_space = true, split_special = false;
  std::map<std::string, std::string> named;  // "bos_token" -> "<s>"; also eos, unk, pad, sep, cls, mask if they are set
  AddedTokens added;                         // includes every named string
};

// Reads the settings files in a folder. pieces: size of the SentencePiece vocabulary. piece_id(text): returns the id of
// a piece, or -1. Special strings without an id get the ids after the last one, in Transformers' order. any_class:
// false refuses a tokenizer_class of another kind. A wrong value is a UserError that names file and key.
LlamaSettings load_llama_settings(const std::string& dir, int64_t pieces,
                                  const std::function<int32_t(const std::string&)>& piece_id, bool any_class = false);

// True if tokenizer_config.json names a tokenizer class of Llama's kind, or none.
bool is_llama_folder(const std::string& dir);

// True if tokenizer_config.json names another class whose tokenizer.model is encoded like Llama's: CodeLlama, Gemma, or
// a class that uses a tokenizer.json unchanged.
bool is_nearly_llama_folder(const std::string& dir);

}  // namespace ravine
