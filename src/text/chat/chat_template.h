// Conversations to text, by the chat template of a tokenizer.
#pragma once
#include <memory>
#include <optional>
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
  Json variables(const Json& conversation) const;               // what render() gives to the template
  const jinja::Template& code(const Json& conversation) const;  // what renders it
  // The template for conversations with tools (that are not null); without one they are rendered as all.
  void with_tools(const std::string& source, const std::string& where);
  void for_tools_alone() { tools_alone_ = true; }  // what has no tools is a jinja::TemplateError
  bool names(const std::string& word) const;  // whether the word stands in it as a text of its own: a role that it knows, say
  uint64_t fingerprint() const { return fingerprint_; }  // of all that decides what is rendered

 private:
  void take_fingerprint();
  uint64_t fingerprint_ = 0;
  std::string source_;
  jinja::Template template_;
  std::optional<jinja::Template> with_tools_;
  bool tools_alone_ = false;
  Json tokens_;  // bos_token, eos_token, ..
};

// The template of a folder: chat_template.jinja and the files additional_chat_templates/NAME.jinja, else chat_template of
// tokenizer_config.json, a text or a list of names and texts. Of several "default" (chat_template.jinja) is taken and, for
// conversations with tools, "tool_use" if it is there: as apply_chat_template of Transformers. Null if there is none; several
// without "default" are a UserError, but for "tool_use", which then renders conversations with tools alone. The texts of special tokens come from tokenizer_config.json and special_tokens_map.json.
std::unique_ptr<ChatTemplate> load_chat_template(const std::string& dir);

}  // namespace ravine
