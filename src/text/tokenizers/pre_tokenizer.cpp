#include "text/tokenizers/pre_tokenizer.h"

#include "base/error.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior read_behavior(const JsonView& json) {
  const std::pair<const char*, Behavior> names[] = {{"Removed", Behavior::removed},
                                                    {"Isolated", Behavior::isolated},
                                                    {"MergedWithPrevious", Behavior::merged_with_previous},
                                                    {"MergedWithNext", Behavior::merged_with_next},
                                                    {"Contiguous", Behavior::contiguous}};
  for (const auto& [name, b] : names)
    if (json.string() == name) return b;
  json.wrong("it must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void push(WordList& list, const TextSpan& word, size_t begin, size_t end) {
  if (end > begin) list.next.push_back({word.text.substr(begin, end - begin), word.at_start && begin == 0});
}

// Combines the parts of a word that a pattern separates, as NormalizedString::split does.
class Splitter {
 public:
  Splitter(const TextSpan& word, Behavior behavior, WordList& list) : word_(word), behavior_(behavior), list_(list) {}

  // Adds the next part, matched or not; parts are in order and without gaps.
  void part(size_t begin, size_t end, bool match) {
    switch (behavior_) {
      case Behavior::removed:
        if (!match) push(list_, word_, begin, end);
        return;
      case Behavior::isolated:
        push(list_, word_, begin, end);
        return;
      case Behavior::contiguous:
        if (open_ && match == previous_)
          end_ = end;
        else
          begin_part(begin, end);
        break;
      case Behavior::merged_with_previous:
        if (open_ && match && !previous_)
          end_ = end;
        else
          begin_part(begin, end);
        break;
      case Behavior::merged_with_next:  // a match joins the next part if this is not a match
        if (open_ && previous_ && !match)
          end_ = end;
        else
          begin_part(begin, end);
        break;
    }
    previous_ = match;
  }

  void finish() {
    if (open_) push(list_, word_, begin_, end_);
  }

 private:
  void begin_part(size_t begin, size_t end) {
    finish();
    begin_ = begin;
    end_ = end;
    open_ = true;
  }
  const TextSpan& word_;
  Behavior behavior_;
  WordList& list_;
  size_t begin_ = 0, end_ = 0;
  bool open_ = false, previous_ = false;
};

// Splits at characters of a kind.
template <class Is>
void split_chars(const TextSpan& word, Behavior behavior, WordList& list, Is&& is) {
  Splitter splitter(word, behavior, list);
  size_t from = 0;
  for (size_t at = 0; at < word.text.size();) {
    size_t begin = at;
    if (!is(next_char(word.text, at))) continue;
    if (from < begin) splitter.part(from, begin, false);
    splitter.part(begin, at, true);
    from = at;
  }
  if (from < word.text.size()) splitter.part(from, word.text.size(), false);
  splitter.finish();
}

template <class Is>
class CharSplit final : public PreTokenizerStep {
 public:
  CharSplit(Behavior behavior, Is is) : behavior_(behavior), is_(std::move(is)) {}
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override { split_chars(word, behavior_, list, is_); }

 private:
  Behavior behavior_;
  Is is_;
};

template <class Is>
std::unique_ptr<PreTokenizerStep> char_split(Behavior behavior, Is is) {
  return std::make_unique<CharSplit<Is>>(behavior, std::move(is));
}

auto is_of(uint8_t kind) {
  return [table = char_table(), kind](char32_t c) { return (table->of(c) & kind) != 0; };
}

class RegexSplit final : public PreTokenizerStep {
 public:
  RegexSplit(Regex regex, Behavior behavior, bool invert) : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  void cut(const TextSpan& word, WordList& list, RegexScratch& scratch) const override {
    Splitter splitter(word, behavior_, list);
    size_t from = 0;
    each_match(regex_, word.text, scratch, [&](size_t begin, size_t end) {
      if (from != begin) splitter.part(from, begin, invert_);
      splitter.part(begin, end, !invert_);
      from = end;
    });
    if (from != word.text.size()) splitter.part(from, word.text.size(), invert_);
    splitter.finish();
  }

