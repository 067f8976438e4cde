#include "eval/python_text.h"

#include <algorithm>

namespace ravine {

int64_t count_characters(std::string_view t) {
  return std::count_if(t.begin(), t.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string capitalise(std::string_view t) {
  std::string out(t);
  for (size_t i = 0; i < out.size(); ++i) {
    char& c = out[i];
    if (i == 0 && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (i > 0 && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string without(std::string_view t, std::string_view characters) {
  std::string out;
  for (const char c : t)
    if (characters.find(c) == std::string_view::npos) out += c;
  return out;
}

std::string_view first_line(std::string_view t) { return t.substr(0, t.find('\n')); }

}  // namespace ravine
