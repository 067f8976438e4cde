// Whether the work under way is asked to stop. `apps` owns signals and hands it in; rooms below ask it.
#pragma once
#include <string>

namespace ravine {

class StopToken {
 public:
  virtual ~StopToken() = default;
  virtual bool requested() const { return false; }
  // What the first request and the end by a second one say, a line each, without a newline.
  virtual void say_when_asked(const std::string& /*first*/, const std::string& /*end*/) {}
};

}  // namespace ravine
