// Encodes conversations as token ids, and marks the ids that are learned.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/instruct/conversation.h"
#include "text/chat/chat_template.h"
#include "text/chat/end_of_answer.h"
#include "text/tokenizer.h"

namespace ravine {

// Checks the roles of messages. Throws a UserError that names `where` and the message if a role is neither one of the
// usual roles nor named in the text of the chat template.
void check_roles(const ChatTemplate& chat, const Json& messages, const std::string& where);
// Renders messages as text by a chat template. tools: the tools of the conversation; null: none. add_generation_prompt:
// true appends the template's prompt for an answer (add_generation_prompt). An error that the template raises is a
// UserError that names `where`.
std::string render_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, bool add_generation_prompt,
                            const std::string& where);
// Returns the messages, changed so that the template writes all tool calls in them. The arguments get a form that the
// template accepts (text/chat/call_arguments.h). An empty content next to calls becomes null if the template writes the
// calls only then. Arguments in no accepted form are a UserError that names `where`, the message and the member.
Json written_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, const std::string& where);

// Returns the number of ids that precede message n in a rendered conversation. text, ids: all messages, rendered and
// encoded. The message begins after the text of the messages before it and the template's prompt for an answer. If
// `text` does not continue like this prompt, the message begins at its own words.
size_t ids_before_message(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages, const Json& tools,
                          size_t n, const std::string& text, const std::vector<int32_t>& ids, const std::string& where);

// Returns the token with which the template ends an answer, or the tokenizer's eos if the template writes none. A
// template that cannot render a question and its answer, or no end token at all, is a UserError.
EndOfAnswer end_of_answers(const Tokenizer& tokenizer, const ChatTemplate& chat);

// Appends the end token to `ids` if the template has not written one after the last answer. text, ids: a rendered
// conversation that ends with the answer `last_message`, and its ids.
void append_missing_end(const Tokenizer& tokenizer, const EndOfAnswer& end, const Json& last_message, const std::string& text,
                        std::vector<int32_t>& ids);

// The result of ChatEncoder::encode(): the ids of a conversation.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> learned;  // of each id: 1 if it is to be predicted
};

// Encodes conversations as ids, and marks the ids that are learned. The ids encode the whole rendered text, as in
// Transformers' apply_chat_template.
// An answer is the text between the template's prompt for generation and the end token; the end token is learned with
// it. Earlier answers may have another end token than the last one, and no thoughts. A token that holds the end of a
// prompt and the beginning of its answer is learned. Text after the last learned token is left out.
// If the template writes no end token after the last answer, one is appended: the end token of other answers, or else
// the tokenizer's eos. Const members are thread-safe.
class ChatEncoder {
 public:
  // loss: the messages that are learned. A template that cannot render a question and its answer, or no end token at
  // all, is a UserError.
  ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat, LossOn loss);

  // Encodes a conversation. If it has no answer to learn, no id is marked as learned. UserErrors name `where` and the
  // message: a role that is neither usual nor named by the template; a conversation that the template refuses; an
  // answer that cannot be found in the rendered text with its tool calls and an end token.
  EncodedChat encode(const Conversation& conversation, const std::string& where) const;

  int32_t end_token() const { return end_.id; }  // id of the token with which a trained model ends an answer
  bool end_is_appended() const { return end_.text.empty(); }
  // Returns a text of all settings that determine the result of encode() in addition to the tokenizer: chat template,
  // learned messages and end token.
  std::string settings() const;

 private:
  struct Span {
    size_t begin = 0, end = 0;  // in bytes of the text
  };
  size_t end_behind(const std::string& text, size_t at, size_t body) const;
  std::vector<Span> answers(const std::string& text, bool bare, const Conversation& conversation,
                            const std::string& where) const;

  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  LossOn loss_;
  EndOfAnswer end_;
  bool prompt_changes_text_ = true;  // add_generation_prompt changes the text
};

}  // namespace ravine
