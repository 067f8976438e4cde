// The beginning of a text.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// At most so many bytes, and no part of a character at the end; of what is not UTF-8 up to 3 bytes fewer.
inline std::string_view cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// The same for a message: ".." stands for what is left out.
inline std::string shown_text(std::string_view text, size_t most = 200) {
  return std::string(cut_text(text, most)) + (text.size() > most ? ".." : "");
}

}  // namespace ravine
