// Puts a NaN or an infinity into what a kernel wrote, or ends a call as if memory had run out, to see that a run notices. Set
// by probe.inject; layers and kernels know nothing of it.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/observer.h"

namespace ravine {

class FaultInjection : public Observer {
 public:
  // An op that no kernel has is a UserError.
  explicit FaultInjection(const std::vector<InjectOption>& faults);
  // Each fault acts once per run of its step, on the first call that fits: a step that is run again meets it again.
  void begin_step(int64_t step);
  void after(const CallInfo& call) override;
  // Those of this step that found no call, in words; empty: none.
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
