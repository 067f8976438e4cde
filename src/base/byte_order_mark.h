// The byte order mark U+FEFF. Programs of Windows write it as the first character of a file; it is not part of the
// text.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

inline void drop_byte_order_mark(std::string& text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
}

inline std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

}  // namespace ravine
