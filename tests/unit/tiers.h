// Two tiers. The short one, which scripts/test runs, proves every mechanism once. The full one (RAVINE_FULL=1, set by
// scripts/test --full) has all rows of all tables.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace ravine {

inline bool full_tier() {
  const char* said = std::getenv("RAVINE_FULL");
  return said && *said;
}

// True for the rows of a table that are tested. Short tier: about one row of `of`, chosen by a hash of its text. The
// same rows are chosen every day, and a new row does not change the choice of others. Full tier: all rows.
class Drawn {
 public:
  explicit Drawn(uint64_t of) : of_(full_tier() ? 1 : of) {}
  bool operator()(std::string_view row) const { return hash(row) % of_ == 0; }

  // FNV-1a, folded to its upper half: the lower bits of neighbours are alike.
  static uint64_t hash(std::string_view text) {
    uint64_t h = 0xcbf29ce484222325;
    for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9 >> 32;
  }

 private:
  uint64_t of_;
};

}  // namespace ravine
