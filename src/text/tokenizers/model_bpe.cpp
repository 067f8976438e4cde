// Byte-pair encoding: the pair of neighbours with the best rank is joined, the leftmost first, until no pair is left
// (the order of tokenizers/src/models/bpe/word.rs, merge_all).
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/word_cache.h"
#include "text/unicode/unicode.h"

namespace ravine {

namespace {

constexpr uint64_t kNone = UINT64_MAX;  // a pair that does not join; else rank << 32 | id of the joined symbol
constexpr size_t kShort = 64;           // largest number of symbols with a linear search; above it a heap is used

// Maps pairs of ids to their joined symbol, in one flat table. Most pairs that are looked up are not in it, and the
// table is larger than a cache. A bit field of a few hundred kilobytes answers for most of these pairs.
class MergeTable {
 public:
  void reserve(size_t count) {
    size_t n = 1024;
    while (n < count * 2) n *= 2;
    slots_.assign(n, {0, kNone});
    may_hold_.assign(n / 16, 0);  // at least four bits for each filled slot
  }
  void put(int32_t a, int32_t b, uint64_t becomes) {
    uint64_t key = key_of(a, b);
    size_t i = home_slot(key);
    while (slots_[i].key != 0 && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {key, becomes};
    size_t bit = bit_of(key);
    may_hold_[bit / 64] |= uint64_t{1} << bit % 64;
  }
  uint64_t find(int32_t a, int32_t b) const {
    uint64_t key = key_of(a, b);
    size_t bit = bit_of(key);
    if (!(may_hold_[bit / 64] >> bit % 64 & 1)) return kNone;
    for (size_t i = home_slot(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].becomes;
      if (slots_[i].key == 0) return kNone;
    }
  }

 private:
  struct Slot {
    uint64_t key;
    uint64_t becomes;
  };
  static uint64_t key_of(int32_t a, int32_t b) {
    return (uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b)) + 1;
  }
  size_t home_slot(uint64_t key) const {
    return hash_mix(key ^ secret_, 0x9E3779B97F4A7C15ull ^ secret_) & (slots_.size() - 1);
  }
  size_t bit_of(uint64_t key) const { return (key * 0xD6E8FEB86659FD93ull >> 20) & (may_hold_.size() * 64 - 1); }
  uint64_t secret_ = hash_secret();
  std::vector<Slot> slots_;
  std::vector<uint64_t> may_hold_;
};

struct BpeScratch final : ModelScratch {
  WordCache cache;
  std::vector<int32_t> symbols;
  std::vector<uint64_t> pairs, heap;
  std::vector<uint32_t> next, before;
};

class Bpe final : public TokenModel {
 public:
  Bpe(Vocabulary v, const std::vector<std::pair<std::string_view, std::string_view>>& merges, const BpeOptions& o,
      const std::string& where)
      : o_(o), where_(where) {
    vocabulary_ = std::move(v);
    read_merges(merges);
    unk_ = o.unk_token.empty() ? -1 : vocabulary_.find(o.unk_token);
    for (int b = 0; b < 256; ++b) fallback_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
    if (o.bytes) read_bytes();
  }
  std::string kind() const override { return o_.bytes ? "byte-level BPE" : "BPE"; }
  std::unique_ptr<ModelScratch> scratch() const override { return std::make_unique<BpeScratch>(); }

  void encode(std::string_view word, std::vector<int32_t>& ids, ModelScratch& scratch) const override {
    auto& s = static_cast<BpeScratch&>(scratch);
    if (!WordCache::fits(word)) return encode_new(word, ids, s);
    WordCache::Key key = WordCache::key_of(word);
    if (s.cache.find(key, word.size(), ids)) return;
    size_t had = ids.size();
    encode_new(word, ids, s);
    s.cache.put(key, word.size(), ids.data() + had, ids.size() - had);
  }

 private:
  void read_merges(const std::vector<std::pair<std::string_view, std::string_view>>& merges) {
    merges_.reserve(merges.size());
    std::string joined;
    for (size_t k = 0; k < merges.size(); ++k) {
      auto [a, b] = merges[k];
      if (b.size() < o_.prefix.size()) missing(k, b);
      joined.assign(a);
      joined += b.substr(o_.prefix.size());
      int32_t x = vocabulary_.find(a), y = vocabulary_.find(b), id = vocabulary_.find(joined);
      if (x < 0) missing(k, a);
      if (y < 0) missing(k, b);
      if (id < 0) missing(k, joined);
      merges_.put(x, y, uint64_t{k} << 32 | static_cast<uint32_t>(id));
    }
  }
  [[noreturn]] void missing(size_t merge, std::string_view text) const {
    throw UserError("wrong tokenizer file", where_,
                    fmt::format("merge {} needs '{}', which is not in the vocabulary", merge, text),
                    "correct or replace the file");
  }

