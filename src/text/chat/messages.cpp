#include "text/chat/messages.h"

#include <fmt/format.h>

namespace ravine {
namespace {

bool is_text(const Json& object, const char* key) { return object.contains(key) && object.at(key).is_string(); }

// Joins a list of {"type": "text", "text": ..}.
std::string joined(const Json& parts, size_t number) {
  std::string all;
  for (const Json& part : parts) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !is_text(part, "text"))
      throw MessagesError(fmt::format("message {}: the parts of \"content\" have a \"type\" of \"text\" and a text", number));
    all += part.at("text").get_ref<const std::string&>();
  }
  return all;
}

bool calls(const Json& message, size_t number) {
  const auto list = message.find("tool_calls");
  if (list != message.end() && !list->is_null() && !list->is_array())
    throw MessagesError(fmt::format("message {}: \"tool_calls\" must be a list", number));
  const auto call = message.find("function_call");
  return (list != message.end() && !list->empty()) || (call != message.end() && call->is_object());
}

}  // namespace

Json as_messages(Json list) {
  if (!list.is_array()) throw MessagesError("it must be a list of messages");
  size_t number = 0;
  for (Json& message : list) {
    ++number;
    if (!message.is_object() || !is_text(message, "role") || message.at("role").get_ref<const std::string&>().empty())
      throw MessagesError(fmt::format("message {}: it must be an object with a text under \"role\"", number));
    const bool may_be_silent = calls(message, number);
    const auto content = message.find("content");
    if (content != message.end() && content->is_array())
      *content = joined(*content, number);
    else if (!is_text(message, "content") && !(may_be_silent && (content == message.end() || content->is_null())))
      throw MessagesError(
          fmt::format("message {}: it has a text under \"content\", or a list of parts of type \"text\"", number));
  }
  return list;
}

}  // namespace ravine
