#include "text/tokenizers/token_bytes.h"

#include <charconv>
#include <optional>

#include "text/tokenizers/byte_alphabet.h"
#include "text/unicode/unicode.h"

namespace ravine {
namespace {

// Returns the byte of a byte token; vocabularies spell it "<0xF0>".
std::optional<std::string> byte_named_by(std::string_view piece) {
  int value = 0;
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return {};
  const char* const end = piece.data() + 5;
  if (std::from_chars(piece.data() + 3, end, value, 16).ptr != end) return {};
  return std::string(1, static_cast<char>(value));
}

// Returns the bytes of a piece of a byte-level vocabulary.
std::optional<std::string> bytes_spelled_by(std::string_view piece) {
  static const ByteAlphabet alphabet;
  std::string bytes;
  if (!alphabet.unmap(piece, bytes)) return {};
  return bytes;
}

}  // namespace

TokenBytes::TokenBytes(const Tokenizer& tokenizer) : tokenizer_(&tokenizer), before_(tokenizer.encode("a", false)) {}

std::string TokenBytes::behind(std::span<const int32_t> before, int32_t id) const {
  StreamDecoder decoder(*tokenizer_, false);
  for (const int32_t known : before) decoder.next(known);
  decoder.settle();
  std::string text = decoder.next(id);
  return text + decoder.finish();
}

std::string TokenBytes::of(int32_t id, bool at_start) const {
  if (id < 0 || id >= tokenizer_->size()) return "";
  const std::string text = at_start ? behind({}, id) : behind(before_, id);
  if (text.find(kReplacement) == std::string::npos) return text;
  // This text is no complete character: the spelling of the piece gives its bytes.
  const std::string piece = tokenizer_->id_to_piece(id);
  for (const std::optional<std::string>& bytes : {byte_named_by(piece), bytes_spelled_by(piece)})
    if (bytes && lossy_utf8(*bytes) == text) return *bytes;
  return text;
}

bool TokenBytes::skipped(int32_t id) const {
  if (id < 0 || id >= tokenizer_->size()) return true;
  StreamDecoder decoder(*tokenizer_, true);
  for (const int32_t known : before_) decoder.next(known);
  decoder.settle();
  const std::string text = decoder.next(id);
  return text.empty() && decoder.finish().empty() && !behind(before_, id).empty();
}

bool TokenBytes::no_text(std::span<const int32_t> ids) const {
  StreamDecoder decoder(*tokenizer_, true);
  for (const int32_t id : ids)
    if (id >= 0 && id < tokenizer_->size() && !decoder.next(id).empty()) return false;
  return decoder.settle().empty();
}

namespace {

int64_t characters_of(std::string_view bytes) {
  std::string text;
  int64_t count = 0;
  while (const size_t n = take_utf8(bytes, true, text)) bytes.remove_prefix(n), ++count;
  return count;
}

}  // namespace

TokenOffsets::TokenOffsets(const Tokenizer& tokenizer, std::span<const int32_t> prompt)
    : size_(tokenizer.size()), decoder_(tokenizer, true) {
  for (const int32_t id : prompt)
    if (id >= 0 && id < size_) decoder_.next(id);
  decoder_.settle();
}

void TokenOffsets::add(int32_t id, std::string_view bytes, std::vector<int64_t>& token_offsets) {
  const std::string text = id >= 0 && id < size_ ? decoder_.next(id) : "";
  const int64_t own = characters_of(bytes);
  if (!text.empty() && held_ > 0 && each_is_one(characters_of(text) - own, token_offsets)) {
    characters_ = held_from_ + held_;
    pending_.clear();
  }
  token_offsets.push_back(next(bytes));
  if (!text.empty())
    held_ = 0;
  else if (!bytes.empty())
    hold(bytes, token_offsets.back());
}

void TokenOffsets::hold(std::string_view bytes, int64_t offset) {
  if (held_ == 0) held_from_ = offset, held_bytes_ = true;
  held_bytes_ = held_bytes_ && bytes.size() == 1;
  ++held_;
}

void TokenOffsets::end(std::vector<int64_t>& token_offsets) { each_is_one(characters_of(decoder_.finish()), token_offsets); }

// Sets the places of the tokens that were held back right, if each has come to be one of so many characters.
bool TokenOffsets::each_is_one(int64_t characters, std::vector<int64_t>& token_offsets) {
  if (characters != held_ || !held_bytes_) return false;
  int64_t offset = held_from_ + held_;
  for (size_t i = token_offsets.size(); i > 0 && offset > held_from_; --i) token_offsets[i - 1] = --offset;
  return true;
}

int64_t TokenOffsets::next(std::string_view bytes) {
  const size_t known = pending_.size();
  pending_ += bytes;
  std::string text;
  size_t at = 0;
  int64_t offset = -1;
  while (const size_t n = take_utf8(std::string_view(pending_).substr(at), false, text)) {
    if (offset < 0 && at + n > known) offset = characters_;
    at += n, ++characters_;
  }
  pending_.erase(0, at);
  return offset < 0 ? characters_ : offset;
}

}  // namespace ravine
