#include "text/tokenizers/sentencepiece_words.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizers/vocabulary.h"
#include "text/unicode/utf8.h"

namespace ravine {

namespace {

constexpr char32_t kSpaceCharacter = 0x2581, kNoCharacter = 0xFFFFFFFF;

// Returns the first character of `s`, with a space for the space mark; kNoCharacter with length 1 if there is none.
char32_t first_character(std::string_view s, int* length) {
  const auto c = static_cast<unsigned char>(s[0]);
  *length = 1;
  if (c < 0x80) return c;
  const int n = utf8_head(s);
  if (n <= 0) return kNoCharacter;
  *length = n;
  const char32_t value = utf8_value(s, n);
  return value == kSpaceCharacter ? U' ' : value;
}

uint64_t neighbours_key(char32_t a, char32_t b) { return uint64_t{a} << 32 | b; }
size_t pair_slot(uint64_t key, size_t slots) { return hash_mix(key ^ hash_secret(), 0x9E3779B97F4A7C15ull) & (slots - 1); }

}  // namespace

SentencePieceWords::SentencePieceWords(const std::vector<std::string_view>& pieces, bool joins_unknown,
                                       std::unique_ptr<sentencepiece::SentencePieceProcessor> inner)
    : joins_unknown_(joins_unknown), inner_(std::move(inner)) {
  std::vector<uint64_t> keys;
  for (std::string_view piece : pieces) {
    char32_t before = 0;
    size_t characters = 0;
    for (int n = 0; !piece.empty(); piece.remove_prefix(static_cast<size_t>(n))) {
      const char32_t c = first_character(piece, &n);
      require(c != kNoCharacter, "sentencepiece words: a piece is UTF-8");
      if (characters++ > 0) keys.push_back(neighbours_key(before, c));
      before = c;
    }
    if (characters == 1) singles_.push_back(before);
  }
  std::sort(singles_.begin(), singles_.end());
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  size_t slots = 1024;
  while (slots < 4 * keys.size()) slots *= 2;
  pairs_.assign(slots, 0);
  for (uint64_t key : keys) {
    size_t i = pair_slot(key, slots);
    while (pairs_[i] != 0) i = (i + 1) & (slots - 1);
    pairs_[i] = key;
    const auto a = key >> 32, b = key & 0xFFFFFFFF;
    if (a < 128 && b < 128) ascii_[a][b] = true;
  }
}

bool SentencePieceWords::joined(char32_t a, char32_t b) const {
  const uint64_t key = neighbours_key(a, b);
  for (size_t i = pair_slot(key, pairs_.size()); pairs_[i] != 0; i = (i + 1) & (pairs_.size() - 1))
    if (pairs_[i] == key) return true;
  return joins_unknown_ && !std::binary_search(singles_.begin(), singles_.end(), static_cast<uint32_t>(b));
}

size_t SentencePieceWords::next_cut(std::string_view text, size_t from) const {
  if (from >= text.size()) return text.size();
  int n = 0;
  char32_t before = first_character(text.substr(from), &n);
  for (size_t at = from + static_cast<size_t>(n); at < text.size(); at += static_cast<size_t>(n)) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80 && before < 0x80 && !joins_unknown_) {  // the usual case
      n = 1;
      if (!ascii_[before][byte]) return at;
      before = byte;
      continue;
    }
    const char32_t c = first_character(text.substr(at), &n);
    if (c != kNoCharacter && before != kNoCharacter && !joined(before, c)) return at;
    before = c;
  }
  return text.size();
}

void SentencePieceWords::encode_rest(std::string_view text, size_t begin, std::vector<int32_t>& ids) const {
  std::unique_ptr<WordCache> cache;
  {
    std::lock_guard lock(mutex_);
    if (!caches_.empty()) {
      cache = std::move(caches_.back());
      caches_.pop_back();
    }
  }
  if (!cache) cache = std::make_unique<WordCache>();
  std::vector<int> part_ids;
  while (begin < text.size()) {
    const size_t end = next_cut(text, begin);
    const std::string_view part = text.substr(begin, end - begin);
    begin = end;
    const bool fits = WordCache::fits(part);
    WordCache::Key key;
    if (fits) {
      key = WordCache::key_of(part);
      if (cache->find(key, part.size(), ids)) continue;
    }
    const auto status = inner_->Encode(absl::string_view(part.data(), part.size()), &part_ids);
    if (!status.ok())
      throw UserError("the tokenizer cannot encode this text", "tokenizer.model", status.ToString(),
                      "the model's rules contradict each other: replace the file");
    ids.insert(ids.end(), part_ids.begin(), part_ids.end());
    if (fits) cache->put(key, part.size(), part_ids.data(), part_ids.size());
  }
  std::lock_guard lock(mutex_);
  caches_.push_back(std::move(cache));
}

}  // namespace ravine
