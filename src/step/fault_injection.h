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
  // Checks the names of the ops. A name that matches no op is a UserError.
  explicit FaultInjection(const std::vector<InjectOption>& faults);
  // Starts a step: each fault of the step acts once, on the first call that matches. A repeated step gets its faults
  // again.
  void begin_step(int64_t step);
  void after(const CallInfo& call) override;
  // Returns the faults of this step that matched no call, as text; empty if there are none.
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
