// The clock for durations. A time of day comes from `std::chrono::system_clock`.
#pragma once
#include <chrono>

namespace ravine {

// Returns the seconds since a fixed point of time. The point is the same within a process. The value never decreases,
// also if the time of day is set. Its resolution is below 0.1 us for years after the machine started.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ravine
