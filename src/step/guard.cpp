#include "step/guard.h"

namespace ravine {

Verdict SpikeGuard::judge(double loss, double grad_norm) {
  const Verdict finite = stop_unless_finite(loss, grad_norm);
  if (options_.skip_norm == 0) return finite;
  if (finite == Verdict::apply && grad_norm <= options_.skip_norm) {
    in_a_row_ = 0;
    return Verdict::apply;
  }
  ++in_a_row_;
  return options_.skip_count > 0 && in_a_row_ >= options_.skip_count ? Verdict::stop : Verdict::skip;
}

}  // namespace ravine
