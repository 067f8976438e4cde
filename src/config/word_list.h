// Words in one text, with a blank before and after each: rows of tables of names.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace ravine {

// True if `word` is one of `words` (" adamw adam_w ").
inline bool stands_in(const std::string& word, std::string_view words) {
  return !word.empty() && word.find(' ') == std::string::npos && words.find(" " + word + " ") != std::string_view::npos;
}

// True if `word`, in lower case, is one of `words` (" adamw adam_w ").
inline bool stands_among(std::string word, std::string_view words) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return stands_in(word, words);
}

}  // namespace ravine
