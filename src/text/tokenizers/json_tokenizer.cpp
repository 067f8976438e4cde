#include "text/tokenizers/json_tokenizer.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/json.h"
#include "base/philox.h"
#include "files/checksum.h"
#include "files/compressed.h"

namespace ravine {

namespace {

constexpr int64_t kJsonLimit = int64_t{128} << 20;

// The memory of one call of encode(); kept for later calls.
struct Scratch {
  std::unique_ptr<ModelScratch> model;
  RegexScratch regex;
  WordList words;
};

class JsonTokenizer;

class JsonDecoding final : public Decoding {
 public:
  JsonDecoding(const JsonTokenizer& tokenizer, bool skip);
  void feed(int32_t id, std::string& out) override;
  void finish(std::string& out) override { run_.finish(out); }

 private:
  const JsonTokenizer& tokenizer_;
  bool skip_;
  DecoderRun run_;
};

class JsonTokenizer final : public Tokenizer {
 public:
  explicit JsonTokenizer(TokenizerParts parts) : p_(std::move(parts)) {
    special_ = p_.special;
    size_ = std::max(p_.model->vocabulary().end(), p_.added.end());
  }
  std::string kind() const override { return fmt::format("tokenizer.json ({})", p_.model->kind()); }
  int64_t size() const override { return size_; }
  uint64_t fingerprint() const override {
    std::string words = fmt::format("{} {} {}", p_.split_special, fmt::join(p_.post_processor.before, ","),
                                    fmt::join(p_.post_processor.after, ","));
    std::vector<int32_t> added;  // sorted; not all ids, because a few bytes of a file can declare many millions
    for (const auto& [id, entry] : p_.added.list()) added.push_back(id);
    std::sort(added.begin(), added.end());
    for (int32_t id : added)
      if (const AddedEntry* e = p_.added.by_id(id); id >= 0 && id < size_)
        words += fmt::format(" {}{}{}{}{}{}{}", id, e->token.lstrip, e->token.rstrip, e->token.single_word, e->token.special,
                             e->normalized, e->token.content);
    return philox_key(p_.checksum, words);
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    std::string clean;
    if (!simdjson::validate_utf8(text.data(), text.size())) text = clean = lossy_utf8(text);
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 4 + 8);
    if (add_special) ids = p_.post_processor.before;
    auto scratch = take();
    p_.added.split(text, false, p_.split_special, [&](const AddedPart& part) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        encode_raw({text.substr(part.begin, part.end - part.begin), part.begin == 0}, *scratch, ids);
    });
    give(std::move(scratch));
    if (add_special) ids.insert(ids.end(), p_.post_processor.after.begin(), p_.post_processor.after.end());
    return ids;
  }

  std::unique_ptr<Decoding> start_decoding(bool skip_special) const override {
    return std::make_unique<JsonDecoding>(*this, skip_special);
  }

  std::string id_to_piece(int32_t id) const override {
    check(id);
    if (const AddedEntry* e = p_.added.by_id(id)) return e->token.content;
    return std::string(p_.model->vocabulary().text(id).value_or(""));
  }

 private:
  friend class JsonDecoding;

  void check(int32_t id) const {
    if (id < 0 || id >= size_)
      throw UserError(fmt::format("token {} is outside the vocabulary", id), p_.where,
                      fmt::format("ids are 0 to {}", size_ - 1), "use the tokenizer that made these ids");
  }

