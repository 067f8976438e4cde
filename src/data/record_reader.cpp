#include "data/record_reader.h"

#include "base/error.h"

namespace ravine {

std::string name_field(const std::string& option_name, const std::string& field) {
  if (option_name.empty()) return "rename the key to 'text'";
  return option_name.starts_with("--") ? fmt::format("add {} {}", option_name, field)
                                       : fmt::format("set {}={}", option_name, field);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, from, i - from);
    from = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += fmt::format("\\u{:04x}", c);
    }
  }
  out.append(text, from);
  out += '"';
}

}  // namespace ravine
