#include "base/python_json.h"

#include "base/read_text.h"

namespace ravine {
namespace {

std::string with_quoted_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\' && i + 1 < text.size())
        out += text[i++];
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == 'N' || c == 'I') {
      const std::string_view word = c == 'N' ? "NaN" : "Infinity";
      if (text.substr(i, word.size()) == word) {
        const bool minus = c == 'I' && !out.empty() && out.back() == '-';
        if (minus) out.pop_back();
        out.append(minus ? "\"-" : "\"").append(word) += '"';
        i += word.size() - 1;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace

Json parse_python_json(std::string_view text, const std::string& where) {
  const bool plain = text.find("NaN") == std::string_view::npos && text.find("Infinity") == std::string_view::npos;
  return plain ? parse_json(text, where) : parse_json(with_quoted_numbers(text), where);
}

Json read_python_json(const std::string& path, int64_t limit) {
  return parse_python_json(read_text(path, limit, "a JSON file"), path);
}

}  // namespace ravine
