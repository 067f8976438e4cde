// The files of a tokenizer in a folder, by the names that Transformers gives them.
#pragma once
#include <array>
#include <string>

namespace ravine {

// All that one tokenizer may consist of, here and elsewhere: a part of another one beside would be read with it.
inline constexpr std::array<const char*, 8> kTokenizerFiles = {
    "tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",      "vocab.txt"};
// What goes with one whose model chats; templates by name lie in the folder additional_chat_templates.
inline constexpr std::array<const char*, 2> kTemplateFiles = {"chat_template.jinja", "chat_template.json"};

// The file of that name in the folder, or its .xz; "" if there is neither.
std::string find_in_folder(const std::string& folder, const std::string& name);

// Whether the folder holds a tokenizer: tokenizer.model, tokenizer.json, vocab.json with merges.txt, or vocab.txt.
bool has_tokenizer(const std::string& folder);

}  // namespace ravine
