#include "text/tokenizers/normalizer.h"

#include <vector>

#include "base/error.h"
#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/precompiled.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

bool has_non_ascii(std::string_view s) {
  for (char c : s)
    if (static_cast<unsigned char>(c) >= 0x80) return true;
  return false;
}

class Form final : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  bool is_identity(std::string_view text) const override { return form_.is_identity(text); }
  std::string change(std::string text, bool&, RegexScratch&, size_t) const override {
    return form_.is_identity(text) ? std::move(text) : form_.apply(text);
  }

 private:
  Normalization form_;
};

// Replaces characters one by one: f(c, out) appends the replacement of c.
template <class F>
std::string each_char(std::string_view text, F&& f) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) f(next_char(text, at), out);
  return out;
}

class Lowercase final : public Normalizer {
 public:
  bool is_identity(std::string_view text) const override {
    for (char c : text)
      if (static_cast<unsigned char>(c) >= 0x80 || (c >= 'A' && c <= 'Z')) return false;
    return true;
  }
  std::string change(std::string text, bool&, RegexScratch&, size_t) const override {
    return each_char(text, [](char32_t c, std::string& out) { append_lower(out, c); });
  }
};

class StripAccents final : public Normalizer {
 public:
  bool is_identity(std::string_view text) const override { return !has_non_ascii(text); }
  std::string change(std::string text, bool&, RegexScratch&, size_t) const override {
    return each_char(text, [](char32_t c, std::string& out) {
      if (!is_mark(c)) append_utf8(out, c);
    });
  }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool is_identity(std::string_view) const override { return false; }
  std::string change(std::string text, bool& at_start, RegexScratch&, size_t) const override {
    std::string_view s = text;
    auto table = char_table();
    if (left_) {
      size_t from = 0;
      for (size_t at = 0; at < s.size(); from = at)
        if (!(table->of(next_char(s, at)) & kSpace)) break;
      if (from > 0) at_start = false;
      s.remove_prefix(from);
    }
    while (right_ && !s.empty()) {
      size_t at = s.size() - 1;
      while (at > 0 && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80) --at;
      size_t next = at;
      if (!(table->of(next_char(s, next)) & kSpace)) break;
      s.remove_suffix(s.size() - at);
    }
    return std::string(s);
  }

 private:
  bool left_, right_;
};

class Bert final : public Normalizer {
 public:
  Bert(bool clean, bool chinese, bool strip, bool lower)
      : clean_(clean), chinese_(chinese), strip_(strip), lower_(lower), nfd_(NormalForm::nfd) {}
  bool is_identity(std::string_view) const override { return false; }
  std::string change(std::string text, bool& at_start, RegexScratch&, size_t) const override {
    auto table = char_table();
    if (clean_) {
      bool first = true;
      text = each_char(text, [&](char32_t c, std::string& out) {
        bool white = c == '\t' || c == '\n' || c == '\r';
        if (c == 0 || c == 0xfffd || (!white && is_other(c)))
          at_start = at_start && !first;
        else
          append_utf8(out, white || (table->of(c) & kSpace) ? U' ' : c);
        first = false;
      });
    }
    if (chinese_ && has_non_ascii(text))
      text = each_char(text, [](char32_t c, std::string& out) {
        bool han = is_chinese(c);
        if (han) out += ' ';
        append_utf8(out, c);
        if (han) out += ' ';
      });
    if (strip_ && has_non_ascii(text)) {
      if (!nfd_.is_identity(text)) text = nfd_.apply(text);
      text = each_char(text, [](char32_t c, std::string& out) {
        if (!is_nonspacing_mark(c)) append_utf8(out, c);
      });
    }
    if (lower_) text = each_char(text, [](char32_t c, std::string& out) { append_lower(out, c); });
    return text;
  }

 private:
  bool clean_, chinese_, strip_, lower_;
  Normalization nfd_;
};

void check_growth(size_t size, size_t most) {
  if (size > most)
    throw UserError("the normalizer makes too much text", "tokenizer.json",
                    fmt::format("a text may grow to 64 times its size and {} bytes", kNormalizedSlack),
                    "use another tokenizer");
}

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  bool is_identity(std::string_view text) const override { return text.empty() || text_.empty(); }
  std::string change(std::string text, bool&, RegexScratch&, size_t most) const override {
    if (text.empty()) return text;
    check_growth(text_.size() + text.size(), most);
    return text_ + text;
  }

 private:
  std::string text_;
};

// True if the text still begins at its start: at most one character of its beginning was replaced, and the replacement
// is not empty.
bool still_at_start(std::string_view replaced, std::string_view to) {
  size_t one = 0;
  if (!replaced.empty()) next_char(replaced, one);
  return one == replaced.size() && (!to.empty() || replaced.empty());
}