 private:
  Regex regex_;
  Behavior behavior_;
  bool invert_;
};

class TextSplit final : public PreTokenizerStep {
 public:
  TextSplit(std::string text, Behavior behavior, bool invert) : text_(std::move(text)), behavior_(behavior), invert_(invert) {}
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    Splitter splitter(word, behavior_, list);
    size_t from = 0;
    for (size_t at; (at = word.text.find(text_, from)) != std::string_view::npos; from = at + text_.size()) {
      if (from != at) splitter.part(from, at, invert_);
      splitter.part(at, at + text_.size(), !invert_);
    }
    if (from != word.text.size()) splitter.part(from, word.text.size(), invert_);
    splitter.finish();
  }

 private:
  std::string text_;
  Behavior behavior_;
  bool invert_;
};

class ScanSplit final : public PreTokenizerStep {
 public:
  explicit ScanSplit(SplitPattern pattern) : pattern_(pattern) {}
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    bool first = word.at_start;
    scan_words(pattern_, *table_, word.text, [&](std::string_view part) {
      list.next.push_back({part, first});
      first = false;
    });
  }

 private:
  SplitPattern pattern_;
  std::shared_ptr<const CharTable> table_ = char_table();
};

// Splits by the pattern \w+|[^\w\s]+.
class Whitespace final : public PreTokenizerStep {
 public:
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    auto kind = [&](char32_t c) {
      uint8_t of = table_->of(c);
      return of & kWord ? 1 : of & kSpace ? 0 : 2;
    };
    size_t from = 0;
    int before = 0;
    for (size_t at = 0; at < word.text.size();) {
      size_t begin = at;
      int now = kind(next_char(word.text, at));
      if (now == before) continue;
      if (before) push(list, word, from, begin);
      from = begin;
      before = now;
    }
    if (before) push(list, word, from, word.text.size());
  }

 private:
  std::shared_ptr<const CharTable> table_ = char_table();
};

class PrefixSpace final : public PreTokenizerStep {
 public:
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    if (word.text.empty() || word.text[0] == ' ') {
      list.next.push_back(word);
    } else {
      list.texts.push_back(" " + std::string(word.text));
      list.next.push_back({list.texts.back(), word.at_start});
    }
  }
};

class MapBytes final : public PreTokenizerStep {
 public:
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    list.texts.push_back(alphabet_.map(word.text));
    list.next.push_back({list.texts.back(), word.at_start});
  }

 private:
  ByteAlphabet alphabet_;
};

enum class Prefix { first, never, always };

class Metaspace final : public PreTokenizerStep {
 public:
  Metaspace(char32_t mark, Prefix prefix, bool split) : mark_(mark), prefix_(prefix), split_(split) {
    append_utf8(text_, mark);
  }
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    std::string s;
    for (char c : word.text)
      if (c == ' ')
        s += text_;
      else
        s += c;
    bool add = prefix_ == Prefix::always || (prefix_ == Prefix::first && word.at_start);
    if (add && !s.starts_with(text_)) s = text_ + s;
    list.texts.push_back(std::move(s));
    TextSpan marked{list.texts.back(), word.at_start};
    if (split_)
      split_chars(marked, Behavior::merged_with_next, list, [&](char32_t c) { return c == mark_; });
    else
      list.next.push_back(marked);
  }

 private:
  char32_t mark_;
  std::string text_;
  Prefix prefix_;
  bool split_;
};

