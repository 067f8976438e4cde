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
// Returns the Jinja text of the built-in prompt template with this name; "" if there is none.
std::string prompt_template(const std::string& name);

// Throws a UserError unless `wanted` is the name of a built-in template, or an existing file or folder. option_name:
// the option or flag that names the template, for messages.
void check_template_name(const std::string& wanted, const std::string& option_name);

// Returns the text of a file of Jinja, without its byte order mark.
std::string read_template_file(const std::string& path);

// The result of choose_template().
struct ChosenTemplate {
  std::unique_ptr<ChatTemplate> chat;
  // The Jinja text of a built-in template or of a file, to be stored with the model; empty: `chat` is the tokenizer's.
  std::string source;
};

// Returns the chat template to use. wanted: the name of a built-in template, a file of Jinja, or the folder of a
// tokenizer; "": the template in the folder `tokenizer_path`. The variable bos_token of a built-in template is the
// tokenizer's bos if the tokenizer puts bos before a text, else empty; for a file it is the tokenizer's bos. No
// template, or an unknown name, is a UserError. option_name: the option or flag that has `wanted`, for messages.
ChosenTemplate choose_template(const std::string& wanted, const std::string& tokenizer_path, const Tokenizer& tokenizer,
                               const std::string& option_name);

}  // namespace ravine
