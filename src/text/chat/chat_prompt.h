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
  // add_generation_prompt. A conversation that the template refuses is a UserError with the template's words, and the question is
  // not part of it.
  std::vector<int32_t> ask(const std::string& question);
  // What the model has answered: the ids that follow those of ask(), or their text.
  void answered(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids);
  void answered(const std::string& text);
  void begin_again();                        // forgets all but the system's message
  void set_system(const std::string& text);  // and begins again; empty: none

  // All that was said, [{"role", "content"}, ..]. One that is put in its place is of that form.
  const Json& messages() const { return messages_; }
  void set_messages(Json messages);
  void take_back();      // the last question, which has no answer
  bool forget_oldest();  // the oldest question with its answer; false: there is none but the last
  // The ids of a conversation: as ask(). What the template refuses is a jinja::TemplateError. Several threads may call it.
  std::vector<int32_t> ids_of(const Json& messages) const;

  int32_t end_token() const { return end_; }  // which a model trained with the template says when an answer is done

 private:
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  Json messages_;
  std::string system_;
  int32_t end_ = -1;
};

}  // namespace ravine
