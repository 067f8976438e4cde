// Finds the end token of answers in the text of a chat template.
#pragma once
#include <cstdint>
#include <string>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

// The token with which a model that was trained with a chat template ends an answer: the result of end_of_answer().
struct EndOfAnswer {
  std::string text;  // the end token as the template writes it; "": it writes none, and `id` is the tokenizer's eos
  int32_t id = -1;   // id of the end token
};

// Finds the end token of answers: the first special token that the template writes after the answer to a question. If
// there is none, it is the token after an answer in a longer conversation, which must not be a token that opens
// messages; else the tokenizer's eos. UserErrors: a template that drops the answer, and no end token at all. A template
// that refuses a question and its answer is a jinja::TemplateError.
EndOfAnswer end_of_answer(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace ravine