  // Builds the tables for words of bytes: the symbol of each byte, and the joined symbol of each pair of bytes.
  void read_bytes() {
    ByteAlphabet alphabet;
    simple_ = o_.prefix.empty() && o_.suffix.empty();
    for (int b = 0; b < 256; ++b) {
      byte_text_[b].clear();
      append_utf8(byte_text_[b], alphabet.of_byte[b]);
      byte_ids_[b] = vocabulary_.find(byte_text_[b]);
      if (byte_ids_[b] < 0 && (unk_ >= 0 || !o_.unk_token.empty() || o_.byte_fallback)) simple_ = false;
    }
    if (simple_) {
      first_pairs_.assign(size_t{256} * 256, kNone);
      for (size_t a = 0; a < 256; ++a)
        for (size_t b = 0; b < 256; ++b)
          if (byte_ids_[a] >= 0 && byte_ids_[b] >= 0) first_pairs_[a << 8 | b] = merges_.find(byte_ids_[a], byte_ids_[b]);
    }
    if (o_.ignore_merges) {
      std::string bytes;
      vocabulary_.each([&](std::string_view text, int32_t id) {
        if (alphabet.unmap(text, bytes)) whole_.add(bytes, id);
      });
      whole_.freeze();
    }
  }

  void encode_new(std::string_view word, std::vector<int32_t>& ids, BpeScratch& s) const {
    if (word.empty()) return;
    if (o_.ignore_merges) {
      int32_t id = (o_.bytes ? whole_ : vocabulary_).find(word);
      if (id >= 0) return ids.push_back(id);
    }
    if (simple_ && word.size() <= kShort) return join_bytes(word, ids);
    s.symbols.clear();
    if (simple_) {
      for (char c : word)
        if (int32_t id = byte_ids_[static_cast<unsigned char>(c)]; id >= 0) s.symbols.push_back(id);
    } else {
      spell(word, s.symbols);
    }
    if (s.symbols.size() <= kShort)
      join_short(s.symbols, ids);
    else
      join_long(s, ids);
  }

  // Spells a word as symbols, before any are joined.
  void spell(std::string_view word, std::vector<int32_t>& symbols) const {
    bool pending = false;  // an unknown symbol that is not in `symbols` yet
    std::string text;
    for (size_t at = 0; at < word.size();) {
      bool first = at == 0;
      std::string_view c;
      if (o_.bytes) {
        c = byte_text_[static_cast<unsigned char>(word[at++])];
      } else {
        size_t begin = at;
        next_char(word, at);
        c = word.substr(begin, at - begin);
      }
      bool last = at == word.size();
      text.clear();
      if (!first) text += o_.prefix;
      text += c;
      if (last) text += o_.suffix;
      int32_t id = vocabulary_.find(text);
      if (id >= 0) {
        if (pending) symbols.push_back(unk_);
        pending = false;
        symbols.push_back(id);
        continue;
      }
      if (o_.byte_fallback &&
          std::all_of(text.begin(), text.end(), [&](char b) { return fallback_[static_cast<unsigned char>(b)] >= 0; })) {
        // Before a pending unknown symbol, as upstream.
        for (char b : text) symbols.push_back(fallback_[static_cast<unsigned char>(b)]);
        continue;
      }
      if (o_.unk_token.empty()) continue;  // the character is dropped
      if (unk_ < 0)
        throw UserError("text that the tokenizer cannot encode", where_,
                        fmt::format("the unknown token '{}' is not in the vocabulary", o_.unk_token),
                        "use a tokenizer with an unknown token");
      if (pending && !o_.fuse_unk) symbols.push_back(unk_);
      pending = true;
    }
    if (pending) symbols.push_back(unk_);
  }

