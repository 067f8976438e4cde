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

// Throws a UserError with `where` and the message if a role is neither usual nor named by the template.
void check_roles(const ChatTemplate& chat, const Json& messages, const std::string& where);
// Renders messages as text. ask: with the prompt of an answer at the end. A refusal of the template is a UserError that
// names `where`.
std::string render_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, bool ask,
                            const std::string& where);
// Returns the messages in a form in which the template writes all tool calls. The arguments get a form that the
// template accepts (text/chat/call_arguments.h). An empty content next to calls becomes null if the template writes the
// calls only then. Arguments in no accepted form are a UserError that names `where`, the message and the member.
Json written_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, const std::string& where);

// Returns the number of ids of a rendered text that precede message n. The message begins where the template writes
// text after its prompt for an answer. If the text does not continue like this prompt, it begins at the words of the
// message.
size_t ids_before_message(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages, const Json& tools,
                          size_t n, const std::string& text, const std::vector<int32_t>& ids, const std::string& where);

// Returns the end token of answers. A template that cannot render a question and its answer, or no end token at all, is
// a UserError.
EndOfAnswer end_of_answers(const Tokenizer& tokenizer, const ChatTemplate& chat);

// Appends the end token to the ids of a rendered text that ends with an answer, if the template has not written one.
void append_missing_end(const Tokenizer& tokenizer, const EndOfAnswer& end, const Json& last_message, const std::string& text,
                        std::vector<int32_t>& ids);

struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> learned;  // of each id: 1 if it is to be predicted
};

// Encodes conversations. The ids encode the whole rendered text, as in Transformers' apply_chat_template.
// An answer is the text between the template's prompt for generation and the end token; the end token is learned with
// it. Earlier answers may have another end token than the last one, and no thoughts. A token that holds the end of a
// prompt and the beginning of its answer is learned. Text after the last learned token is left out.
// If the template writes no end token after the last answer, one is appended: the end token of other answers, or else
// the tokenizer's eos. Const members are thread-safe.
class ChatEncoder {
 public:
  // A template that cannot render a question and its answer, or no end token at all, is a UserError.
  ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat, LossOn loss);

  // Encodes a conversation. If there is no answer to learn, no id is learned. Each fault is a UserError that names
  // `where` and the message. Faults are a role that is neither usual nor named by the template, and a conversation that
  // the template refuses. Another fault is an answer that cannot be found in the text with its tool calls and an end
  // token.
  EncodedChat encode(const Conversation& conversation, const std::string& where) const;

  int32_t end_token() const { return end_.id; }  // the token with which a trained model ends an answer
  bool end_is_appended() const { return end_.text.empty(); }
  std::string settings() const;  // all settings that determine encode(), with the tokenizer

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
  bool asks_ = true;  // add_generation_prompt changes the text
};

}  // namespace ravine
