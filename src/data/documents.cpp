#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>

#include "base/byte_order_mark.h"
#include "base/cut_text.h"
#include "base/error.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/instruct/conversation.h"
#include "data/record_reader.h"
#include "data/records/open_records.h"
#include "data/source.h"
#include "data/text_encoding.h"
#include "files/compressed.h"
#include "text/last_field.h"

namespace ravine {

namespace {

class TextReader final : public DocumentReader {
 public:
  explicit TextReader(const std::string& path) : path_(path), source_(open_bytes(path)) {}

  bool next(std::string& text) override {
    fill();
    if (first_) refuse_other_bytes(buffer_, path_);
    if (first_ && buffer_.starts_with(kByteOrderMark)) {
      drop_byte_order_mark(buffer_);
      offset_ += static_cast<int64_t>(kByteOrderMark.size());
    }
    first_ = false;
    if (buffer_.empty()) return false;
    document_line_ = line_;
    text.assign(buffer_, 0, cut());
    buffer_.erase(0, text.size());
    if (size_t bad = find_invalid_utf8(text); bad != std::string::npos) {
      auto line = line_ + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(bad), '\n');
      refuse_encoding(text, path_, fmt::format("{}:{}, byte {} of the text", path_, line, offset_ + static_cast<int64_t>(bad)));
    }
    line_ += std::count(text.begin(), text.end(), '\n');
    offset_ += static_cast<int64_t>(text.size());
    return true;
  }

  std::string where() const override { return fmt::format("{}:{}", path_, document_line_); }

 private:
  static constexpr size_t kWanted = 64 << 10, kMost = 1 << 20;

  void fill() {
    while (!at_end_ && buffer_.size() < kMost + 4) {
      size_t had = buffer_.size();
      buffer_.resize(2 * kMost);
      size_t n = source_->read(std::as_writable_bytes(std::span(buffer_).subspan(had)));
      at_end_ = n < buffer_.size() - had;
      buffer_.resize(had + n);
    }
  }

  size_t cut() const {
    for (size_t at = kWanted; at < kMost && (at = buffer_.find('\n', at)) < kMost;) {
      size_t after = at + 1;
      while (after < buffer_.size() && (buffer_[after] == '\n' || buffer_[after] == '\r')) ++after;
      if (std::count(buffer_.begin() + static_cast<ptrdiff_t>(at), buffer_.begin() + static_cast<ptrdiff_t>(after), '\n') > 1)
        return after;
      at = after;
    }
    if (buffer_.size() <= kMost) return buffer_.size();
    if (size_t at = buffer_.rfind('\n', kMost - 1); at != std::string::npos) return at + 1;
    size_t at = kMost;
    while (at > kMost - 4 && (static_cast<unsigned char>(buffer_[at]) & 0xc0) == 0x80) --at;
    return at;
  }

  std::string path_, buffer_;
  std::unique_ptr<ByteSource> source_;
  bool at_end_ = false, first_ = true;
  int64_t offset_ = 0, line_ = 1, document_line_ = 1;  // position of the text that was not returned yet
};

class RecordDocuments final : public DocumentReader {
 public:
  RecordDocuments(const std::string& path, const std::string& text_key, const std::string& option_name)
      : records_(open_records(path, {.fields = {text_key}, .option_name = option_name})), parser_(text_key, option_name) {}

  bool next(std::string& text) override {
    while (records_->next(record_)) {
      text = parser_.parse(record_.body, where());
      if (!text.empty()) return true;
      ++empty_;
    }
    return false;
  }

  std::string where() const override { return record_.where(); }
  int64_t empty() const override { return empty_; }

 private:
  int64_t empty_ = 0;
  std::unique_ptr<RecordReader> records_;
  Record record_;
  JsonlParser parser_;
};

}  // namespace

std::unique_ptr<DocumentReader> open_documents(const std::string& path, const std::string& text_key,
                                               const std::string& option_name) {
  switch (source_kind(path)) {
    case SourceKind::text:
      return std::make_unique<TextReader>(path);
    case SourceKind::fixed:
    case SourceKind::indexed:
    case SourceKind::instructions:
      break;
    default:
      return std::make_unique<RecordDocuments>(path, text_key, option_name);
  }
  throw UserError("not a file of texts", path, "it holds token ids already",
                  "give .txt, .jsonl, .json, .csv or .parquet files here");
}

struct JsonlParser::Impl {
  std::string key, option_name;
  simdjson::dom::parser parser;
};

JsonlParser::JsonlParser(std::string text_key, std::string option_name) : impl_(std::make_unique<Impl>()) {
  impl_->key = std::move(text_key);
  impl_->option_name = std::move(option_name);
}
JsonlParser::~JsonlParser() = default;

namespace {

// Returns the first few keys: a record may have thousands.
std::string named(const std::vector<std::string>& keys) {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < std::min(kMost, keys.size()); ++i) out += (i ? ", " : "") + std::string(cut_text(keys[i], 80));
  return keys.empty() ? "none" : keys.size() > kMost ? fmt::format("{} and {} more", out, keys.size() - kMost) : out;
}

}  // namespace

std::string_view JsonlParser::parse(std::string_view line, const std::string& where) {
  simdjson::dom::element root;
  if (auto error = impl_->parser.parse(line.data(), line.size()).get(root)) {
    if (size_t bad = find_invalid_utf8(line); bad != std::string_view::npos)
      refuse_encoding(line, where.substr(0, where.rfind(':')), fmt::format("{}, byte {} of the line", where, bad));
    throw UserError("not valid JSON", where, simdjson::error_message(error), "each line must hold one JSON object");
  }
  simdjson::dom::object object;
  if (root.get(object)) throw UserError("not a JSON object", where, "each line must hold one JSON object", "correct the file");
  simdjson::dom::element value;
  if (!last_field(object, impl_->key, value)) {
    std::vector<std::string> keys;
    for (auto field : object) keys.emplace_back(field.key);
    const Json record = parse_json(line, where);
    refuse_chat_slip(record, where);
    std::string near = nearest(impl_->key, keys);
    if (!near.empty() && !record[near].is_string()) near.clear();
    const auto form = near.empty() ? detect_chat_format(record) : std::nullopt;
    std::vector<std::string> texts;  // keys whose value is a string
    for (const auto& [key, held] : record.items())
      if (held.is_string()) texts.push_back(key);
    const std::string likely_key = !near.empty() ? near : texts.size() == 1 ? texts[0] : "";
    if (texts.empty())
      throw UserError(fmt::format("no key '{}'", impl_->key), where,
                      fmt::format("each record must hold a text, it has {}", named(keys)),
                      "put the text of each record under \"text\"");
    throw UserError(
        fmt::format("no key '{}'", impl_->key), where,
        form           ? fmt::format("the record is a conversation ({}): it has {}", name(*form), named(keys))
        : near.empty() ? fmt::format("each record must hold the text under this key; it has {}", named(keys))
                       : fmt::format("it has {}; did you mean '{}'", named(keys), cut_text(near, 80)),
        name_field(impl_->option_name, likely_key.empty() ? "KEY" : shell_word(likely_key)) + ", the key that holds the text");
  }
  std::string_view text;
  if (value.is_null()) return {};
  if (value.get(text))
    throw UserError(fmt::format("'{}' is not a string", impl_->key), where, "the text must be a JSON string",
                    "correct the file, or " + name_field(impl_->option_name, "KEY"));
  return text;
}

}  // namespace ravine
