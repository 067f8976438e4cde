// The page at /: a chat with the model in a browser. It loads nothing from other servers.
#pragma once
#include <string_view>

namespace ravine {

extern const std::string_view kPage;

}  // namespace ravine
