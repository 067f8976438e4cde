// Prompt templates by name, for models whose tokenizer brings no chat template: the usual ones of LLaMA-Factory and ModelLink
// (its --prompt-type), written in Jinja.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

std::vector<std::string> prompt_template_names();
// The template of that name; "" if there is none.
std::string prompt_template(const std::string& name);

// A UserError unless `wanted` is such a name, a file or a folder. `asked_by`: the option or flag that names a template, for
// messages.
void check_template_name(const std::string& wanted, const std::string& asked_by);

// The text of a file of Jinja, without a byte order mark.
std::string read_template_file(const std::string& path);

struct ChosenTemplate {
  std::unique_ptr<ChatTemplate> chat;
  std::string source;  // of a named template or a file, to be kept with the model; empty: the tokenizer's own
};

// The template that `wanted` names: a name, a file (of text in Jinja), a tokenizer's folder, or, when empty, the one in the
// folder `tokenizer_path`. The bos_token of a named template is the tokenizer's only if it puts bos in front of text by itself;
// that of a file is the tokenizer's. None, or an unknown name, is a UserError.
ChosenTemplate choose_template(const std::string& wanted, const std::string& tokenizer_path, const Tokenizer& tokenizer,
                               const std::string& asked_by);

}  // namespace ravine
