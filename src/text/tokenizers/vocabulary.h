// The strings of a vocabulary and their ids, in both directions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

inline constexpr int64_t kMaxTokenId = 1 << 24;

// Returns a random number, the same in all calls of this process, for the hash functions of tables. It prevents a file
// with strings or pairs that all collide in a table and make it slow. No result depends on it.
uint64_t hash_secret();

inline uint64_t hash_mix(uint64_t a, uint64_t b) {
  const __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Returns a fast hash of n bytes. secret: hash_secret().
inline uint64_t hash_bytes(const char* p, size_t n, uint64_t secret) {
  uint64_t h = secret ^ (n * 0x9E3779B97F4A7C15ull);
  auto mix = [&](uint64_t v) { h = hash_mix(h ^ v, 0xD6E8FEB86659FD93ull ^ secret); };
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t v;
    __builtin_memcpy(&v, p, 8);
    mix(v);
  }
  if (n > 0) {
    uint64_t v = 0;
    __builtin_memcpy(&v, p, n);
    mix(v);
  }
  return h;
}

// The strings of a vocabulary and their ids.
class Vocabulary {
 public:
  void add(std::string_view text, int32_t id);  // a text that is added again gets the new id
  void freeze();                                // called once, after the last add() and before the first look-up
  int32_t find(std::string_view text) const {   // returns the id of a text; -1 if there is none
    size_t mask = slots_.size() - 1;
    for (size_t i = hash_bytes(text.data(), text.size(), secret_) & mask;; i = (i + 1) & mask) {
      if (slots_[i] < 0) return -1;
      const Entry& e = entries_[static_cast<size_t>(slots_[i])];
      if (view(e) == text) return e.id;
    }
  }
  // Returns the text of an id; nothing if the id is a gap in the vocabulary.
  std::optional<std::string_view> text(int32_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= by_id_.size() || by_id_[static_cast<size_t>(id)] < 0) return std::nullopt;
    return view(entries_[static_cast<size_t>(by_id_[static_cast<size_t>(id)])]);
  }
  int64_t count() const { return static_cast<int64_t>(entries_.size()); }  // number of texts
  int64_t end() const { return static_cast<int64_t>(by_id_.size()); }      // the highest id plus one
  template <class F>
  void each(F&& f) const {
    for (const auto& e : entries_) f(view(e), e.id);
  }

 private:
  struct Entry {
    size_t at;
    uint32_t length;
    int32_t id;
  };
  std::string_view view(const Entry& e) const { return {bytes_.data() + e.at, e.length}; }
  void grow();
  uint64_t secret_ = hash_secret();
  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_ = std::vector<int32_t>(16, -1);  // index of an entry, or -1
  std::vector<int32_t> by_id_;                                 // index of an entry, or -1
};

}  // namespace ravine
