// The files of a tokenizer in a folder, by their names in Transformers.
#pragma once
#include <array>
#include <string>

namespace ravine {

// All file names that a tokenizer may consist of. A leftover of another tokenizer in the folder would be read as a part
// of it.
inline constexpr std::array<const char*, 8> kTokenizerFiles = {
    "tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",      "vocab.txt"};
// The files of a chat template. Named templates are in the folder additional_chat_templates.
inline constexpr std::array<const char*, 2> kTemplateFiles = {"chat_template.jinja", "chat_template.json"};

// Returns the path of the file `name` in the folder, or of its .xz; "" if there is neither.
std::string find_in_folder(const std::string& folder, const std::string& name);

// True if the folder has a tokenizer: tokenizer.model, tokenizer.json, vocab.json with merges.txt, or vocab.txt.
bool has_tokenizer(const std::string& folder);

}  // namespace ravine
