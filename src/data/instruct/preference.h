// Reads preferences from records and encodes them, by the rules of TRL 1.16 (trl/trainer/dpo_trainer.py
// _prepare_dataset, trl/data_utils.py extract_prompt).
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "data/instruct/chat_encoder.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ravine {

// A preference: {"prompt", "chosen", "rejected"} as three texts, or as three lists of messages {"role", "content", ..},
// optionally with "tools".
// Without a prompt (or with a text next to lists), the prompt is the common beginning of both answers. For texts it
// ends at the first different character, or at the space before it; for lists it is the equal messages.
// Formats of LLaMA-Factory and ModelLink are conversations: {"instruction", "input", "chosen", "rejected"} of texts,
// optionally "system" and "history"; {"conversations" (or "messages"), "chosen", "rejected"} with one message for each
// answer.
struct Preference {
  bool conversation = false;
  std::string prompt, chosen, rejected;  // texts
  // Set for a conversation; chosen_messages and rejected_messages include the prompt.
  Json prompt_messages, chosen_messages, rejected_messages, tools;
};

// True if the preference in a record is a conversation, which a chat template renders; false if it is texts. A record
// that is not a preference is a UserError that names `where` and the key.
bool is_conversation_of_preferences(const Json& record, const std::string& where);
// Reads the preference in a record. A missing key, a wrong type and an empty answer are UserErrors that name `where`
// and the key.
Preference read_preference(const Json& record, const std::string& where);

// The result of PairEncoder::encode(): the ids of a preference pair.
struct EncodedPair {
  EncodedChat chosen, rejected;  // each with its prompt; the tokens of the answer are learned
  size_t prompt = 0;             // number of leading ids that belong to the prompt; the same in chosen and rejected
};

// Encodes preferences as ids, and marks the ids of the answers as learned.
// Texts are encoded with the tokens that the tokenizer adds to a text, and end with its end token. The answer begins at
// the first id in which prompt plus answer differs from the prompt alone.
// Conversations are rendered by the template; its end token is appended if the template writes none after the last
// answer. Each answer begins where ids_before_message() (chat_encoder.h) finds it. Const members are thread-safe.
class PairEncoder {
 public:
  // chat: the template that renders conversations; null if all preferences are texts. Without a template, a tokenizer
  // without an end token is a UserError.
  PairEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat);
  EncodedPair encode(const Preference& pair, const std::string& where) const;
  // Returns a text of all settings that determine the result of encode() in addition to the tokenizer.
  std::string settings() const;

 private:
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  EndOfAnswer end_;  // for texts: the tokenizer's eos
};

}  // namespace ravine
