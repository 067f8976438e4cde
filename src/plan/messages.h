// The speed of messages between ranks, measured by `mpirun -n N ravine bench messages` and kept with the peaks of the
// machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/group.h"

namespace ravine {

// The times of messages between ranks by size, measured by measure_messages or guessed by guessed_messages.
struct MessageRates {
  struct Point {
    double bytes, seconds;  // of one call; bytes: of a piece, as in Group's arguments
  };
  int ranks = 2;          // number of ranks in the measurement
  bool measured = false;  // false: a guess from the memory rate
  std::vector<Point> all_to_all, all_gather, send;

  // Return the seconds of one call: exchange of an all-to-all, gather of an all-gather, message of a send. `bytes`: of
  // one piece. `ranks`: size of the group. Between measured sizes the seconds are interpolated. Beyond them, and for
  // another number of ranks, they are proportional to the bytes that a rank sends.
  double exchange(double bytes, int ranks) const { return of(all_to_all, bytes, ranks); }
  double gather(double bytes, int ranks) const { return of(all_gather, bytes, ranks); }
  double message(double bytes) const { return line(send, bytes); }

  Json json() const;
  static std::optional<MessageRates> from_json(const Json& json);

 private:
  double of(const std::vector<Point>& points, double bytes, int ranks) const;
  static double line(const std::vector<Point>& points, double bytes);
};

// Measures the seconds of messages of several sizes between the ranks of a group; takes a few seconds. For each size
// the result is the median time of the slowest rank. All ranks of the group call it together and get the same.
MessageRates measure_messages(const Group& group);

// Returns a guess of message times without a measurement: every byte is copied twice by all ranks at once, and a call
// takes 20 us. `copy_bytes`: bytes read plus bytes written, per second.
MessageRates guessed_messages(double copy_bytes, int ranks);

}  // namespace ravine