class Scripts final : public PreTokenizerStep {
 public:
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    int last = -1;
    size_t from = 0;
    bool any = false;  // text before the first script is lost, as in Hugging Face's library
    for (size_t at = 0; at < word.text.size();) {
      size_t begin = at;
      int script = script_of(next_char(word.text, at));
      if (script < 0) continue;
      if (script != last) {
        if (any) push(list, word, from, begin);
        from = begin;
        any = true;
      }
      last = script;
    }
    if (any) push(list, word, from, word.text.size());
  }
};

class FixedLength final : public PreTokenizerStep {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  void cut(const TextSpan& word, WordList& list, RegexScratch&) const override {
    size_t from = 0;
    int64_t count = 0;
    for (size_t at = 0; at < word.text.size();) {
      next_char(word.text, at);
      if (++count == length_ || at == word.text.size()) {
        push(list, word, from, at);
        from = at;
        count = 0;
      }
    }
  }

 private:
  int64_t length_;
};

char32_t one_char(const JsonView& json) {
  size_t at = 0;
  std::string_view s = json.string();
  char32_t c = s.empty() ? 0 : next_char(s, at);
  if (s.empty() || at != s.size()) json.wrong("it must be one character");
  return c;
}

// The steps that are being read. bytes: index of the last change to byte characters.
struct Reading {
  std::vector<std::unique_ptr<PreTokenizerStep>> steps;
  std::optional<size_t> bytes;         // index of the last MapBytes
  std::vector<SplitPattern> patterns;  // of the scanners among the steps
  int maps = 0;                        // changes of bytes to characters, and of spaces to marks
  size_t parts = 0;
  bool prefix = false;         // a space is put before the text, before any split
  bool changed_after = false;  // a step after the bytes does more than splitting

  void add(std::unique_ptr<PreTokenizerStep> step) { steps.push_back(std::move(step)); }
  void count_map(const JsonView& json) {
    if (++maps > 4) json.wrong("characters are exchanged too often");  // each change stores a longer copy of the text
  }
  void read(const JsonView& json, int depth);
  void read_split(const JsonView& json);
  void read_metaspace(const JsonView& json);
};

void Reading::read_split(const JsonView& json) {
  json.only({"type", "pattern", "behavior", "invert"});
  JsonView pattern = json.at("pattern");
  Behavior behavior = read_behavior(json.at("behavior"));
  bool invert = json.flag("invert", false);
  if (auto text = pattern.find("String")) {
    if (text->string().empty()) text->wrong("it must not be empty");
    return add(std::make_unique<TextSplit>(std::string(text->string()), behavior, invert));
  }
  JsonView regex = pattern.at("Regex");
  auto known = known_pattern(regex.string());
  // The known patterns match all text, so all behaviors that separate matches are equal.
  if (known && ((behavior == Behavior::isolated) || (behavior == Behavior::removed && invert))) {
    patterns.push_back(*known);
    return add(std::make_unique<ScanSplit>(*known));
  }
  add(std::make_unique<RegexSplit>(Regex(regex.string(), regex.where()), behavior, invert));
}

void Reading::read_metaspace(const JsonView& json) {
  json.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  std::string scheme = json.text("prepend_scheme", "always");
  Prefix prefix = Prefix::always;
  if (scheme == "first")
    prefix = Prefix::first;
  else if (scheme == "never")
    prefix = Prefix::never;
  else if (scheme != "always")
    json.at("prepend_scheme").wrong("it must be first, never or always");
  if (!json.flag("add_prefix_space", true)) {
    if (json.find("prepend_scheme") && prefix != Prefix::never)
      json.wrong("add_prefix_space does not agree with prepend_scheme");
    prefix = Prefix::never;
  }
  changed_after = true;
  count_map(json);
  add(std::make_unique<Metaspace>(one_char(json.at("replacement")), prefix, json.flag("split", true)));
}

