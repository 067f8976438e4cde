#include "dialects/deepspeed_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"

namespace ravine {
namespace {

class DeepSpeedReader {
 public:
  DeepSpeedReader(std::string_view text, const std::string& name, std::vector<std::string>& notices)
      : text_(text), name_(name), notices_(notices) {}

  YamlNode::Ptr document() {
    blanks();
    if (at_ == text_.size()) wrong("there is nothing in it", "name a file of JSON");
    if (text_[at_] != '{') wrong("a DeepSpeed config is an object", "begin with {");
    YamlNode::Ptr root = value(0);
    blanks();
    if (at_ < text_.size()) wrong("something stands behind the object", "remove it");
    return root;
  }

 private:
  [[noreturn]] void wrong(const std::string& rule, const std::string& fix) const {
    throw UserError("not valid JSON", fmt::format("{}:{}", name_, line_), rule, fix);
  }

  // The text is over, and some bracket is not closed.
  [[noreturn]] void cut_short() const {
    const auto [bracket, line] = open_.empty() ? std::pair('{', line_) : open_.back();
    wrong("it ends in the middle", fmt::format("add the {} that closes the {} of line {}, and what is missing before it",
                                               bracket == '{' ? '}' : ']', bracket, line));
  }

  void blanks() {
    for (; at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n'); ++at_)
      line_ += text_[at_] == '\n';
    if (text_.substr(at_, 2) == "//" || text_.substr(at_, 2) == "/*" || text_.substr(at_, 1) == "#")
      wrong("JSON has no comments, and Transformers refuses them", "remove the comment");
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::shared_ptr<YamlNode> made(YamlNode::Kind kind) {
    if (++values_ > kDeepSpeedValues)
      wrong(fmt::format("a config has at most {} values", kDeepSpeedValues), "check that this is the file you meant");
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->line = line_;
    return node;
  }

  YamlNode::Ptr value(int depth) {
    if (depth >= kDeepSpeedDepth) wrong(fmt::format("nesting goes at most {} deep", kDeepSpeedDepth), "check the file");
    blanks();
    if (at_ == text_.size()) cut_short();
    const char c = text_[at_];
    if (c == '{') return object(depth);
    if (c == '[') return list(depth);
    if (c == '"') {
      auto node = made(YamlNode::Kind::text);
      node->text = string();
      return node;
    }
    if (c == '\'') wrong("keys and texts stand in double quotes", "write \"key\": \"text\"");
    if (c == '-' || (c >= '0' && c <= '9')) return number();
    return word();
  }

  // Reads the separator after an element. Returns true if another element follows. Accepts a comma before the bracket.
  bool more(char close) {
    blanks();
    if (take(close)) return open_.pop_back(), false;
    if (at_ == text_.size()) cut_short();
    if (!take(',')) wrong(fmt::format("a comma or {} stands behind a value", close), "add what is missing");
    const int comma = line_;
    blanks();
    if (!take(close)) return true;
    open_.pop_back();
    notices_.push_back(fmt::format(
        "a trailing comma ({}:{}): nothing follows it; JSON has none there, and Transformers would refuse it", name_, comma));
    return false;
  }

  YamlNode::Ptr object(int depth) {
    auto node = made(YamlNode::Kind::map);
    std::set<std::string> keys;
    open_.emplace_back('{', line_);
    ++at_;
    blanks();
    if (take('}')) return open_.pop_back(), node;
    do {
      blanks();
      if (at_ == text_.size()) cut_short();
      if (text_[at_] != '"') wrong("keys stand in double quotes", "write \"key\": value");
      const int line = line_;
      std::string key = string();
      if (!keys.insert(key).second)
        throw UserError(fmt::format("key \"{}\" is given twice", key.substr(0, 80)), fmt::format("{}:{}", name_, line),
                        "an object has a key once, and which value counts would be a guess", "remove one of them");
      blanks();
      if (at_ == text_.size()) cut_short();
      if (!take(':')) wrong("a colon stands behind a key", fmt::format("write \"{}\": value", key.substr(0, 80)));
      YamlNode::Ptr element = value(depth + 1);
      node->size += element->size;
      node->fields.emplace_back(std::move(key), std::move(element));
    } while (more('}'));
    return node;
  }

  YamlNode::Ptr list(int depth) {
    auto node = made(YamlNode::Kind::list);
    open_.emplace_back('[', line_);
    ++at_;
    blanks();
    if (take(']')) return open_.pop_back(), node;
    do {
      node->items.push_back(value(depth + 1));
      node->size += node->items.back()->size;
    } while (more(']'));
    return node;
  }

  YamlNode::Ptr number() {
    const size_t begin = at_;
    const auto digits = [&] {
      const size_t from = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      if (at_ == from) wrong("a digit is missing in a number", "write it like 0.5 or 1e-5");
      return at_ - from;
    };
    take('-');
    if (text_.substr(at_).starts_with("Infinity")) return at_ = begin, word();
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    if (digits() > 1 && zero) wrong("a number begins with 0", "remove the 0");
    bool whole = true;
    if (take('.')) whole = false, digits();
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      digits();
    }
    auto node = made(YamlNode::Kind::real);
    node->text = std::string(text_.substr(begin, at_ - begin));
    const char *first = node->text.data(), *last = first + node->text.size();
    if (std::from_chars(first, last, node->real).ec == std::errc::result_out_of_range)
      wrong(fmt::format("{} is beyond the numbers of 64 bits", node->text.substr(0, 40)), "write a number that can be held");
    if (whole && std::from_chars(first, last, node->integer).ec == std::errc()) node->kind = YamlNode::Kind::integer;
    return node;
  }

  YamlNode::Ptr word() {
    struct Known {
      std::string_view word;
      YamlNode::Kind kind;
      double value;
    };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static constexpr std::array<Known, 6> known{{{"true", YamlNode::Kind::boolean, 1},
                                                 {"false", YamlNode::Kind::boolean, 0},
                                                 {"null", YamlNode::Kind::null, 0},
                                                 {"NaN", YamlNode::Kind::real, std::numeric_limits<double>::quiet_NaN()},
                                                 {"Infinity", YamlNode::Kind::real, kInfinity},
                                                 {"-Infinity", YamlNode::Kind::real, -kInfinity}}};
    for (const Known& k : known) {
      if (!text_.substr(at_).starts_with(k.word)) continue;
      auto node = made(k.kind);
      node->text = k.word;
      node->boolean = k.value == 1;
      node->real = k.value;
      at_ += k.word.size();
      return node;
    }
    if (text_[at_] == 'T' || text_[at_] == 'F' || text_[at_] == 'N')
      wrong("True, False and None are Python's words", "write true, false or null");
    wrong("a value is a text in double quotes, a number, true, false, null, a list or an object", "look at what stands here");
  }

  static void append_utf8(std::string& out, uint32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      out += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    } else {
      out += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }

  uint32_t four_digits() {
    uint32_t c = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), c, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) wrong("\\u takes four digits", "write \\u00e9");
    at_ += 4;
    return c;
  }

