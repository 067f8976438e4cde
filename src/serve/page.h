// The page at /: a chat with the model in a browser. It loads nothing from other servers.
#pragma once
#include <string_view>

namespace ravine {

// The HTML of the chat page.
extern const std::string_view kPage;

}  // namespace ravine
