#include "styles/step_clock.h"

#include <fmt/format.h>

namespace ravine {
namespace {

class StepClock : public Hook {
 public:
  explicit StepClock(bool micro) : micro_(micro) {}
  void after_step(RunView& run, StepReport& r) override {
    if (r.left_out) return;
    MicroTimes all;
    for (size_t m = 0; m < r.times.micro.size(); ++m) {
      const MicroTimes& t = r.times.micro[m];
      const bool last = m + 1 == r.times.micro.size();
      if (micro_) run.log().line("{}", line("_microstep", t, last ? r.times.reduce : 0, last ? r.times.update : 0));
      all.forward += t.forward, all.backward += t.backward;
    }
    run.log().line("{}", line("", all, r.times.reduce, r.times.update));
  }

 private:
  static std::string line(const char* what, const MicroTimes& t, double reduce, double update) {
    return fmt::format(
        "[Rank 0] time (ms) | fwd{0}: {1:.2f} | bwd{0}: {2:.2f} | bwd_inner{0}: {3:.2f} | bwd_allreduce{0}: {4:.2f} | step{0}: {5:.2f}",
        what, 1e3 * t.forward, 1e3 * (t.backward + reduce), 1e3 * t.backward, 1e3 * reduce, 1e3 * update);
  }
  bool micro_;
};

}  // namespace

std::unique_ptr<Hook> step_clock_hook(bool micro) { return std::make_unique<StepClock>(micro); }

}  // namespace ravine
