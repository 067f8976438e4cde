// Reads conversations from records, in the common formats of instruction sets.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"
#include "config/choices.h"
#include "data/record.h"

namespace ravine {

// The formats of conversations in JSON records.
// alpaca    {"instruction", "input", "output"}, optionally "system" and "history": [[question, answer], ..]. An input
//           that is not empty follows the instruction on a new line.
// sharegpt  {"conversations": [{"from", "value"}, ..]}, optionally "system" and "tools". from: human or user, gpt or
//           assistant, system, function_call, observation or tool. {"role", "content"} may replace {"from", "value"}.
// messages  {"messages": [{"role", "content", ..}, ..]}, optionally "tools", as in OpenAI's API. content is a text or
//           a list of {"type": "text", "text"}. An assistant's message of "weight": 0 is not learned. tool_calls and
//           tools are lists of objects, or JSON texts of them. {"from", "value"} may replace {"role", "content"}.
enum class ChatFormat : uint8_t { alpaca, sharegpt, messages };
constexpr auto names_of(ChatFormat) {
  using enum ChatFormat;
  return std::to_array<ValueName<ChatFormat>>({{alpaca, "alpaca"}, {sharegpt, "sharegpt"}, {messages, "messages"}});
}

// Returns the conversation format that a value of data.format names; nothing if the value means text, or that the first
// record decides.
std::optional<ChatFormat> chat_format(RecordFormat format);
// Returns the conversation format of a record by its keys; nothing if the record is not a conversation.
std::optional<ChatFormat> detect_chat_format(const Json& record);

// Throws a UserError if a record is almost a conversation: one misspelled key, questions and answers under other keys,
// or lists of records under a key.
void refuse_chat_slip(const Json& record, const std::string& where);

// A conversation, read from a record in any format.
struct Conversation {
  Json messages = Json::array();  // {"role", "content", ..} each, as chat templates expect them
  Json tools;                     // null: none
  std::vector<bool> learned;      // of each message: true if it is an answer to learn
};

// Returns the tools of a record as a JSON list of objects; null if it has none. The record may have a list of objects,
// a JSON text of a list, or a list of JSON texts. Another value is a UserError that names `where`.
Json read_tools(const Json& record, const std::string& where);

// Reads the conversation in a record. An answer without text and without tool calls is not learned. A missing field or
// a wrong value is a UserError that names `where` and the field. option_name: the option or flag that sets the format,
// for messages.
Conversation read_conversation(const Json& record, ChatFormat format, const std::string& where,
                               const std::string& option_name = "data.format");

}  // namespace ravine