  std::string string() {
    std::string out;
    ++at_;
    for (;;) {
      if (at_ >= text_.size()) wrong("a text is not closed", "add the double quote that is missing");
      const char c = text_[at_++];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) wrong("a text ends on its line", "add the double quote that is missing");
      if (c != '\\') {
        out += c;
        continue;
      }
      static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
      const char e = at_ < text_.size() ? text_[at_++] : ' ';
      if (const size_t i = kFrom.find(e); i != std::string_view::npos) {
        out += kTo[i];
        continue;
      }
      if (e != 'u') wrong("an escape that JSON does not know", "write \\\\ for a backslash");
      uint32_t c32 = four_digits();
      if (c32 >= 0xD800 && c32 < 0xDC00 && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        const uint32_t low = four_digits();
        if (low < 0xDC00 || low > 0xDFFF) wrong("half of a pair of \\u stands alone", "write the character itself");
        c32 = 0x10000 + ((c32 - 0xD800) << 10) + (low - 0xDC00);
      } else if (c32 >= 0xD800 && c32 < 0xE000) {
        wrong("half of a pair of \\u stands alone", "write the character itself");
      }
      append_utf8(out, c32);
    }
    return out;
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<std::string>& notices_;
  size_t at_ = 0;
  int line_ = 1;
  int64_t values_ = 0;
  std::vector<std::pair<char, int>> open_;  // brackets that are not closed yet, with their lines
};

// Decodes URL-safe base64; returns nothing if the text is not base64.
std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!letter && c != '-' && c != '_') return std::nullopt;
    const uint32_t six = c == '-'   ? 62U
                         : c == '_' ? 63U
                         : c >= 'a' ? 26U + static_cast<uint32_t>(c - 'a')
                         : c >= 'A' ? static_cast<uint32_t>(c - 'A')
                                    : 52U + static_cast<uint32_t>(c - '0');
    bits = (bits << 6 | six) & 0xFFFFFF;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 0xFF);
  }
  return out;
}

}  // namespace

YamlNode::Ptr parse_deepspeed_json(std::string_view text, const std::string& name, std::vector<std::string>& notices) {
  if (static_cast<int64_t>(text.size()) > kDeepSpeedBytes)
    throw UserError("the config is too large", name, fmt::format("at most {} bytes", kDeepSpeedBytes),
                    "check that this is the file you meant");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (const size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw UserError(
        "not UTF-8",
        fmt::format("{}:{}", name, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')),
        "JSON is written in UTF-8", "convert the file with iconv");
  return DeepSpeedReader(text, name, notices).document();
}

YamlNode::Ptr read_deepspeed_json(const std::string& source, std::string& name, std::vector<std::string>& notices) {
  std::error_code error;
  name = source;
  if (!std::filesystem::exists(source, error) && source.size() >= 16)
    if (const std::optional<std::string> text = from_base64(source); text && text->starts_with("{"))
      return name = "--deepspeed", parse_deepspeed_json(*text, name, notices);
  return parse_deepspeed_json(read_text(source, kDeepSpeedBytes, "a DeepSpeed config"), name, notices);
}

}  // namespace ravine
