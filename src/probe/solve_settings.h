// Solves for the values of one or two settings of Adam or AdamW, so that the rule comes nearest to a recording.
#pragma once
#include <array>
#include <vector>

#include "probe/recorded_updates.h"

namespace ravine {

// The settings that may be free, the likelier ones first.
enum class Knob : uint8_t {
  lr,
  weight_decay,
  decayed,
  beta1,
  beta2,
  eps,
  clip_norm,
  bias_correction,
  coupled,
  clip_scale,
  factor
};
inline constexpr std::array kKnobs{Knob::lr,      Knob::weight_decay, Knob::decayed,   Knob::beta1,
                                   Knob::beta2,   Knob::eps,          Knob::clip_norm, Knob::bias_correction,
                                   Knob::coupled, Knob::clip_scale,   Knob::factor};

// Values of free settings that come near to a recording. digits: of the values that were solved for.
struct Solution {
  AdamSettings rule;
  int digits = 0;
};

// A solver for one recording. Both arguments must outlive it.
class Solver {
 public:
  Solver(const RecordedUpdates& u, const AdamSettings& configured);
  // Returns the best solution for each choice of the free settings that have no scale (a zero, a power of two); those
  // that are far from the recording are left out, if others are near.
  std::vector<Solution> solve(const std::vector<Knob>& knobs) const;

 private:
  using Point = std::vector<double>;
  double put(AdamSettings& s, const std::vector<Knob>& axes, const Point& at) const;
  Misfit at(AdamSettings& s, const std::vector<Knob>& axes, const Point& x, const ChosenElements& elements, bool choose,
            std::vector<double>* residuals = nullptr) const;
  std::vector<double> starts(Knob k) const;
  void descend(AdamSettings& s, const std::vector<Knob>& axes, Point& x, const ChosenElements& elements, bool choose) const;
  Solution rounded(const AdamSettings& s, const std::vector<Knob>& axes, const Point& x) const;
  void solve_axes(const AdamSettings& base, const std::vector<Knob>& axes, bool choose, int digits,
                  std::vector<Solution>& out) const;

  const RecordedUpdates& u_;
  const AdamSettings& configured_;
  ChosenElements coarse_, fine_;
  double most_norm_ = 0, most_rate_ = 0;
};

}  // namespace ravine
