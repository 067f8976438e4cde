// The one clock for durations. A time of day is another matter (std::chrono::system_clock, in marks and events).
#pragma once
#include <chrono>

namespace ravine {

// Seconds since a point that is the same within a process and means nothing else. Never falls, and goes on while the time of
// day is set; a tenth of a microsecond is told apart for years after the machine was started.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ravine
