#include "text/tokenizers/decoder.h"

#include <optional>

#include "base/error.h"
#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/regex.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

void check_part(size_t size, size_t most) {
  if (size > most)
    throw UserError("the decoder makes too much text", "tokenizer.json",
                    fmt::format("at most {} bytes for tokens of this length", most), "use another tokenizer");
}

std::string replace_all(std::string_view s, std::string_view from, std::string_view to, size_t most) {
  std::string out;
  for (size_t at; !from.empty() && (at = s.find(from)) != std::string_view::npos; s.remove_prefix(at + from.size())) {
    check_part(out.size() + at + to.size(), most);
    out += s.substr(0, at);
    out += to;
  }
  return out += s;
}

// Removes the spaces before punctuation and contractions of English (tokenizers/src/decoders/wordpiece.rs).
std::string clean_up(std::string s) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [from, to] : kRules) s = replace_all(s, from, to, SIZE_MAX);  // no rule makes the text longer
  return s;
}

class ByteLevelStep final : public DecoderStep {
 public:
  explicit ByteLevelStep(std::shared_ptr<const ByteAlphabet> alphabet) : alphabet_(std::move(alphabet)) {}
  void feed(std::string_view text, const Emit& emit) override {
    if (alphabet_->unmap(text, bytes_))
      pending_ += bytes_;
    else
      pending_ += text;
    settle(false, emit);
  }
  void finish(const Emit& emit) override { settle(true, emit); }

 private:
  void settle(bool at_end, const Emit& emit) {
    std::string text;
    std::string_view rest = pending_;
    while (size_t n = take_utf8(rest, at_end, text)) rest.remove_prefix(n);
    pending_.erase(0, pending_.size() - rest.size());
    if (!text.empty()) emit(text);
  }
  std::shared_ptr<const ByteAlphabet> alphabet_;
  std::string pending_, bytes_;
};

class FuseStep final : public DecoderStep {
 public:
  void feed(std::string_view text, const Emit& emit) override { emit(text); }
};

// A run of byte tokens becomes a text, or one U+FFFD per byte for the whole run, so the decoder waits for its end.
class ByteFallbackStep final : public DecoderStep {
 public:
  void feed(std::string_view text, const Emit& emit) override {
    if (auto b = byte_of(text)) {
      bytes_ += *b;
      return;
    }
    finish(emit);
    emit(text);
  }
  void finish(const Emit& emit) override {
    if (bytes_.empty()) return;
    bool good = true;
    std::string_view rest = bytes_;
    for (int n; good && !rest.empty(); rest.remove_prefix(static_cast<size_t>(std::max(n, 1))))
      good = (n = utf8_head(rest)) > 0;
    if (good)
      emit(bytes_);
    else
      for (size_t i = 0; i < bytes_.size(); ++i) emit(kReplacement);
    bytes_.clear();
  }

 private:
  static std::optional<char> byte_of(std::string_view s) {  // "<0x41>"
    if (s.size() != 6 || !s.starts_with("<0x") || s[5] != '>') return std::nullopt;
    int v = 0;
    for (char c : s.substr(3, 2)) {
      int digit = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
      if (digit < 0 && !(c == '+' && v == 0)) return std::nullopt;
      if (digit >= 0) v = v * 16 + digit;
    }
    return static_cast<char>(v);
  }
  std::string bytes_;
};

// After a Fuse the end of the text is unknown. The number of characters at the end that may have to be removed is held
// back.
class StripStep final : public DecoderStep {
 public:
  StripStep(std::string content, int64_t start, int64_t stop, bool whole)
      : content_(std::move(content)), start_(start), stop_(stop), whole_(whole) {}
  void feed(std::string_view text, const Emit& emit) override {
    if (!whole_) cut_ = 0;
    while (cut_ >= 0 && cut_ < start_ && text.starts_with(content_)) {
      text.remove_prefix(content_.size());
      ++cut_;
    }
    if (whole_ && text.empty()) return;
    if (!text.empty()) cut_ = -1;  // the beginning is complete
    int64_t ends = 0;
    std::string_view keep = text;
    if (!whole_) {
      for (; ends < stop_ && keep.ends_with(content_); ++ends) keep.remove_suffix(content_.size());
      return emit(keep);
    }
    for (; keep.ends_with(content_); ++ends) keep.remove_suffix(content_.size());
    std::string out;
    if (!keep.empty()) put(held_, out), held_ = 0;
    out += keep;
    held_ += ends;
    if (held_ > stop_) put(held_ - stop_, out), held_ = stop_;
    if (!out.empty()) emit(out);
  }

