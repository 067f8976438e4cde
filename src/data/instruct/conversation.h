// Conversations out of records, in the forms that instruction sets are published in.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"
#include "config/choices.h"
#include "data/record.h"

namespace ravine {

// alpaca    {"instruction", "input", "output"}, perhaps "system" and "history": [[question, answer], ..]; an input that is not
//           empty stands behind the instruction on a line of its own
// sharegpt  {"conversations": [{"from", "value"}, ..]}, perhaps "system", "tools"; from: human or user, gpt or assistant,
//           system, function_call, observation or tool; {"role", "content"} stand for {"from", "value"}
// messages  {"messages": [{"role", "content", ..}, ..]}, perhaps "tools", as OpenAI's API has them; content is text or a list
//           of {"type": "text", "text"}; an assistant's message of "weight": 0 is not learned; tool_calls
//           and tools are lists of objects, or JSON texts of them; {"from", "value"} stand for
//           {"role", "content"}
enum class ChatFormat : uint8_t { alpaca, sharegpt, messages };
constexpr auto names_of(ChatFormat) {
  using enum ChatFormat;
  return std::to_array<ValueName<ChatFormat>>({{alpaca, "alpaca"}, {sharegpt, "sharegpt"}, {messages, "messages"}});
}

std::optional<ChatFormat> chat_format(RecordFormat format);  // none: records are text, or the first one tells
// What a record looks like; nothing if it is no conversation.
std::optional<ChatFormat> detect_chat_format(const Json& record);

// A record that is none, but nearly: a UserError for one misspelled key of a form, for questions and answers under other keys,
// and for lists of records under a key.
void refuse_chat_slip(const Json& record, const std::string& where);

struct Conversation {
  Json messages = Json::array();  // {"role", "content", ..} each, as chat templates take them
  Json tools;                     // null: none
  std::vector<bool> learned;      // of each message: it is an answer to learn
};

// The tools of a record: a list of objects, or JSON text of one, or a list of such texts. Null: none.
Json read_tools(const Json& record, const std::string& where);

// An answer without any text, and without calls of tools, is not learned. A missing field or a wrong value is a UserError
// naming `where` and the field. `asked_by`: the option or flag that names the form, for messages.
Conversation read_conversation(const Json& record, ChatFormat format, const std::string& where,
                               const std::string& asked_by = "data.format");

}  // namespace ravine
