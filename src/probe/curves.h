// Decides if two training curves differ by roundings only. After the first differing bit, two runs diverge
// exponentially until their losses scatter around a common mean. So steps are judged in three zones:
//
//   exact  leading steps whose losses are equal
//   early  up to step 50: |a - b| / |b| within an envelope. The envelope starts at min(8 u, 0.5 %), doubles every ten
//          steps, and ends at 1 % (the limit of msprobe's guide); u is the unit roundoff of the coarser compute type.
//   late   after step 50: the smoothed difference within a band; no slope; its mean over the last third within its
//          standard error of 0 (from block means, because neighbouring steps are not independent).
//
// Further runs of b's side, with their own scatter, replace both widths: twice the envelope of their largest difference
// up to a step, and twice their band.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/chart.h"
#include "probe/curve_file.h"

namespace ravine {

// The options of a comparison of curves.
struct CurveOptions {
  double limit = 0.03;  // absolute limit of the smoothed late difference, without further runs of b's side
  std::string compute;  // the compute type; "": as the curves say, else bf16
};

// A limit that a program or guide uses, with the measured value: it is reported, but does not change the verdict.
struct CurveRule {
  std::string who, what;
  double measured = 0, limit = 0;
  bool kept() const { return measured <= limit; }
};

// The result of a comparison of curves.
struct CurveVerdict {
  int64_t steps = 0, first = 0, last = 0;  // steps in both curves
  int64_t exact = 0;                       // leading steps with equal losses
  std::string compute;
  bool from_repeats = false;  // widths are from further runs
  struct Early {
    int64_t steps = 0, at = 0;  // at: the step of the largest ratio
    double ratio = 0;           // difference / envelope
    double relative = 0;        // |a - b| / |b| at that step
    int64_t first_beyond = 0;   // 0: no step
  } early;
  struct Late {
    int64_t steps = 0, from = 0;  // steps 0: too few to judge
    double band = 0, most = 0;    // most: largest smoothed difference, signed, at step most_at
    int64_t most_at = 0;
    double mean = 0, error = 0;         // over the last third; half width of its 95 % interval
    double drift = 0, drift_error = 0;  // rise of a straight line over the zone; half width of its 95 % interval
    double noise_ratio = 0;             // mean |a - b| / mean |b - c|; 0: no further runs
    bool in_band() const { return std::abs(most) <= band; }
    bool centred() const { return std::abs(mean) <= std::max(error, 0.1 * band); }
    bool level() const { return std::abs(drift) <= std::max(drift_error, 0.2 * band); }
  } late;
  std::optional<double> norm;  // mean |a - b| / |b| of the gradient norms; limit 10 %
  int64_t not_finite = 0;      // first step at which only one loss is finite; 0: none
  // Steps at which no loss is finite, and the first of them. lost: these are the last steps, so both runs ended in
  // them.
  struct Neither {
    int64_t steps = 0, first = 0;
    bool lost = false;
  } neither;
  std::vector<std::string> notes;  // one sentence for each curve that goes back
  std::vector<CurveRule> rules;

  bool agrees() const;
  std::string text() const;     // notes, then finding()
  std::string finding() const;  // three sentences: the result, the first difference, the next thing to check
};

// Compares two curves. `repeats`: further runs of b's side. A UserError if fewer than two steps are common.
CurveVerdict judge_curves(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                          const CurveOptions& options);
Json verdict_json(const CurveVerdict& verdict);

// Returns charts of the losses, of their difference with the band around 0, and of the norms.
std::vector<Chart> curve_charts(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                                const CurveVerdict& verdict);

// A health.skip_norm for runs like these. The logarithms of their norms, without the first tenth, are taken as normal,
// with their median and median absolute deviation. The limit is six deviations above the median.
struct SkipThreshold {
  double threshold = 0;
  double per_million = 0;  // expected steps above the limit
  struct Run {
    std::string name;
    std::vector<int64_t> above;  // steps that the limit would have skipped
    int64_t steps = 0, in_a_row = 0;
  };
  std::vector<Run> runs;
};
// a UserError if there are fewer than 50 norms
SkipThreshold suggest_threshold(const std::vector<TrainingCurve>& curves);

}  // namespace ravine