 private:
  void put(int64_t count, std::string& out) const {
    for (; count > 0; --count) out += content_;
  }
  std::string content_;
  int64_t start_, stop_, cut_ = 0, held_ = 0;
  bool whole_;
};

class ReplaceStep final : public DecoderStep {
 public:
  ReplaceStep(std::string from, std::string to, bool whole) : from_(std::move(from)), to_(std::move(to)), whole_(whole) {
    // Entry k-1: length of the longest beginning of `from` with which its first k bytes end (Knuth, Morris, Pratt).
    borders_.assign(from_.size(), 0);
    for (size_t i = 1, k = 0; i < from_.size(); ++i) {
      while (k > 0 && from_[i] != from_[k]) k = borders_[k - 1];
      if (from_[i] == from_[k]) ++k;
      borders_[i] = k;
    }
  }
  void feed(std::string_view text, const Emit& emit) override {
    if (!whole_) return emit(replace_all(text, from_, to_, most()));
    std::string out;
    for (char c : text) {
      while (held_ > 0 && from_[held_] != c) {  // the first held bytes begin no match
        const size_t shorter = borders_[held_ - 1];
        out.append(from_, 0, held_ - shorter);
        held_ = shorter;
      }
      if (from_[held_] != c) {
        out += c;
      } else if (++held_ == from_.size()) {
        check_part(out.size() + to_.size(), most());
        out += to_;
        held_ = 0;
      }
    }
    if (!out.empty()) emit(out);
  }
  void finish(const Emit& emit) override {
    if (held_ > 0) emit(std::string_view(from_).substr(0, held_));
  }

 private:
  std::string from_, to_;
  std::vector<size_t> borders_;
  size_t held_ = 0;  // number of bytes at the end of the text that are a beginning of `from`
  bool whole_;
};

class RegexStep final : public DecoderStep {
 public:
  RegexStep(std::shared_ptr<const Regex> regex, std::string to) : regex_(std::move(regex)), to_(std::move(to)) {}
  void feed(std::string_view text, const Emit& emit) override {
    std::string out;
    size_t from = 0;
    each_match(*regex_, text, scratch_, [&](size_t begin, size_t end) {
      check_part(out.size() + begin - from + to_.size(), most());
      out += text.substr(from, begin - from);
      out += to_;
      from = end;
    });
    out += text.substr(from);
    emit(out);
  }

 private:
  std::shared_ptr<const Regex> regex_;
  std::string to_;
  RegexScratch scratch_;
};

class MetaspaceStep final : public DecoderStep {
 public:
  MetaspaceStep(std::string mark, bool prefix, bool whole) : mark_(std::move(mark)), prefix_(prefix), whole_(whole) {}
  void feed(std::string_view text, const Emit& emit) override {
    bool drop = prefix_ && (first_ || whole_);
    first_ = false;
    emit(replace_all(text, mark_, drop ? "" : " ", most()));
  }

 private:
  std::string mark_;
  bool prefix_, whole_, first_ = true;
};

class WordPieceStep final : public DecoderStep {
 public:
  WordPieceStep(std::string prefix, bool clean) : prefix_(std::move(prefix)), clean_(clean) {}
  void feed(std::string_view text, const Emit& emit) override {
    std::string s(text);
    if (!first_) {
      if (s.starts_with(prefix_))
        s.erase(0, prefix_.size());
      else
        s.insert(0, " ");
    }
    first_ = false;
    emit(clean_ ? clean_up(std::move(s)) : s);
  }

 private:
  std::string prefix_;
  bool clean_, first_ = true;
};

class BpeStep final : public DecoderStep {
 public:
  explicit BpeStep(std::string suffix) : suffix_(std::move(suffix)) {}
  void feed(std::string_view text, const Emit& emit) override {
    if (last_) emit(replace_all(*last_, suffix_, " ", most()));
    last_ = std::string(text);
  }
  void finish(const Emit& emit) override {
    if (last_) emit(replace_all(*last_, suffix_, "", most()));
  }

 private:
  std::string suffix_;
  std::optional<std::string> last_;
};

// Runs a decoder that needs the whole string: collects the string first.
class Waiting final : public DecoderStep {
 public:
  explicit Waiting(std::unique_ptr<DecoderStep> step) : step_(std::move(step)) {}
  void feed(std::string_view text, const Emit&) override { all_ += text; }
  void finish(const Emit& emit) override {
    step_->allow(most());
    step_->feed(all_, emit);
    step_->finish(emit);
  }

 private:
  std::unique_ptr<DecoderStep> step_;
  std::string all_;
};

}  // namespace

