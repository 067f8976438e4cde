#include "eval/answers.h"

#include <algorithm>

#include "eval/python_text.h"

namespace ravine {
namespace {

bool is_choice_letter(char c) { return c >= 'A' && c <= 'D'; }

}  // namespace

std::string parse_boolq(std::string_view output) {
  std::string word(strip_left(output).substr(0, 3));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return word == "yes" ? "T" : word.starts_with("no") ? "F" : "";
}

// As re.match(".*(?P<answer>[A|B|C|D])\\..*") and re.match("(?P<answer>[A|B|C|D])"), letters only.
std::string parse_mmlu(std::string_view output) {
  const std::string_view line = first_line(strip_left(output));
  for (size_t i = line.size(); i-- > 1;)
    if (line[i] == '.' && is_choice_letter(line[i - 1])) return std::string(1, line[i - 1]);
  return !line.empty() && is_choice_letter(line[0]) ? std::string(1, line[0]) : "";
}

// Appends two blanks to the text, replaces full stops by blanks, then matches "The answer is (.*?) ", which does not
// cross a line.
std::string parse_gsm8k(std::string_view output) {
  std::string_view answer = strip_left(output);
  answer = answer.substr(0, answer.find("Q:"));
  std::string text = without(answer, "$,") + "  ";
  std::replace(text.begin(), text.end(), '.', ' ');
  constexpr std::string_view kBefore = "The answer is ";
  for (size_t at = 0; (at = text.find(kBefore, at)) != std::string::npos;) {
    at += kBefore.size();
    const size_t end = text.find_first_of(" \n", at);
    if (end != std::string::npos && text[end] == ' ') return text.substr(at, end - at);
  }
  return "";
}

std::string parse_agieval(std::string_view output) { return without(first_line(strip_left(output)), "$()"); }

std::string parse_bbh(std::string_view output) { return std::string(first_line(strip_left(output))); }

std::string parse_ceval(std::string_view output) { return std::string(strip_left(output)); }

}  // namespace ravine
