// Functions that shorten a text.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Returns the first bytes of `text`, at most `most` bytes, without a partial UTF-8 character at the end. If the text is
// not UTF-8, up to 3 bytes fewer are returned.
inline std::string_view cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Returns the beginning of `text` for a message: at most `most` bytes, and ".." behind them if the text was cut.
inline std::string shown_text(std::string_view text, size_t most = 200) {
  return std::string(cut_text(text, most)) + (text.size() > most ? ".." : "");
}

}  // namespace ravine
