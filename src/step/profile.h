// The time of a step by op and phase: calls, seconds, FLOPs and bytes, compared with the roofline of the machine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/observer.h"

namespace ravine {

class Profile : public Observer {
 public:
  explicit Profile(bool timeline = false) : timeline_(timeline) {}
  void before(const CallInfo& call) override;
  void after(const CallInfo& call) override;
  void begin_step();  // clears the rows of the previous step and starts the clock
  // Returns a text table of the profiled step by op: calls, seconds, FLOPs and bytes, the longest time first. `flops`
  // and `bytes_per_second`: peaks of the machine, for the roofline column.
  std::string table(double flops, double bytes_per_second) const;
  std::string timeline_json() const;  // Chrome trace events, which Perfetto opens

 private:
  struct Row {
    int64_t calls = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };
  struct Event {
    std::string name, path;
    double start, seconds;
  };
  std::map<std::string, Row> rows_;
  std::vector<Event> events_;
  bool timeline_;
  double step_start_ = 0, call_start_ = 0;
};

}  // namespace ravine
