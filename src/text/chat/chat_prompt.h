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
  // Begins a conversation without questions. wanted: the name or file of the chat template, or the folder that has it;
  // "": the template in `folder`, the folder of the tokenizer. system: the system message; "": none. A missing template
  // is a UserError that says how to set one.
  ChatPrompt(const Tokenizer& tokenizer, const std::string& wanted, const std::string& folder, const std::string& system);

  // Adds a question to the conversation. Returns the ids of the prompt for its answer: all messages and the beginning
  // of an answer, as Transformers' apply_chat_template with add_generation_prompt. A conversation that the template
  // refuses is a UserError with the template's message; the question is then not added.
  std::vector<int32_t> add_question(const std::string& question);
  // Add the answer of the model to the last question. prompt: the result of add_question(). ids: the ids that the model
  // has generated after it. text: the answer as text.
  void answered(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids);
  void answered(const std::string& text);
  void begin_again();                        // removes all messages except the system message
  void set_system(const std::string& text);  // sets the system message and begins again; empty: none

  // Returns all messages, [{"role", "content"}, ..]. set_messages() replaces them.
  const Json& messages() const { return messages_; }
  void set_messages(Json messages);
  void take_back();      // removes the last question, which has no answer
  bool forget_oldest();  // removes the oldest question with its answer; false if only the last question is left
  // Returns the ids of the prompt for the answer to any conversation, in place of this one. A refusal of the template
  // is a jinja::TemplateError. Thread-safe.
  std::vector<int32_t> ids_of(const Json& messages) const;

  // Returns the id of the token with which a model that was trained with the template ends an answer.
  int32_t end_token() const { return end_; }

 private:
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  Json messages_;
  std::string system_;
  int32_t end_ = -1;
};

}  // namespace ravine
