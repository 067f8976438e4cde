#include "eval/python_text.h"

#include <algorithm>
#include <iterator>

namespace ravine {
namespace {

constexpr std::string_view kWideSpaces[] = {  // beyond ASCII, of str.isspace()
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83",
    "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A",
    "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }

}  // namespace

std::string_view strip_left(std::string_view t) {
  for (;;) {
    if (!t.empty() && is_ascii_space(t[0])) {
      t.remove_prefix(1);
      continue;
    }
    const auto* wide = std::find_if(std::begin(kWideSpaces), std::end(kWideSpaces), [&](auto w) { return t.starts_with(w); });
    if (wide == std::end(kWideSpaces)) return t;
    t.remove_prefix(wide->size());
  }
}

std::string_view strip(std::string_view t) {
  t = strip_left(t);
  for (;;) {
    if (!t.empty() && is_ascii_space(t.back())) {
      t.remove_suffix(1);
      continue;
    }
    const auto* wide = std::find_if(std::begin(kWideSpaces), std::end(kWideSpaces), [&](auto w) { return t.ends_with(w); });
    if (wide == std::end(kWideSpaces)) return t;
    t.remove_suffix(wide->size());
  }
}

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

std::string replaced(std::string_view t, std::string_view what, std::string_view by) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = t.find(what, at)) != std::string_view::npos; at = found + what.size())
    out.append(t.substr(at, found - at)).append(by);
  return out.append(t.substr(at));
}

std::string_view first_line(std::string_view t) { return t.substr(0, t.find('\n')); }

}  // namespace ravine
