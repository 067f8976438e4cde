// A conversation with a model, as the ids that ask it for its next answer.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

class ChatPrompt {
 public:
  // `wanted`: as choose_template (prompt_templates.h); `folder`: the tokenizer's. `system`: its first message;
  // empty: none. No template is a UserError that says how to give one.
  ChatPrompt(const Tokenizer& tokenizer, const std::string& wanted, const std::string& folder, const std::string& system);

  // The ids of all that was said, this question and the beginning of an answer: those of Transformers' apply_chat_template with
  // add_generation_prompt. A conversation that the template refuses is a UserError with the template's words.
  std::vector<int32_t> ask(const std::string& question);
  // What the model has answered: the ids that follow those of ask().
  void answered(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids);
  void begin_again();  // forgets all but the system's message

  int32_t end_token() const { return end_; }  // which a model trained with the template says when an answer is done

 private:
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  Json messages_;
  std::string system_;
  int32_t end_ = -1;
};

}  // namespace ravine
