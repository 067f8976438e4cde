// Turns the ids of an answer into text as they arrive, and finds the stop texts that end the answer.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ravine {

class AnswerText {
 public:
  // Starts the decoding of one answer. prompt: its ids are decoded first, so that the answer's text continues the text
  // of the prompt. stops: stop texts, not empty, in UTF-8. The tokenizer must outlive this object.
  AnswerText(const Tokenizer& tokenizer, std::span<const int32_t> prompt, std::vector<std::string> stops);

  // Adds the next id of the answer, and returns the text that is final after it. A part of a UTF-8 character and a
  // possible beginning of a stop text are held back until a later call. An answer ends before its first complete stop
  // text. An id that the tokenizer does not have adds no text.
  std::string next(int32_t id);
  bool stopped() const { return stopped_; }  // true after a stop text; next() then returns no more text
  std::string finish();                      // returns the text that was held back; the last call

 private:
  std::string take(const std::string& more, bool all);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace ravine
