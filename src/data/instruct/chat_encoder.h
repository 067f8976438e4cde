// Conversations to token ids, and which of them are learned.
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

// A role that is neither usual nor named by the template is a UserError naming `where` and the message.
void check_roles(const ChatTemplate& chat, const Json& messages, const std::string& where);
// The text of messages; what the template refuses is a UserError naming `where`. ask: with the prompt for an answer behind.
std::string render_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, bool ask,
                            const std::string& where);
// The messages as the template writes all their calls of tools: the arguments in a form that it takes
// (text/chat/call_arguments.h), and null in place of an empty text beside calls where it writes them beside null alone.
// Arguments in no form that it takes are a UserError naming `where`, the message and the member.
Json written_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, const std::string& where);

// How many ids of a rendered text stand before message n: before what the template writes behind its prompt for an answer, or,
// where the text does not go on as that prompt does, before the words of the message.
size_t ids_before_message(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages, const Json& tools,
                          size_t n, const std::string& text, const std::vector<int32_t>& ids, const std::string& where);

// The end token of answers; a template that cannot render a question and its answer, or no end token at all, is a UserError.
EndOfAnswer end_of_answers(const Tokenizer& tokenizer, const ChatTemplate& chat);

// Puts the end token behind the ids of a rendered text that ends with its last answer, where the template writes none.
void append_missing_end(const Tokenizer& tokenizer, const EndOfAnswer& end, const Json& last_message, const std::string& text,
                        std::vector<int32_t>& ids);

struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> learned;  // of each id: 1 if it is to be predicted
};

// The ids are those of the whole rendered text, as Transformers' apply_chat_template gives them. An answer is what a template
// puts between the prompt it makes for generation and the end token behind the answer, which is learned with it; earlier
// answers may have another end token than the last one, and none of the thoughts. Where a token
// holds the end of a prompt and the beginning of the answer, it is learned; what stands behind the last learned token is left
// out. A last answer that the template writes no end token behind gets it appended: the one that the template writes behind other
// answers, or the tokenizer's eos if it writes none. Const members may be called by several
// threads.
class ChatEncoder {
 public:
  // A template that cannot render a question and its answer, or no end token at all, is a UserError.
  ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat, LossOn loss);

  // A role that is neither usual nor named by the template, a conversation that the template refuses, or whose answers cannot
  // be found in the text, each with its calls of tools and an end token, is a UserError naming `where` and the message. Without an answer to learn, no id is learned.
  EncodedChat encode(const Conversation& conversation, const std::string& where) const;

  int32_t end_token() const { return end_.id; }  // what a model trained so says when an answer is done
  bool end_is_appended() const { return end_.text.empty(); }
  std::string settings() const;  // all that decides, with the tokenizer, what encode() gives

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
