#include "base/look_alike.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/text.h"

namespace ravine {
namespace {

struct LookAlike {
  size_t at = std::string_view::npos, bytes = 0;
  uint32_t code = 0;
  std::string ascii;  // "" for an invisible character
};

// Sets `ascii` to the ASCII character that the code point looks like, "" for an invisible one. False if it is no
// look-alike.
bool to_ascii(uint32_t c, std::string& ascii) {
  if (c >= 0xff01 && c <= 0xff5e) return ascii = std::string(1, static_cast<char>(c - 0xfee0)), true;
  if (c == 0x00a0 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f || c == 0x205f || c == 0x3000) return ascii = " ", true;
  if ((c >= 0x200b && c <= 0x200f) || c == 0x2060 || c == 0xfeff || c == 0x00ad) return ascii = "", true;
  if ((c >= 0x2010 && c <= 0x2015) || c == 0x2212) return ascii = "-", true;
  if (c == 0x2018 || c == 0x2019) return ascii = "'", true;
  if (c == 0x201c || c == 0x201d) return ascii = "\"", true;
  if (c == 0x3001) return ascii = ",", true;
  if (c == 0x3002) return ascii = ".", true;
  if (c == 0x3010) return ascii = "[", true;
  if (c == 0x3011) return ascii = "]", true;
  return false;
}

LookAlike find_look_alike(std::string_view t, size_t from) {
  LookAlike out;
  const size_t end = std::min(t.size(), find_invalid_utf8(t));
  for (size_t i = from; i < end;) {
    const auto lead = static_cast<unsigned char>(t[i]);
    const size_t n = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    uint32_t c = lead & (n == 1 ? 0x7fu : 0xffu >> (n + 1));
    for (size_t k = 1; k < n; ++k) c = c << 6 | (static_cast<unsigned char>(t[i + k]) & 0x3fu);
    if (n > 1 && to_ascii(c, out.ascii)) {
      out.at = i, out.bytes = n, out.code = c;
      return out;
    }
    i += n;
  }
  return out;
}

}  // namespace

std::string with_plain_characters(std::string_view text) {
  std::string out;
  size_t at = 0;
  for (LookAlike l; (l = find_look_alike(text, at)).bytes > 0; at = l.at + l.bytes)
    out += std::string(text.substr(at, l.at - at)) + l.ascii;
  return out + std::string(text.substr(at));
}

std::string look_alike(std::string_view text) {
  const LookAlike l = find_look_alike(text, 0);
  if (l.bytes == 0) return "";
  const char* kind = l.code >= 0xff01                       ? "full-width"
                     : l.code == 0x3000                     ? "full-width"
                     : l.code == 0x00a0 || l.code == 0x202f ? "no-break"
                                                            : "typographic";
  if (l.ascii.empty() || l.code == 0xfeff) return fmt::format("a character that nobody sees (U+{:04X}) stands in it", l.code);
  if (l.ascii == " ") return fmt::format("a blank in it is the {} one (U+{:04X})", kind, l.code);
  return fmt::format("'{}' (U+{:04X}) is {} '{}'", text.substr(l.at, l.bytes), l.code,
                     l.code >= 0x3000 && l.code < 0xff00 ? "the Chinese" : fmt::format("a {}", kind), l.ascii);
}

}  // namespace ravine
