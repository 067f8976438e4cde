#include "config/count_steps.h"

#include <algorithm>
#include <cmath>

#include "config/takes.h"

namespace ravine {
namespace {

// 0.1 * 30 is 3.0000000000000004 in floating point; it must become 3, not 4.
int64_t rounded_up(double x) { return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(x * (1 - 1e-12)))); }

}  // namespace

void count_steps(Config& c, int64_t samples) {
  if (c.train.epochs > 0 && samples > 0) {
    const double passes = c.train.epochs * static_cast<double>(samples) / static_cast<double>(c.train.global_batch);
    c.train.steps = rounded_up(std::min(passes, static_cast<double>(kMostSteps)));
    c.train.epochs = 0;
  }
  std::optional<double>& ratio = c.schedule.classes.warmup_ratio;
  if (!ratio || !makes_steps_of_ratio(c.schedule.type) || (c.train.epochs > 0 && c.schedule.steps == 0)) return;
  const int64_t length = c.schedule.steps > 0 ? c.schedule.steps : c.train.steps;
  c.schedule.warmup_steps = *ratio > 0 ? rounded_up(*ratio * static_cast<double>(length)) : 0;
  ratio.reset();
}

}  // namespace ravine
