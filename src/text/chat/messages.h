// Checks the messages of a conversation, as clients of a server send them and files contain them.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// The error of as_messages(): the reason why a value is not a list of messages.
struct MessagesError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Checks a JSON list of messages from outside, and returns it in the form for chat templates. Each message is an object
// with a text under "role", and under "content" a text, or a list of parts of type "text", which are joined. A message
// with tool calls may have no content. All other fields (reasoning_content, name, tool_calls, tool_call_id, custom
// fields) are passed to the template unchanged, as in `tokenizer render`. Any other value is a MessagesError.
Json as_messages(Json list);

}  // namespace ravine
