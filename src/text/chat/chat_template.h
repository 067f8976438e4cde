// Conversations to text, by the chat template of a tokenizer.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "text/jinja/render.h"

namespace ravine {

class ChatTemplate {
 public:
  // `source` is a template in Jinja; `where` names it in errors. Wrong syntax is a UserError.
  ChatTemplate(const std::string& source, const std::string& where, Json tokens);

  // The text of {"messages": [..], "add_generation_prompt": bool, ..}; further fields are variables of the template. A message
  // that the template refuses is a jinja::TemplateError with the template's words, `where` and the line.
  std::string render(const Json& conversation) const;
  Json variables(const Json& conversation) const;  // what render() gives to the template
  const jinja::Template& code() const { return template_; }
  bool names(const std::string& word) const;  // whether the word stands in it as a text of its own: a role that it knows, say
  uint64_t fingerprint() const { return fingerprint_; }  // of all that decides what is rendered

 private:
  uint64_t fingerprint_ = 0;
  std::string source_;
  jinja::Template template_;
  Json tokens_;  // bos_token, eos_token, ..
};

// The template of a folder: chat_template.jinja, else chat_template of tokenizer_config.json (of several, the one named
// "default"); null if it has none. The texts of special tokens come from tokenizer_config.json and special_tokens_map.json.
std::unique_ptr<ChatTemplate> load_chat_template(const std::string& dir);

}  // namespace ravine
