// Where an answer ends in what a chat template writes.
#pragma once
#include <cstdint>
#include <string>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

struct EndOfAnswer {
  std::string text;  // of the template's end token; empty: it has none, and the tokenizer's eos stands for it
  int32_t id = -1;   // what a model trained with the template says when an answer is done
};

// The first special token behind the answer to a question; without one, behind an answer of a longer conversation, where it must
// be no token that opens messages. A template that drops the answer, or no end token at all, is a UserError; one that refuses a
// question and its answer a jinja::TemplateError.
EndOfAnswer end_of_answer(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace ravine
