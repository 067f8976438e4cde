// The interface by which running work asks if it must stop. `apps` implements it with signals and passes it to other
// rooms.
#pragma once
#include <string>

namespace ravine {

class StopToken {
 public:
  virtual ~StopToken() = default;
  virtual bool requested() const { return false; }
  // Sets the lines, without newline, that stop requests print: `first` for the first request, `end` for the second
  // request, which ends the process. The default does nothing.
  virtual void set_stop_lines(const std::string& /*first*/, const std::string& /*end*/) {}
};

}  // namespace ravine