  // Joins n symbols in place, given their pairs. Returns the number of remaining symbols.
  size_t join(int32_t* id, uint64_t* pair, size_t n) const {
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i)
        if (pair[i] < pair[best]) best = i;
      if (pair[best] == kNone) break;
      id[best] = static_cast<int32_t>(static_cast<uint32_t>(pair[best]));
      --n;
      for (size_t i = best + 1; i < n; ++i) id[i] = id[i + 1];
      for (size_t i = best + 1; i + 1 < n; ++i) pair[i] = pair[i + 1];
      if (best + 1 < n) pair[best] = merges_.find(id[best], id[best + 1]);
      if (best > 0) pair[best - 1] = merges_.find(id[best - 1], id[best]);
    }
    return n;
  }

  void join_bytes(std::string_view word, std::vector<int32_t>& ids) const {
    int32_t id[kShort];
    uint64_t pair[kShort];
    size_t n = 0;
    unsigned char before = 0;
    for (char ch : word) {
      auto c = static_cast<unsigned char>(ch);
      if (byte_ids_[c] < 0) continue;
      if (n > 0) pair[n - 1] = first_pairs_[size_t{before} << 8 | c];
      id[n++] = byte_ids_[c];
      before = c;
    }
    n = join(id, pair, n);
    ids.insert(ids.end(), id, id + n);
  }

  void join_short(const std::vector<int32_t>& symbols, std::vector<int32_t>& ids) const {
    int32_t id[kShort];
    uint64_t pair[kShort];
    size_t n = symbols.size();
    std::copy(symbols.begin(), symbols.end(), id);
    for (size_t i = 0; i + 1 < n; ++i) pair[i] = merges_.find(id[i], id[i + 1]);
    n = join(id, pair, n);
    ids.insert(ids.end(), id, id + n);
  }

  // The same with a heap of rank << 32 | position: O(n log n) for words of any length.
  void join_long(BpeScratch& s, std::vector<int32_t>& ids) const {
    size_t n = s.symbols.size();
    require(n < UINT32_MAX, "bpe: a word of {} symbols", n);
    auto& id = s.symbols;
    s.pairs.assign(n, kNone);
    s.next.resize(n);
    s.before.resize(n);
    s.heap.clear();
    constexpr uint32_t kEnd = UINT32_MAX;
    for (size_t i = 0; i < n; ++i) {
      s.next[i] = i + 1 < n ? static_cast<uint32_t>(i + 1) : kEnd;
      s.before[i] = i > 0 ? static_cast<uint32_t>(i - 1) : kEnd;
      if (i + 1 < n) s.pairs[i] = merges_.find(id[i], id[i + 1]);
      if (s.pairs[i] != kNone) s.heap.push_back((s.pairs[i] & ~uint64_t{UINT32_MAX}) | i);
    }
    std::make_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    auto renew = [&](uint32_t at) {
      uint32_t right = s.next[at];
      s.pairs[at] = right == kEnd ? kNone : merges_.find(id[at], id[right]);
      if (s.pairs[at] == kNone) return;
      s.heap.push_back((s.pairs[at] & ~uint64_t{UINT32_MAX}) | at);
      std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    };
    while (!s.heap.empty()) {
      std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
      uint64_t top = s.heap.back();
      s.heap.pop_back();
      auto at = static_cast<uint32_t>(top);
      if (s.pairs[at] == kNone || s.pairs[at] >> 32 != top >> 32) continue;  // removed in the meantime
      uint32_t right = s.next[at];
      id[at] = static_cast<int32_t>(static_cast<uint32_t>(s.pairs[at]));
      s.next[at] = s.next[right];
      s.pairs[right] = kNone;
      if (s.next[at] != kEnd) s.before[s.next[at]] = at;
      if (s.before[at] != kEnd) renew(s.before[at]);
      renew(at);
    }
    for (uint32_t i = 0; i != kEnd; i = s.next[i]) ids.push_back(id[i]);
  }

  BpeOptions o_;
  std::string where_;
  MergeTable merges_;
  int32_t unk_ = -1;
  int32_t fallback_[256];
  bool simple_ = false;  // words of bytes; each byte has a symbol or is dropped
  int32_t byte_ids_[256];
  std::string byte_text_[256];
  std::vector<uint64_t> first_pairs_;
  Vocabulary whole_;  // by bytes
};

}  // namespace

std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary,
                                     const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                                     const BpeOptions& options, const std::string& where) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, options, where);
}

}  // namespace ravine
