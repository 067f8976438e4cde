// Caches the ids of short words. Its size is limited: a new word replaces an old one. It grows to this size as words
// are added.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace ravine {

class WordCache {
 public:
  static constexpr size_t kLongest = 32, kMostIds = 7;

  struct Key {
    uint64_t word[4];
    uint64_t hash;
  };
  static bool fits(std::string_view word) { return word.size() - 1 < kLongest; }  // and not empty

  // Returns the key of a word for find() and put(). fits(word) must be true.
  static Key key_of(std::string_view w) {
    Key k{{0, 0, 0, 0}, 0};
    size_t n = w.size();
    const char* p = w.data();
    if (n >= 8) {
      size_t full = n / 8, rest = n % 8;
      for (size_t i = 0; i < full; ++i) k.word[i] = load8(p + 8 * i);
      if (rest) k.word[full] = load8(p + n - 8) >> (8 * (8 - rest));
    } else if (n >= 4) {
      k.word[0] = load4(p) | load4(p + n - 4) << (8 * (n - 4));
    } else {
      auto b = [&](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])} << (8 * i); };
      k.word[0] = b(0) | b(n / 2) | b(n - 1);
    }
    uint64_t h = (k.word[0] ^ n) * 0x9E3779B97F4A7C15ull;
    if (n > 8) h = ((h ^ h >> 32) + k.word[1]) * 0xD6E8FEB86659FD93ull;
    if (n > 16) h = (((h ^ h >> 32) + k.word[2]) * 0x9E3779B97F4A7C15ull ^ k.word[3]) * 0xD6E8FEB86659FD93ull;
    k.hash = h ^ h >> 29;
    return k;
  }

  // Looks up a word. If it is in the cache, its ids are appended and true is returned. length: its size in bytes.
  bool find(const Key& key, size_t length, std::vector<int32_t>& ids) {
    size_t at = home_slot(key);
    for (size_t i : {at, at ^ 1}) {
      const Line& l = lines_[i];
      if (l.length == length && std::memcmp(l.word, key.word, sizeof l.word) == 0) {
        for (size_t k = 0; k < l.count; ++k) ids.push_back(l.ids[k]);
        return true;
      }
    }
    return false;
  }

  void put(const Key& key, size_t length, const int32_t* ids, size_t count) {
    if (count > kMostIds) return;
    // A short text needs few entries; lost words are soon cached again.
    if (++puts_ > lines_.size() && lines_.size() < kLines) {
      lines_.assign(8 * lines_.size(), {});
      puts_ = 0;
    }
    size_t at = home_slot(key);
    lines_[at ^ 1] = lines_[at];
    Line& l = lines_[at];
    std::memcpy(l.word, key.word, sizeof l.word);
    l.length = static_cast<uint8_t>(length);
    l.count = static_cast<uint8_t>(count);
    for (size_t k = 0; k < count; ++k) l.ids[k] = ids[k];
  }

 private:
  struct alignas(64) Line {
    uint64_t word[4];
    int32_t ids[kMostIds];
    uint8_t length = 0, count = 0;  // length 0: free
  };
  static_assert(sizeof(Line) == 64);
  static uint64_t load8(const char* p) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    return v;
  }
  static uint64_t load4(const char* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
  }
  size_t home_slot(const Key& key) const { return key.hash & (lines_.size() - 1); }
  static constexpr size_t kLines = size_t{1} << 16;  // 4 MiB
  std::vector<Line> lines_ = std::vector<Line>(kLines / 512);
  size_t puts_ = 0;
};

}  // namespace ravine
