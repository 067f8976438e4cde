#include "text/tokenizers/precompiled.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

constexpr size_t kLongestRule = 1024;

[[noreturn]] void damaged_map(const std::string& where, const std::string& rule) {
  throw UserError("damaged table of normalisation rules", where, rule, "replace the file");
}

std::string from_base64(std::string_view text, const std::string& where) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (char c : text) {
    uint32_t v;
    if (c >= 'A' && c <= 'Z')
      v = static_cast<uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      v = static_cast<uint32_t>(c - 'a' + 26);
    else if (c >= '0' && c <= '9')
      v = static_cast<uint32_t>(c - '0' + 52);
    else if (c == '+')
      v = 62;
    else if (c == '/')
      v = 63;
    else
      damaged_map(where, "it must be base64");
    bits = bits << 6 | v;
    if (++count == 4) {
      out += {static_cast<char>(bits >> 16), static_cast<char>(bits >> 8), static_cast<char>(bits)};
      bits = 0;
      count = 0;
    }
  }
  if (count == 1) damaged_map(where, "it must be base64");
  if (count >= 2) out += static_cast<char>(bits >> (count == 2 ? 4 : 10));
  if (count == 3) out += static_cast<char>(bits >> 2);
  return out;
}

size_t offset_of(uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

// A walk along the units must end for any text: no rule is longer than kLongestRule, so no walk returns to an earlier
// unit.
template <class Unit>
void check_depth(size_t n, Unit&& unit, const std::string& where) {
  struct Step {
    uint32_t at;
    uint32_t next = 1;  // byte to look for
  };
  std::vector<uint16_t> depth(n);  // depth below, plus 1; 0: unknown
  std::vector<bool> in_flight(n);
  std::vector<Step> walk{{0}};
  in_flight[0] = true;
  while (!walk.empty()) {
    Step& s = walk.back();
    const size_t from = s.at ^ offset_of(unit(s.at));
    bool down = false;
    for (; s.next < 256 && !down; ++s.next) {
      const size_t to = from ^ s.next;
      if (to >= n || (unit(to) & ((1u << 31) | 0xff)) != s.next) continue;
      if (in_flight[to] || walk.size() > kLongestRule) damaged_map(where, "the normalisation rules lead in a circle");
      if (depth[to] == 0) {
        in_flight[to] = true;
        walk.push_back({static_cast<uint32_t>(to)});  // invalidates `s`; its byte is read again
        down = true;
        break;
      }
      depth[s.at] = std::max<uint16_t>(depth[s.at], static_cast<uint16_t>(depth[to] + 1));
    }
    if (down) continue;
    depth[s.at] = std::max<uint16_t>(depth[s.at], 1);
    if (depth[s.at] > kLongestRule)
      damaged_map(where, fmt::format("a rule of normalisation is longer than {} bytes", kLongestRule));
    in_flight[s.at] = false;
    walk.pop_back();
  }
}

}  // namespace

void check_precompiled(std::string_view blob, const std::string& where) {
  uint32_t bytes = 0;
  if (blob.size() <= 4) damaged_map(where, "the normalisation rules are cut short");
  std::memcpy(&bytes, blob.data(), 4);
  if (bytes == 0 || bytes % 4 != 0 || bytes >= blob.size() - 4) damaged_map(where, "the normalisation rules have a wrong size");
  std::string_view replacements = blob.substr(4 + size_t{bytes});
  if (replacements.back() != '\0') damaged_map(where, "the normalisation rules do not end");
  size_t n = bytes / 4;
  auto unit = [&](size_t i) {
    uint32_t u;
    std::memcpy(&u, blob.data() + 4 + 4 * i, 4);
    return u;
  };
  if (unit(0) >> 31) damaged_map(where, "the normalisation rules have no root");  // walks begin there in any case
  for (size_t i = 0; i < n; ++i) {
    uint32_t u = unit(i);
    if (u >> 31) continue;  // a value, never used as a node, because its label has the top bit
    size_t child = i ^ offset_of(u);
    if ((child | 0xff) >= n) damaged_map(where, "the normalisation rules point outside their table");
    if (!(u >> 8 & 1)) continue;
    const size_t to = unit(child) & 0x7fffffffu;
    if (to >= replacements.size()) damaged_map(where, "the normalisation rules point outside their replacements");
    if (replacements.substr(to, kLongestReplacement + 1).find('\0') == std::string_view::npos)
      damaged_map(where, fmt::format("a rule of normalisation writes more than {} bytes", kLongestReplacement));
  }
  check_depth(n, unit, where);
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i) three = three << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : kDigits[three >> (18 - 6 * i) & 63];
  }
  return out;
}

PrecompiledRules::PrecompiledRules(std::string_view base64, const std::string& where) {
  std::string blob = from_base64(base64, where);
  check_precompiled(blob, where);
  uint32_t bytes = 0;
  std::memcpy(&bytes, blob.data(), 4);
  trie_.resize(bytes / 4);
  std::memcpy(trie_.data(), blob.data() + 4, bytes);
  replacements_ = blob.substr(4 + size_t{bytes});
  if (find_invalid_utf8(replacements_) != std::string_view::npos) damaged_map(where, "a replacement is not UTF-8");
}

// Returns the replacement of the shortest rule with which the text begins, as the crate does.
const char* PrecompiledRules::find(std::string_view text) const {
  size_t node = offset_of(trie_[0]);
  for (char ch : text) {
    auto c = static_cast<unsigned char>(ch);
    if (c == 0) return nullptr;
    node ^= c;
    uint32_t unit = trie_[node];
    if ((unit & ((1u << 31) | 0xff)) != c) return nullptr;
    node ^= offset_of(unit);
    if (unit >> 8 & 1) {
      uint32_t at = trie_[node] & 0x7fffffffu;
      // A rule may point into the middle of a character; there is no replacement then.
      return (static_cast<unsigned char>(replacements_[at]) & 0xc0) == 0x80 ? nullptr : replacements_.data() + at;
    }
  }
  return nullptr;
}

std::string PrecompiledRules::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  auto one = [&](std::string_view part) {
    const char* rule = find(part);
    if (rule)
      out += rule;
    else
      out += part;
    return rule != nullptr;
  };
  auto plain = [](char c) { return static_cast<unsigned char>(c) < 0x80 && c != '\r'; };
  for (size_t at = 0; at < text.size();) {
    // A character of ASCII before another one is a separate cluster.
    if (plain(text[at]) && (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0x80)) {
      one(text.substr(at++, 1));
      continue;
    }
    size_t end = at + 1;
    // Clusters end between two characters of ASCII.
    while (end < text.size() && !(plain(text[end - 1]) && plain(text[end]))) ++end;
    std::string_view stretch = text.substr(at, end - at);
    size_t from = 0;
    for (size_t to : grapheme_ends(stretch)) {
      std::string_view cluster = stretch.substr(from, to - from);
      if (cluster.size() >= 6 || !one(cluster)) {
        if (cluster.size() < 6) out.erase(out.size() - cluster.size());
        for (size_t i = 0; i < cluster.size();) {
          size_t begin = i;
          next_char(cluster, i);
          one(cluster.substr(begin, i - begin));
        }
      }
      from = to;
    }
    at = end;
  }
  return out;
}

}  // namespace ravine
