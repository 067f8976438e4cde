// Fault injection for tests of a run (probe.inject): writes a NaN or an infinity into an output of a kernel, or throws
// std::bad_alloc from a call. Layers and kernels do not know of it.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/observer.h"

namespace ravine {

class FaultInjection : public Observer {
 public:
  // Stores the faults to inject (probe.inject). A fault whose op name matches no op is a UserError.
  explicit FaultInjection(const std::vector<InjectOption>& faults);
  // Starts step `step`: each fault that is set for this step is injected once, in the first kernel call that matches.
  // If a step is run again, its faults are injected again.
  void begin_step(int64_t step);
  void after(const CallInfo& call) override;
  // Returns a text that lists the injected faults of this step that matched no kernel call; empty if all matched.
  std::string missed() const;

 private:
  struct Fault {
    InjectOption option;
    bool done = false;
  };
  std::vector<Fault> faults_;
  int64_t step_ = 0;
};

}  // namespace ravine