  void encode_raw(TextSpan text, Scratch& s, std::vector<int32_t>& ids) const {
    std::string normal;
    if (p_.normalizer && !p_.normalizer->is_identity(text.text)) {
      normal = p_.normalizer->apply(std::string(text.text), text.at_start, s.regex);
      text.text = normal;
    }
    p_.added.split(text.text, true, p_.split_special, [&](const AddedPart& part) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        encode_words({text.text.substr(part.begin, part.end - part.begin), text.at_start && part.begin == 0}, s, ids);
    });
  }

  void encode_words(TextSpan text, Scratch& s, std::vector<int32_t>& ids) const {
    const PreTokenizer& pre = p_.pre_tokenizer;
    if (pre.pattern()) {
      std::string spaced;
      if (pre.prefix_space() && text.text[0] != ' ') text.text = (spaced = " ").append(text.text);
      scan_words(*pre.pattern(), *table_, text.text, [&](std::string_view word) { p_.model->encode(word, ids, *s.model); });
      return;
    }
    pre.run(text, s.words, s.regex);
    for (const TextSpan& word : s.words.words) p_.model->encode(word.text, ids, *s.model);
    s.words.clear();
  }

  std::unique_ptr<Scratch> take() const {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto s = std::move(free_.back());
        free_.pop_back();
        return s;
      }
    }
    auto s = std::make_unique<Scratch>();
    s->model = p_.model->scratch();
    return s;
  }
  void give(std::unique_ptr<Scratch> s) const {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(s));
  }

  TokenizerParts p_;
  int64_t size_ = 0;
  std::shared_ptr<const CharTable> table_ = char_table();
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> free_;
};

JsonDecoding::JsonDecoding(const JsonTokenizer& tokenizer, bool skip)
    : tokenizer_(tokenizer), skip_(skip), run_(tokenizer.p_.decoder.start()) {}

void JsonDecoding::feed(int32_t id, std::string& out) {
  tokenizer_.check(id);
  const TokenizerParts& p = tokenizer_.p_;
  std::string_view text;
  if (const AddedEntry* e = p.added.by_id(id)) {
    text = e->form;
  } else if (auto t = p.model->vocabulary().text(id)) {
    text = *t;
  } else {
    return;  // a gap in the vocabulary
  }
  if (!skip_ || !p.added.is_special(text)) run_.token(text, out);
}

void read_added(const JsonView& json, TokenizerParts& p) {
  json.each([&](const JsonView& j) {
    j.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedEntry e;
    e.token.content = std::string(j.at("content").string());
    j.at("id").integer(0, kMaxTokenId - 1);
    e.token.single_word = j.flag("single_word", false);
    e.token.lstrip = j.flag("lstrip", false);
    e.token.rstrip = j.flag("rstrip", false);
    e.token.special = j.flag("special", false);
    e.normalized = j.flag("normalized", !e.token.special);
    p.added.add(std::move(e), p.model->vocabulary(), p.normalizer.get());
  });
}

}  // namespace

TokenizerParts read_tokenizer_json(const std::string& bytes, const std::string& where) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (auto error = parser.parse(bytes).get(root)) {
    parse_json(bytes, where);  // throws with line and column if it is not JSON for this parser either
    throw UserError("not valid JSON", where, simdjson::error_message(error), "repair or replace the file");
  }
  JsonView json(root, where);
  json.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
             "model"});
  if (json.text("version", "1.0") != "1.0") json.at("version").wrong("only version 1.0 is known");
  TokenizerParts p;
  p.where = where;
  p.checksum = checksum_of(std::as_bytes(std::span(bytes)));
  if (auto j = json.find("normalizer")) p.normalizer = read_normalizer(*j);
  JsonView model = json.at("model");
  bool bpe = model.find("merges").has_value();
  if (auto j = json.find("pre_tokenizer")) p.pre_tokenizer = read_pre_tokenizer(*j, bpe);
  p.model = read_model(model, bpe && p.pre_tokenizer.ends_in_bytes());
  if (auto j = json.find("post_processor")) {
    p.post_processor = read_post_processor(*j);
    p.has_post_processor = true;
  }
  if (auto j = json.find("decoder")) p.decoder = read_decoder(*j);
  if (auto j = json.find("added_tokens")) read_added(*j, p);
  p.added.finish();
  return p;
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) { return std::make_unique<JsonTokenizer>(std::move(parts)); }

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::string& path) {
  return make_tokenizer(read_tokenizer_json(read_whole(path, kJsonLimit), path));
}

}  // namespace ravine
