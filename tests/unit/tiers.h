// Two tiers. The short one, which scripts/test runs, proves every mechanism once. The full one (RAVINE_FULL=1, set by scripts/test --full) has all
// rows of all tables.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace ravine {

inline bool full_tier() {
  const char* said = std::getenv("RAVINE_FULL");
  return said && *said;
}

// For the rows of a table: in the short tier one row of `of` is due, others on another day; in the full tier all are. `shift`: tables of one
// text for several types begin elsewhere.
class Drawn {
 public:
  explicit Drawn(int64_t of, int64_t shift = 0) : of_(full_tier() ? 1 : of), row_(day() + shift) {}
  bool operator()() { return row_++ % of_ == 0; }

 private:
  // RAVINE_DRAW, a date, draws the rows of that day again.
  static int64_t day() {
    std::tm date{};
    const char* said = std::getenv("RAVINE_DRAW");
    const bool given = said && strptime(said, "%Y-%m-%d", &date);
    return (given ? timegm(&date) : std::time(nullptr)) / 86400;
  }
  int64_t of_, row_;
};

}  // namespace ravine
