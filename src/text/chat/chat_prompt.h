// A conversation with a model, encoded as the ids of the prompt for its next answer.
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
  // wanted: as in choose_template() (prompt_templates.h); folder: the folder of the tokenizer; system: the system
  // message, empty: none. A missing template is a UserError that says how to set one.
  ChatPrompt(const Tokenizer& tokenizer, const std::string& wanted, const std::string& folder, const std::string& system);

  // Adds a question and returns the ids of the conversation and the beginning of an answer, as Transformers'
  // apply_chat_template with add_generation_prompt. A conversation that the template refuses is a UserError with the
  // template's message; the question is then not added.
  std::vector<int32_t> ask(const std::string& question);
  // Adds the answer of the model: the ids after the prompt of ask(), or their text.
  void answered(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids);
  void answered(const std::string& text);
  void begin_again();                        // removes all messages except the system message
  void set_system(const std::string& text);  // sets the system message and begins again; empty: none

  // Returns all messages, [{"role", "content"}, ..]. set_messages() replaces them.
  const Json& messages() const { return messages_; }
  void set_messages(Json messages);
  void take_back();      // removes the last question, which has no answer
  bool forget_oldest();  // removes the oldest question with its answer; false if only the last question is left
  // Returns the ids of a conversation, like ask(). A refusal of the template is a jinja::TemplateError. Thread-safe.
  std::vector<int32_t> ids_of(const Json& messages) const;

  // The token with which a model that was trained with the template ends an answer.
  int32_t end_token() const { return end_; }

 private:
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  Json messages_;
  std::string system_;
  int32_t end_ = -1;
};

}  // namespace ravine
