// The text of an answer while its ids come, and the texts at which it ends.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ravine {

class AnswerText {
 public:
  // The text is what follows the prompt's, so the decoder hears the prompt first. stops: not empty ones, in UTF-8. The tokenizer
  // must outlive it.
  AnswerText(const Tokenizer& tokenizer, std::span<const int32_t> prompt, std::vector<std::string> stops);

  // The text that became certain: never half a character, nor what may be the beginning of a stop text. Where one is complete the
  // answer ends before it. Ids that only the model has make no text.
  std::string next(int32_t id);
  bool stopped() const { return stopped_; }  // by a stop text; from then on no text comes
  std::string finish();                      // what was held back; nothing may follow

 private:
  std::string take(const std::string& more, bool all);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace ravine
