// The page at /: a conversation with the model in a browser. It loads nothing from elsewhere.
#pragma once
#include <string_view>

namespace ravine {

extern const std::string_view kPage;

}  // namespace ravine
