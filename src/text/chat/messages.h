// Messages of a conversation, as clients of a server send them and files hold them.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// Why something is no list of messages.
struct MessagesError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The messages as chat templates take them: each an object with a text under "role", and under "content" a text or parts of type
// "text", which become one text; a message that calls tools may have none. All other fields (reasoning_content, name, tool_calls,
// tool_call_id, any of one's own) stay as they are: the template sees them as `tokenizer render` gives them. Else a MessagesError.
Json as_messages(Json list);

}  // namespace ravine
