// Preferences out of records, and their ids, by the rules of TRL 1.16 (trl/trainer/dpo_trainer.py _prepare_dataset,
// trl/data_utils.py extract_prompt).
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "data/instruct/chat_encoder.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

// {"prompt", "chosen", "rejected"}: three texts, or three lists of messages {"role", "content", ..}, perhaps "tools". Without a
// prompt (or with a text beside lists) it is the common beginning of both answers: of texts up to the first character that
// differs, or to the blank before it; of lists the messages that are alike.
// Forms of LLaMA-Factory and ModelLink: {"instruction", "input", "chosen", "rejected"} of texts, perhaps "system" and
// "history";
// {"conversations" (or "messages"), "chosen", "rejected"} with one message for each answer. Both are conversations.
struct Preference {
  bool conversation = false;
  std::string prompt, chosen, rejected;                             // texts
  Json prompt_messages, chosen_messages, rejected_messages, tools;  // of a conversation; the last two hold the prompt too
};

// Whether a record is a conversation, which a chat template renders. A record that is no preference is a UserError naming
// `where` and the key.
bool is_conversation_of_preferences(const Json& record, const std::string& where);
// A missing key, a wrong type and an answer without anything in it are UserErrors naming `where` and the key.
Preference read_preference(const Json& record, const std::string& where);

struct EncodedPair {
  EncodedChat chosen, rejected;  // each with the prompt before it; learned is what the answer adds to it
  size_t prompt = 0;             // ids of both that belong to the prompt
};

// Texts are encoded with the tokens that the tokenizer puts around them, and end with its end token; conversations as the
// template renders them, with its end token appended where it writes none behind the last answer. An answer of texts begins where the ids of prompt and answer leave those of the prompt alone, one of a
// conversation where ids_before_message (chat_encoder.h) has it, for each by itself. Const members may
// be called by several threads.
class PairEncoder {
 public:
  // chat: null if there are texts only. Texts without an end token are a UserError.
  PairEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat);
  EncodedPair encode(const Preference& pair, const std::string& where) const;
  std::string settings() const;  // all that decides, with the tokenizer, what encode() gives

 private:
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  EndOfAnswer end_;  // of texts: the tokenizer's
};

}  // namespace ravine