void Reading::read(const JsonView& json, int depth) {
  std::string type = json.text("type", "");
  if (++parts > kMostParts) json.wrong(fmt::format("a tokenizer has at most {} pre-tokenizers", kMostParts));
  if (type == "Sequence") {
    json.only({"type", "pretokenizers"});
    if (depth >= kDeepestSequence) json.wrong("sequences are nested too deeply");
    json.at("pretokenizers").each([&](const JsonView& j) { read(j, depth + 1); });
  } else if (type == "ByteLevel") {
    json.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (json.flag("add_prefix_space", true)) {
      prefix = steps.empty();
      add(std::make_unique<PrefixSpace>());
    }
    if (json.flag("use_regex", true)) {
      patterns.push_back(SplitPattern::gpt2);
      add(std::make_unique<ScanSplit>(SplitPattern::gpt2));
    }
    changed_after = false;
    count_map(json);
    bytes = steps.size();
    add(std::make_unique<MapBytes>());
  } else if (type == "Split") {
    read_split(json);
  } else if (type == "Metaspace") {
    read_metaspace(json);
  } else if (type == "Whitespace") {
    json.only({"type"});
    add(std::make_unique<Whitespace>());
  } else if (type == "WhitespaceSplit") {
    json.only({"type"});
    add(char_split(Behavior::removed, is_of(kSpace)));
  } else if (type == "BertPreTokenizer") {
    json.only({"type"});
    add(char_split(Behavior::removed, is_of(kSpace)));
    add(char_split(Behavior::isolated, is_of(kPunctuation)));
  } else if (type == "Punctuation") {
    json.only({"type", "behavior"});
    auto behavior = json.find("behavior");
    add(char_split(behavior ? read_behavior(*behavior) : Behavior::isolated, is_of(kPunctuation)));
  } else if (type == "Digits") {
    json.only({"type", "individual_digits"});
    add(char_split(json.at("individual_digits").boolean() ? Behavior::isolated : Behavior::contiguous, is_of(kNumeric)));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    json.only({"type", "delimiter"});
    add(char_split(Behavior::removed, [c = one_char(json.at("delimiter"))](char32_t x) { return x == c; }));
  } else if (type == "UnicodeScripts") {
    json.only({"type"});
    add(std::make_unique<Scripts>());
  } else if (type == "FixedLength") {
    json.only({"type", "length"});
    auto length = json.find("length");
    add(std::make_unique<FixedLength>(length ? length->integer(1, 1 << 30) : 5));
  } else {
    json.wrong(fmt::format("the pre-tokenizer '{}' is not known", type));
  }
}

}  // namespace

PreTokenizer read_pre_tokenizer(const JsonView& json, bool bytes) {
  Reading r;
  r.read(json, 0);
  PreTokenizer pre;
  if (bytes && r.bytes && !r.changed_after) {
    pre.ends_in_bytes_ = true;
    if (*r.bytes + 1 == r.steps.size())
      r.steps.pop_back();  // the words are already split and may stay bytes
    else
      pre.unmap_ = true;
    size_t cutting = r.steps.size() - (r.prefix ? 1 : 0);
    if (!pre.unmap_ && cutting == 1 && r.patterns.size() == 1) {
      // A space is put before the text and one scanner runs, or the pre-tokenizer is this scanner alone.
      pre.pattern_ = r.patterns[0];
      pre.prefix_space_ = r.prefix;
    }
  }
  pre.steps_ = std::move(r.steps);
  return pre;
}

void PreTokenizer::run(TextSpan text, WordList& list, RegexScratch& scratch) const {
  list.clear();
  list.words.push_back(text);
  for (const auto& step : steps_) {
    list.next.clear();
    for (const auto& word : list.words) step->cut(word, list, scratch);
    std::swap(list.words, list.next);
  }
  if (!unmap_) return;
  for (auto& word : list.words) {
    std::string bytes;
    require(alphabet_.unmap(word.text, bytes), "pre-tokenizer: a word is not of byte characters");
    list.texts.push_back(std::move(bytes));
    word.text = list.texts.back();
  }
}

}  // namespace ravine
