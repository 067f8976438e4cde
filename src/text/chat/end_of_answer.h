// Finds the end token of answers in the text of a chat template.
#pragma once
#include <cstdint>
#include <string>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

struct EndOfAnswer {
  std::string text;  // text of the template's end token; empty: the template has none, and the tokenizer's eos is used
  int32_t id = -1;   // the token with which a model that was trained with the template ends an answer
};

// Returns the first special token after the answer to a question. Without one, the token after an answer in a longer
// conversation, which must not be a token that opens messages. A template that drops the answer, or no end token at
// all, is a UserError. A template that refuses a question and its answer is a jinja::TemplateError.
EndOfAnswer end_of_answer(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace ravine