void Decoder::read(const JsonView& json, int depth, bool& whole, size_t& parts, std::vector<Make>& makers) {
  std::string type = json.text("type", "");
  if (++parts > kMostParts) json.wrong(fmt::format("a tokenizer has at most {} decoders", kMostParts));
  // A step that cannot process parts waits for the whole string.
  auto add = [&](Make make) {
    if (whole)
      makers.push_back([make] { return std::make_unique<Waiting>(make()); });
    else
      makers.push_back(std::move(make));
  };
  if (type == "Sequence") {
    json.only({"type", "decoders"});
    if (depth >= kDeepestSequence) json.wrong("sequences are nested too deeply");
    json.at("decoders").each([&](const JsonView& j) { read(j, depth + 1, whole, parts, makers); });
  } else if (type == "ByteLevel") {
    json.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    add([alphabet = std::make_shared<const ByteAlphabet>()] { return std::make_unique<ByteLevelStep>(alphabet); });
    whole = true;
  } else if (type == "Fuse") {
    json.only({"type"});
    makers.push_back([] { return std::make_unique<FuseStep>(); });
    whole = true;
  } else if (type == "ByteFallback") {
    json.only({"type"});
    add([] { return std::make_unique<ByteFallbackStep>(); });
  } else if (type == "Strip") {
    json.only({"type", "content", "start", "stop"});
    JsonView content = json.at("content");
    size_t at = 0;
    std::string c(content.string());
    if (c.empty() || (next_char(c, at), at != c.size())) content.wrong("it must be one character");
    int64_t start = json.at("start").integer(0, INT32_MAX), stop = json.at("stop").integer(0, INT32_MAX);
    makers.push_back([=, w = whole] { return std::make_unique<StripStep>(c, start, stop, w); });
  } else if (type == "Replace") {
    json.only({"type", "pattern", "content"});
    JsonView pattern = json.at("pattern");
    std::string to(json.at("content").string());
    if (auto text = pattern.find("String")) {
      std::string from(text->string());
      if (from.empty()) text->wrong("it must not be empty");
      makers.push_back([=, w = whole] { return std::make_unique<ReplaceStep>(from, to, w); });
    } else {
      JsonView regex = pattern.at("Regex");
      auto shared = std::make_shared<const Regex>(regex.string(), regex.where());
      add([=] { return std::make_unique<RegexStep>(shared, to); });
    }
  } else if (type == "Metaspace") {
    json.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    bool prefix = json.text("prepend_scheme", "always") != "never" && json.flag("add_prefix_space", true);
    std::string mark(json.at("replacement").string());
    if (mark.empty()) json.at("replacement").wrong("it must be one character");
    makers.push_back([=, w = whole] { return std::make_unique<MetaspaceStep>(mark, prefix, w); });
  } else if (type == "WordPiece") {
    json.only({"type", "prefix", "cleanup"});
    std::string prefix(json.at("prefix").string());
    bool clean = json.at("cleanup").boolean();
    add([=] { return std::make_unique<WordPieceStep>(prefix, clean); });
  } else if (type == "BPEDecoder") {
    json.only({"type", "suffix"});
    std::string suffix(json.at("suffix").string());
    add([=] { return std::make_unique<BpeStep>(suffix); });
  } else {
    json.wrong(fmt::format("the decoder '{}' is not known", type));
  }
}

Decoder read_decoder(const JsonView& json) {
  Decoder d;
  if (json.is_null()) return d;
  bool whole = false;
  size_t parts = 0;
  Decoder::read(json, 0, whole, parts, d.makers_);
  d.none_ = false;
  return d;
}

DecoderRun Decoder::start() const {
  DecoderRun run;
  run.spaces_ = none_;
  for (const auto& make : makers_) run.steps_.push_back(make());
  return run;
}

void DecoderRun::feed(size_t step, std::string_view text, std::string& out) {
  check_part(text.size(), most());
  if (step == steps_.size()) {
    check_part(out_bytes_ += text.size(), most());
    out += text;
    return;
  }
  steps_[step]->allow(most());
  steps_[step]->feed(text, [&](std::string_view t) { feed(step + 1, t, out); });
}

void DecoderRun::token(std::string_view text, std::string& out) {
  if (spaces_ && any_) out += ' ';
  any_ = true;
  given_ += text.size();
  feed(0, text, out);
}

void DecoderRun::finish(std::string& out) {
  for (size_t k = 0; k < steps_.size(); ++k) {
    steps_[k]->allow(most());
    steps_[k]->finish([&](std::string_view t) { feed(k + 1, t, out); });
  }
}

}  // namespace ravine
