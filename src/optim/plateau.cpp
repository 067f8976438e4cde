#include "optim/plateau.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/bounds.h"

namespace ravine {
namespace {

constexpr double kLeastChange = 1e-8;  // `eps` of both: smaller changes of the learning rate are not made

}  // namespace

double PlateauRate::smoothed(double loss) {
  if (options_.smooth_window == 0 || !std::isfinite(loss)) return loss;
  window_.push_back(loss);
  sum_ += loss;
  if (static_cast<int64_t>(window_.size()) > options_.smooth_window) sum_ -= window_.front(), window_.pop_front();
  return sum_ / static_cast<double>(window_.size());
}

bool PlateauRate::better(double loss) const {
  const double threshold = options_.threshold > 0 ? options_.threshold : greedy() ? 1e-6 : 1e-4;
  const ThresholdMode mode = options_.threshold_mode.value_or(greedy() ? ThresholdMode::absolute : ThresholdMode::relative);
  return mode == ThresholdMode::relative ? loss < best_ * (1.0 - threshold) : loss < best_ - threshold;
}

void PlateauRate::observe(double loss) {
  if (greedy()) loss = smoothed(loss);
  // GreedyLR ignores a loss during a cooldown; ReduceLROnPlateau still uses it for the best.
  if (greedy() && (cooling_ > 0 || warming_ > 0)) {
    --(cooling_ > 0 ? cooling_ : warming_);
    bad_ = good_ = 0;
    return;
  }
  if (better(loss))
    best_ = loss, bad_ = 0, ++good_;
  else
    ++bad_, good_ = 0;
  if (cooling_ > 0) --cooling_, bad_ = 0;
  if (greedy() && good_ > options_.patience) {
    raise();
    warming_ = options_.raise_cooldown, good_ = 0;
  } else if (bad_ > options_.patience) {
    lower();
    cooling_ = options_.cooldown, bad_ = 0;
  }
}

void PlateauRate::lower() {
  const double factor = options_.factor > 0 ? options_.factor
                        : greedy()          ? 0.95
                                            : 0.1,
               lowest = lowest_lr(options_), lower = std::max(rate_ * factor, lowest);
  if (rate_ - lower > kLeastChange) rate_ = lower;
  if (greedy() && rate_ <= lowest && --left_to_reset_ <= 0) begin_anew();
}

void PlateauRate::raise() {
  const double higher = std::min(rate_ / (options_.factor > 0 ? options_.factor : 0.95), options_.highest_lr);
  if (higher - rate_ > kLeastChange) rate_ = higher;
  left_to_reset_ = options_.reset_after;
}

void PlateauRate::begin_anew() {
  rate_ = base_;
  best_ = std::numeric_limits<double>::infinity();
  bad_ = good_ = cooling_ = warming_ = 0;
  left_to_reset_ = options_.reset_after;
  window_.clear();
  sum_ = 0;
}

Json PlateauRate::state() const {
  Json s{{"rate", rate_},       {"bad", bad_},         {"good", good_},
         {"cooling", cooling_}, {"warming", warming_}, {"left_to_reset", left_to_reset_},
         {"window", window_},   {"sum", sum_}};
  if (std::isfinite(best_)) s["best"] = best_;
  return s;
}

void PlateauRate::restore(const Json& s, const std::string& where) {
  rate_ = field_or(s, "rate", where, rate_);
  best_ = field_or(s, "best", where, best_);
  auto count = [&](const char* key, int64_t otherwise) {
    const int64_t n = field_or(s, key, where, otherwise);
    if (n < 0 || static_cast<double>(n) > kMostSteps)
      throw UserError(fmt::format("'{}' is {}", key, n), where,
                      fmt::format("it counts validations: a whole number from 0 to {:.0f}", kMostSteps),
                      "resume from another checkpoint");
    return n;
  };
  bad_ = count("bad", bad_), good_ = count("good", good_);
  cooling_ = count("cooling", cooling_), warming_ = count("warming", warming_);
  left_to_reset_ = count("left_to_reset", left_to_reset_);
  window_.clear();
  if (!(rate_ >= 0 && rate_ <= kMostRate))
    throw UserError(fmt::format("'rate' is {}", rate_), where, fmt::format("a rate is from 0 to {}", kMostRate),
                    "resume from another checkpoint");
  const Json& window = array_field(s, "window", where);
  if (static_cast<int64_t>(window.size()) > options_.smooth_window)
    throw UserError(fmt::format("'window' holds {} losses", window.size()), where,
                    fmt::format("schedule.smooth_window is {}", options_.smooth_window), "resume from another checkpoint");
  for (const Json& x : window) {
    if (!x.is_number())
      throw UserError("'window' holds a value that is not a number", where, "it must hold the losses of the last validations",
                      "resume from another checkpoint");
    window_.push_back(x);
  }
  sum_ = field_or(s, "sum", where, sum_);
}

}  // namespace ravine