class ReplaceText final : public Normalizer {
 public:
  ReplaceText(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  bool is_identity(std::string_view text) const override { return text.find(from_) == std::string_view::npos; }
  std::string change(std::string text, bool& at_start, RegexScratch&, size_t most) const override {
    std::string out;
    std::string_view s = text;
    if (s.starts_with(from_)) at_start = at_start && still_at_start(from_, to_);
    for (size_t at; (at = s.find(from_)) != std::string_view::npos; s.remove_prefix(at + from_.size())) {
      check_growth(out.size() + at + to_.size(), most);
      out += s.substr(0, at);
      out += to_;
    }
    return out += s;
  }

 private:
  std::string from_, to_;
};

class ReplaceRegex final : public Normalizer {
 public:
  ReplaceRegex(Regex regex, std::string to) : regex_(std::move(regex)), to_(std::move(to)) {}
  bool is_identity(std::string_view) const override { return false; }
  std::string change(std::string text, bool& at_start, RegexScratch& scratch, size_t most) const override {
    std::string out;
    size_t from = 0;
    each_match(regex_, text, scratch, [&](size_t begin, size_t end) {
      if (begin == 0) at_start = at_start && still_at_start(std::string_view(text).substr(0, end), to_);
      check_growth(out.size() + begin - from + to_.size(), most);
      out.append(text, from, begin - from);
      out += to_;
      from = end;
    });
    return out.append(text, from);
  }

 private:
  Regex regex_;
  std::string to_;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(PrecompiledRules rules) : rules_(std::move(rules)) {}
  bool is_identity(std::string_view) const override { return false; }
  std::string change(std::string text, bool&, RegexScratch&, size_t) const override {
    return rules_.apply(text);
  }  // limited by kLongestReplacement

 private:
  PrecompiledRules rules_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  bool is_identity(std::string_view) const override { return false; }
  std::string change(std::string text, bool&, RegexScratch&, size_t) const override { return alphabet_.map(text); }

 private:
  ByteAlphabet alphabet_;
};

class Several final : public Normalizer {
 public:
  explicit Several(std::vector<std::unique_ptr<Normalizer>> list) : list_(std::move(list)) {}
  bool is_identity(std::string_view text) const override {
    for (const auto& n : list_)
      if (!n->is_identity(text)) return false;
    return true;
  }
  std::string change(std::string text, bool& at_start, RegexScratch& scratch, size_t most) const override {
    for (const auto& n : list_) {
      text = n->change(std::move(text), at_start, scratch, most);
      check_growth(text.size(), most);
    }
    return text;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> list_;
};

std::unique_ptr<Normalizer> normalizer_of(const JsonView& json, int depth, size_t& parts) {
  std::string type = json.text("type", "");
  if (++parts > kMostParts) json.wrong(fmt::format("a tokenizer has at most {} normalizers", kMostParts));
  auto form = [&](NormalForm f) {
    json.only({"type"});
    return std::make_unique<Form>(f);
  };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return json.only({"type"}), std::make_unique<Lowercase>();
  if (type == "StripAccents") return json.only({"type"}), std::make_unique<StripAccents>();
  if (type == "ByteLevel") return json.only({"type"}), std::make_unique<ByteLevelNormalizer>();
  if (type == "Strip") {
    json.only({"type", "strip_left", "strip_right"});
    return std::make_unique<Strip>(json.at("strip_left").boolean(), json.at("strip_right").boolean());
  }
  if (type == "BertNormalizer" || type == "Bert") {
    json.only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    bool lower = json.at("lowercase").boolean();
    return std::make_unique<Bert>(json.at("clean_text").boolean(), json.at("handle_chinese_chars").boolean(),
                                  json.flag("strip_accents", lower), lower);
  }
  if (type == "Prepend") {
    json.only({"type", "prepend"});
    return std::make_unique<Prepend>(std::string(json.at("prepend").string()));
  }
  if (type == "Replace") {
    json.only({"type", "pattern", "content"});
    JsonView pattern = json.at("pattern");
    std::string content(json.at("content").string());
    if (auto text = pattern.find("String")) {
      if (text->string().empty()) text->wrong("it must not be empty");
      return std::make_unique<ReplaceText>(std::string(text->string()), content);
    }
    JsonView regex = pattern.at("Regex");
    return std::make_unique<ReplaceRegex>(Regex(regex.string(), regex.where()), content);
  }
  if (type == "Precompiled") {
    json.only({"type", "precompiled_charsmap"});
    JsonView map = json.at("precompiled_charsmap");
    return std::make_unique<Precompiled>(PrecompiledRules(map.string(), map.where()));
  }
  if (type == "Sequence") {
    json.only({"type", "normalizers"});
    if (depth >= kDeepestSequence) json.wrong("sequences are nested too deeply");
    std::vector<std::unique_ptr<Normalizer>> list;
    json.at("normalizers").each([&](const JsonView& j) { list.push_back(normalizer_of(j, depth + 1, parts)); });
    return std::make_unique<Several>(std::move(list));
  }
  json.wrong(fmt::format("the normalizer '{}' is not known", type));
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonView& json) {
  size_t parts = 0;
  return normalizer_of(json, 0, parts);
}

}  // namespace ravine
