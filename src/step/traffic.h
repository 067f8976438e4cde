// The traffic of a step by axis of the mesh: bytes sent, and time spent waiting for messages of other ranks.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "comm/ranks.h"

namespace ravine {

// The traffic of one step over all ranks, measured by TrafficMeter: megabytes sent, and waiting times.
struct StepTraffic {
  struct Part {
    // The axis of the mesh: "data", "tensor", "pipeline", "expert"; "all": collectives of all ranks on losses, norms
    // and stops.
    std::string axis;
    double mb = 0;       // sent by the rank that sent most, MB
    double seconds = 0;  // waited, mean over ranks
  };
  std::vector<Part> parts;  // the axes of more than one rank, and "all"
  double sent_mb = 0;       // by this rank, MB
  // Waiting time as a part of the step time (0 to 1), of the rank that waited most and of the rank that waited least.
  double wait = 0, wait_least = 0;
  int slowest = 0;     // the rank that waited least: the other ranks wait for it
  double bubble = -1;  // the part of the step that stages waited for each other, mean over ranks; -1: no pipeline
};

// Measures the traffic between ranks from begin() to end(), from the counters of the groups of ranks.
class TrafficMeter {
 public:
  void begin(const Ranks& ranks);
  // Returns the traffic (bytes sent and waiting times) since begin(). `seconds`: the time of the step on this rank. All
  // ranks call it together.
  StepTraffic end(const Ranks& ranks, double seconds);

 private:
  static constexpr size_t kKinds = 5;  // data, tensor, pipeline, expert, all
  using Counts = std::array<Traffic, kKinds>;
  static Counts counts(const Ranks& ranks);
  Counts before_;
};

}  // namespace ravine
