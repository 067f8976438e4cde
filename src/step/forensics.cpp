#include "step/forensics.h"

#include <cmath>

#include "step/nan_observer.h"

namespace ravine {

// Host work, after a failure.
std::string bad_weight(StepEngine& engine) {
  const FlatStore& store = engine.store();
  std::string mine;
  for (size_t b = 0; b < store.buckets().size() && mine.empty(); ++b) {
    const TensorView v = store.resident_values(b);
    const Range resident = store.resident(b);
    for (const Piece& piece : pieces_of(store.buckets()[b], resident)) {
      visit_float(v.dtype, [&](auto zero) {
        using T = decltype(zero);
        using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const T* values = v.as<T>() + (piece.from - resident.begin);
        for (int64_t i = 0; i < piece.shape.count() && mine.empty(); ++i)
          if (const double x = static_cast<Wide>(values[i]); !std::isfinite(x))
            mine = fmt::format("weight '{}' holds {} at element {}", piece.param->name, x, piece.element(i));
      });
    }
  }
  for (const std::string& text : gather_texts(engine.ranks().all(), mine))
    if (!text.empty()) return text;
  return "";
}

std::string origin_of_nan(StepEngine& engine, const std::vector<MicroBatch>& micros, int64_t step, FaultInjection* injection) {
  NanObserver observer;
  engine.ctx().add_observer(&observer);
  if (injection) injection->begin_step(step);
  engine.run(micros, step, 0, {}, [](double, double) { return Verdict::skip; });
  std::string found;  // of the first rank that has an origin
  for (const std::string& text : gather_texts(engine.ranks().all(), observer.found()))
    if (found.empty()) found = text;
  return found.empty() ? "; no op produced it when the step was run again" : "; " + found;
}

void end_not_finite(StepEngine& engine, int64_t step, const StepResult& r, const std::string& origin) {
  const std::string what = std::isfinite(r.loss) ? fmt::format("the gradient norm became {}", r.grad_norm)
                                                 : fmt::format("the loss became {}", r.loss);
  if (const std::string bad = bad_weight(engine); !bad.empty())
    fail("step {}: {}; {} since step {} or before, so go on from an earlier checkpoint{}", step, what, bad, step - 1, origin);
  fail("step {}: {}{}; the weights are those of step {}, the last checkpoint is untouched", step, what, origin, step - 1);
}

}  // namespace ravine
