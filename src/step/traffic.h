// What ranks sent and how long they stood still for each other in a step, by axis of the mesh. Waiting is time inside calls
// that wait for messages.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "comm/ranks.h"

namespace ravine {

struct StepTraffic {
  struct Part {
    std::string axis;    // "data", "tensor", "pipeline", "expert"; "all": agreements of all ranks on losses, norms and stops
    double mb = 0;       // sent by the rank that sent most, MB
    double seconds = 0;  // waited for it, mean over ranks
  };
  std::vector<Part> parts;          // axes of more than one rank
  double sent_mb = 0;               // by this rank, MB
  double wait = 0, wait_least = 0;  // shares of the step that the rank that waited most, and least, stood still
  int slowest = 0;                  // the rank that waited least: the others wait for it
  double bubble = -1;               // share of the step that stages waited for each other, mean over ranks; -1: no pipeline
};

class TrafficMeter {
 public:
  void begin(const Ranks& ranks);
  // Since begin(). `seconds`: the length of the step. All ranks call it at the same time.
  StepTraffic end(const Ranks& ranks, double seconds);

 private:
  static constexpr size_t kKinds = 5;  // data, tensor, pipeline, expert, all
  using Counts = std::array<Traffic, kKinds>;
  static Counts counts(const Ranks& ranks);
  Counts before_;
};

}  // namespace ravine
