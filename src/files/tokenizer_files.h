// The files of a tokenizer in a folder, by their names in Transformers.
#pragma once
#include <array>
#include <string>

namespace ravine {

// All names of files that a tokenizer may consist of. A leftover file of another tokenizer in a folder would be read as
// a part of the tokenizer.
inline constexpr std::array<const char*, 8> kTokenizerFiles = {
    "tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",      "vocab.txt"};
// The files of a chat template. Named templates are in the folder additional_chat_templates.
inline constexpr std::array<const char*, 2> kTemplateFiles = {"chat_template.jinja", "chat_template.json"};

// Returns the path of the file `name` in the folder, or of `name`.xz; "" if the folder has neither.
std::string find_in_folder(const std::string& folder, const std::string& name);

// True if the folder has a tokenizer: tokenizer.model, tokenizer.json, vocab.json with merges.txt, or vocab.txt.
bool has_tokenizer(const std::string& folder);

}  // namespace ravine
