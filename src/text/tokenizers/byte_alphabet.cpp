#include "text/tokenizers/byte_alphabet.h"

#include "text/unicode/unicode.h"

namespace ravine {

ByteAlphabet::ByteAlphabet() {
  for (auto& c : of_char) c = -1;
  char32_t next = 256;
  for (int b = 0; b < 256; ++b) {
    bool prints = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    of_byte[b] = prints ? static_cast<char32_t>(b) : next++;
    of_char[of_byte[b]] = static_cast<int16_t>(b);
  }
}

std::string ByteAlphabet::map(std::string_view bytes) const {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char b : bytes) append_utf8(out, of_byte[static_cast<unsigned char>(b)]);
  return out;
}

bool ByteAlphabet::unmap(std::string_view text, std::string& bytes) const {
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    int b = byte(next_char(text, at));
    if (b < 0) return false;
    bytes += static_cast<char>(b);
  }
  return true;
}

}  // namespace ravine
