// Whether two training curves are one up to what roundings explain. From the first difference of a bit on, two runs part
// exponentially until their losses scatter about a common mean: so steps are judged in three zones.
//
//   exact  leading steps whose losses are equal
//   early  up to step 50: |a - b| / |b| within an envelope that begins at min(8 u, 0.5 %), u the unit roundoff of the coarser
//          type that computes, doubles every ten steps, and ends at 1 % (the limit of msprobe's guide)
//   late   behind it: the difference, smoothed, within a band; its mean over the last third no further from 0 than its standard
//          error allows (block means: neighbours in time are not independent); no slope
//
// More runs of b's side, as it is with its own scatter, replace both widths by what they show: twice the envelope of their own
// largest difference so far, and twice their band.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/chart.h"
#include "probe/curve_file.h"

namespace ravine {

struct CurveOptions {
  double limit = 0.03;  // of the smoothed late difference, absolute, without further runs of b's side
  std::string compute;  // the type that computes; "": as the curves say, else bf16
};

// A limit that somebody uses, beside what was measured: said, not judged by.
struct CurveRule {
  std::string who, what;
  double measured = 0, limit = 0;
  bool kept() const { return measured <= limit; }
};

struct CurveVerdict {
  int64_t steps = 0, first = 0, last = 0;  // steps that both have
  int64_t exact = 0;                       // leading ones that are equal
  std::string compute;
  bool from_repeats = false;  // widths come from further runs
  struct Early {
    int64_t steps = 0, at = 0;  // at: the step of the largest ratio
    double ratio = 0;           // difference / envelope
    double relative = 0;        // |a - b| / |b| there
    int64_t first_beyond = 0;   // 0: none
  } early;
  struct Late {
    int64_t steps = 0, from = 0;  // 0 steps: too few to judge
    double band = 0, most = 0;    // most: of the smoothed difference, signed; at step most_at
    int64_t most_at = 0;
    double mean = 0, error = 0;         // over the last third; half width of its 95 % interval
    double drift = 0, drift_error = 0;  // over the whole zone by a straight line; half width likewise
    double noise_ratio = 0;             // mean |a - b| over mean |b - c|; 0: no further runs
    bool in_band() const { return std::abs(most) <= band; }
    bool centred() const { return std::abs(mean) <= std::max(error, 0.1 * band); }
    bool level() const { return std::abs(drift) <= std::max(drift_error, 0.2 * band); }
  } late;
  std::optional<double> norm;  // mean |a - b| / |b| of the gradient norms; judged by 10 %
  int64_t not_finite = 0;      // first step at which one loss is not finite and the other is; 0: none
  // Steps at which neither loss is finite, and the first of them. lost: they are the last ones, so both runs have ended in them.
  struct Neither {
    int64_t steps = 0, first = 0;
    bool lost = false;
  } neither;
  std::vector<std::string> notes;  // of curves that go back, a sentence each
  std::vector<CurveRule> rules;

  bool agrees() const;
  std::string text() const;     // notes, then finding()
  std::string finding() const;  // three sentences: what was found, where it begins, where to look
};

// `repeats`: further runs of b's side. UserError: fewer than two steps in common.
CurveVerdict judge_curves(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                          const CurveOptions& options);
Json verdict_json(const CurveVerdict& verdict);

// Losses, their difference with the band around 0, and norms.
std::vector<Chart> curve_charts(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                                const CurveVerdict& verdict);

// health.skip_norm for runs like these: the logarithms of their norms, without the first tenth, are taken as normal with the
// median and the median absolute deviation of what is there, and the limit lies six deviations above.
struct SkipThreshold {
  double threshold = 0;
  double per_million = 0;  // steps above it by that distribution
  struct Run {
    std::string name;
    std::vector<int64_t> above;  // steps that it would have skipped
    int64_t steps = 0, in_a_row = 0;
  };
  std::vector<Run> runs;
};
SkipThreshold suggest_threshold(const std::vector<TrainingCurve>& curves);  // UserError: fewer than 50 norms in all

}  // namespace ravine
