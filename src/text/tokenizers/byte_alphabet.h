// The characters with which byte-level tokenizers spell bytes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ravine {

// The mapping between bytes and the characters that represent them in byte-level tokenizers: printable bytes are
// themselves, the others are U+0100.. (GPT-2's bytes_to_unicode).
struct ByteAlphabet {
  ByteAlphabet();
  char32_t of_byte[256];
  int16_t of_char[0x144];  // the byte of a character; -1: the character represents no byte
  int byte(char32_t c) const { return c < 0x144 ? of_char[c] : -1; }
  std::string map(std::string_view bytes) const;
  // Maps a text of such characters back to the bytes that they represent. Returns false if another character occurs.
  bool unmap(std::string_view text, std::string& bytes) const;
};

}  // namespace ravine
