// What a run says of a loss, a norm or a weight that is not finite.
#include <cmath>

#include "train/nan_watch.h"
#include "train/trainer.h"

namespace ravine {

// "weight 'NAME' holds nan at element 5" of the first weight on any rank that is not finite; "" if all are. All ranks call it.
// Host work, after a failure.
std::string Trainer::bad_weight() const {
  const FlatStore& store = engine_->store();
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
  for (const std::string& text : gather_texts(ranks_.all(), mine))
    if (!text.empty()) return text;
  return "";
}

void Trainer::explain_nan(const std::vector<MicroBatch>& micros, int64_t step, const StepResult& r) {
  std::string what = std::isfinite(r.loss) ? fmt::format("the gradient norm became {}", r.grad_norm)
                                           : fmt::format("the loss became {}", r.loss);
  std::string origin = "; set train.find_nan=true to have the first op named";
  if (config_.train.find_nan) {
    NanWatch watch;
    engine_->ctx().add_observer(&watch);
    if (injection_) injection_->begin_step(step);
    engine_->run(micros, step, 0, {}, [](double, double) { return Verdict::skip; });
    std::string found;  // by the first rank that has one
    for (const std::string& text : gather_texts(ranks_.all(), watch.found()))
      if (found.empty()) found = text;
    origin = found.empty() ? "; no op produced it when the step was run again" : "; " + found;
  }
  wait_for_save();
  const std::string bad = bad_weight();
  if (!bad.empty())
    fail("step {}: {}; {} since step {} or before, so go on from an earlier checkpoint{}", step, what, bad, step - 1, origin);
  fail("step {}: {}{}; the weights are those of step {}, the last checkpoint is untouched", step, what, origin, step - 1);
}

}  // namespace ravine
