// The two tiers of tests. The short tier, run by scripts/test, tests every mechanism once. The full tier
// (RAVINE_FULL=1, set by scripts/test --full) runs all rows of all tables.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace ravine {

inline bool full_tier() {
  const char* value = std::getenv("RAVINE_FULL");
  return value && *value;
}

// Selects rows of a table. Short tier: about one of `of` rows, by a hash of the row's text. The selection is the same
// in every run, and a new row does not change it. Full tier: all rows.
class Drawn {
 public:
  explicit Drawn(uint64_t of) : of_(full_tier() ? 1 : of) {}
  bool operator()(std::string_view row) const { return hash(row) % of_ == 0; }

  // FNV-1a, folded into its upper half: similar texts have similar lower bits.
  static uint64_t hash(std::string_view text) {
    uint64_t h = 0xcbf29ce484222325;
    for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9 >> 32;
  }

 private:
  uint64_t of_;
};

}  // namespace ravine
