// Prompt templates by name, for tokenizers without a chat template. LLaMA-Factory's and ModelLink's (--prompt-type),
// written in Jinja.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

std::vector<std::string> prompt_template_names();
// Returns the template of a name; "" if there is none.
std::string prompt_template(const std::string& name);

// Throws a UserError unless `wanted` is the name of a template, a file or a folder. asked_by: the option or flag that
// names the template, for messages.
void check_template_name(const std::string& wanted, const std::string& asked_by);

// Reads a file of Jinja, without its byte order mark.
std::string read_template_file(const std::string& path);

struct ChosenTemplate {
  std::unique_ptr<ChatTemplate> chat;
  // Source of a named template or a file, to be stored with the model; empty: the tokenizer's template.
  std::string source;
};

// Returns the template that `wanted` names: a name, a file of Jinja, or the folder of a tokenizer; empty: the template
// in the folder `tokenizer_path`. The bos_token of a named template is the tokenizer's if the tokenizer puts bos before
// a text, else empty. The bos_token of a file is the tokenizer's. No template, or an unknown name, is a UserError.
ChosenTemplate choose_template(const std::string& wanted, const std::string& tokenizer_path, const Tokenizer& tokenizer,
                               const std::string& asked_by);

}  // namespace ravine
