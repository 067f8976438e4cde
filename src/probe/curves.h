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
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/chart.h"
#include "probe/curve_file.h"

namespace ravine {

// The settings of judge_curves().
struct CurveOptions {
  double limit = 0.03;  // largest smoothed difference of losses after step 50; unused if there are repeats of run b
  std::string compute;  // the compute type of the runs; "": the type that the curves name, else bf16
  // Curves of equal standing, whose scatter among themselves gives the allowed differences (probe/curve_band.h).
  std::vector<TrainingCurve> band;
};

// A limit that another program or guide sets for such a comparison, with the measured value. The rule is reported, but
// does not change the verdict. who: the program or guide; what: the quantity.
struct CurveRule {
  std::string who, what;
  double measured = 0, limit = 0;
  bool kept() const { return measured <= limit; }
};

// The result of a comparison of two training curves (judge_curves).
struct CurveVerdict {
  int64_t steps = 0, first = 0, last = 0;  // number of steps that both curves have; the first and the last of them
  int64_t exact = 0;                       // number of leading steps with equal losses
  std::string compute;
  bool from_repeats = false;  // true: envelope and band are computed from repeats of run b
  // The steps up to 50 after the equal ones.
  struct Early {
    int64_t steps = 0, at = 0;  // number of steps; the step with the largest ratio
    double ratio = 0;           // largest difference / envelope; above 1: outside
    double relative = 0;        // |a - b| / |b| at step `at`
    int64_t first_beyond = 0;   // the first step outside the envelope; 0: none
  } early;
  // The steps after 50.
  struct Late {
    int64_t steps = 0, from = 0;  // number of steps, 0 if they are too few to judge; the first of them
    double band = 0, most = 0;    // allowed and largest smoothed difference; `most` is signed, at step most_at
    int64_t most_at = 0;
    double mean = 0, error = 0;         // mean difference over the last third; half width of its 95 % interval
    double centre = 0, slope = 0;       // of repeats among themselves: twice the largest |mean| and |drift|; 0: no repeats
    double drift = 0, drift_error = 0;  // rise of a fitted straight line; half width of its 95 % interval
    double noise_ratio = 0;             // mean |a - b| / mean |b - c|, where c are repeats of run b; 0: no repeats
    bool in_band() const { return std::abs(most) <= band; }
    bool centred() const { return std::abs(mean) <= std::max({error, 0.1 * band, centre}); }
    bool level() const { return std::abs(drift) <= std::max({drift_error, 0.2 * band, slope}); }
  } late;
  std::optional<double> norm;  // mean |a - b| / |b| of the gradient norms; limit 10 %
  // The learning rates, if both curves have them: number of steps, largest relative difference and its step, first step
  // with a difference. Rates are reported, and do not change the verdict.
  struct Rates {
    int64_t steps = 0, most_at = 0, first_other = 0;
    double most = 0;
  } rates;
  int64_t not_finite = 0;  // first step at which only one loss is finite; 0: none
  // The steps at which neither loss is finite: their number and the first. lost: true if they are the last steps, so
  // that both runs ended with such losses.
  struct Neither {
    int64_t steps = 0, first = 0;
    bool lost = false;
  } neither;
  std::vector<std::string> notes;  // one sentence for each curve that goes back
  std::vector<CurveRule> rules;

  bool agrees() const;
  std::string text() const;     // the result for the user: the notes, then finding()
  std::string finding() const;  // the result in three sentences: agreement, first difference, what to check next
};

// Compares the training curves of two runs. repeats: curves of further runs like b, whose scatter gives the allowed
// differences; may be empty. A UserError if the curves have fewer than two steps in common.
CurveVerdict judge_curves(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                          const CurveOptions& options);
Json verdict_json(const CurveVerdict& verdict);

// Returns the largest relative difference of losses that roundings explain at an early step (up to 50). compute: the
// compute type of the runs; "": bf16.
double loss_envelope(const std::string& compute, int64_t step);

// Returns charts of a comparison: losses, their difference with the allowed band around 0, gradient norms, and learning
// rates. A chart is left out if a curve lacks its values.
std::vector<Chart> curve_charts(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                                const CurveVerdict& verdict);

// A suggested value of health.skip_norm: the result of suggest_threshold(). The logarithms of the gradient norms,
// without the first tenth of each run, are taken as normal, with their median and median absolute deviation. The
// threshold is six deviations above the median.
struct SkipThreshold {
  double threshold = 0;
  double per_million = 0;  // expected number of steps above the threshold in a million
  struct Run {
    std::string name;
    std::vector<int64_t> above;       // steps of this run that the threshold would have skipped
    int64_t steps = 0, in_a_row = 0;  // number of steps; the longest run of consecutive steps above the threshold
  };
  std::vector<Run> runs;
};
// Suggests a health.skip_norm for runs like these. A UserError if fewer than 50 norms are left
// without the first tenth of each run.
SkipThreshold suggest_threshold(const std::vector<TrainingCurve>& curves);

}  // namespace ravine
