// Renders conversations as text by the chat template of a tokenizer.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "text/jinja/render.h"

namespace ravine {

// A chat template, perhaps with a second one for conversations with tools.
class ChatTemplate {
 public:
  // source: a template in Jinja. where: its name in errors. tokens: special tokens as variables of the template,
  // {"bos_token": "<s>", ..}. Wrong syntax is a UserError.
  ChatTemplate(const std::string& source, const std::string& where, Json tokens);

  // Renders a conversation, {"messages": [..], "add_generation_prompt": bool, ..}; further fields are variables of the
  // template. Returns the text. A message that the template refuses is a jinja::TemplateError with the template's
  // message, its name and the line.
  std::string render(const Json& conversation) const;
  Json variables(const Json& conversation) const;               // the variables that render() passes to the template
  const jinja::Template& code(const Json& conversation) const;  // the template that renders the conversation
  // Sets another template for conversations whose "tools" is not null. Without this call they are rendered by the same
  // template as all others. where: the template's name in errors.
  void with_tools(const std::string& source, const std::string& where);
  // Restricts the template to conversations with tools: to render another one is then a jinja::TemplateError.
  void for_tools_alone() { tools_alone_ = true; }
  // True if `word` appears in the text of the template as a quoted string, for example as a role that it handles.
  bool names(const std::string& word) const;
  uint64_t fingerprint() const { return fingerprint_; }  // a checksum of all that determines the rendered text

 private:
  void take_fingerprint();
  uint64_t fingerprint_ = 0;
  std::string source_;
  jinja::Template template_;
  std::optional<jinja::Template> with_tools_;
  bool tools_alone_ = false;
  Json tokens_;  // bos_token, eos_token, ..
};

// Loads the chat template in a tokenizer's folder, as apply_chat_template of Transformers; null if it has none.
// Templates are chat_template.jinja and the files additional_chat_templates/NAME.jinja, or else chat_template of
// tokenizer_config.json: a text, or a list of names and texts.
// Of several templates, "default" (chat_template.jinja) is used, and "tool_use" for conversations with tools, if it
// exists. Several templates without "default" are a UserError. If "tool_use" is among them, it renders conversations
// with tools only. Special tokens are taken from tokenizer_config.json and special_tokens_map.json.
std::unique_ptr<ChatTemplate> load_chat_template(const std::string& dir);

}  // namespace ravine
