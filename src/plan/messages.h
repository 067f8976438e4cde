// How fast messages travel between ranks: measured by `mpirun -n N ravine bench messages`, kept beside the peaks of the
// machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/group.h"

namespace ravine {

struct MessageRates {
  struct Point {
    double bytes, seconds;  // of one call; of a piece, as Group's arguments count it
  };
  int ranks = 2;          // that talked at once
  bool measured = false;  // false: a guess from the rate of memory
  std::vector<Point> all_to_all, all_gather, send;

  // Seconds of a call in a group of `ranks`: between measured sizes along a line, beyond them in proportion; in proportion to
  // what a rank hands over.
  double exchange(double bytes, int ranks) const { return of(all_to_all, bytes, ranks); }
  double gather(double bytes, int ranks) const { return of(all_gather, bytes, ranks); }
  double message(double bytes) const { return line(send, bytes); }

  Json json() const;
  static std::optional<MessageRates> from_json(const Json& json);

 private:
  double of(const std::vector<Point>& points, double bytes, int ranks) const;
  static double line(const std::vector<Point>& points, double bytes);
};

// All ranks of the group call it; a few seconds. Every rank gets the same: of each size the median time of the slowest rank.
MessageRates measure_messages(const Group& group);

// As if every byte were copied twice at `copy_bytes` per second by all ranks at once, and a call took 20 us.
MessageRates guessed_messages(double copy_bytes, int ranks);

}  // namespace ravine
