// Recorded updates of Adam and AdamW: gradients, weights before and after them, and how far the rule lies from them for
// given settings.
//
// The rule is computed in f64, element by element. A difference is measured in units of its bound, which is the sum of
// the roundings of the recorded program. With u = half a unit in the last place of 1, each step adds
//
//   u (2 |p'| + |lr| (2 wd |p| + (16 + sqrt(t)) M / (bias1 d)))   for a weight p' with denominator d, step t
//
// where M is the moving mean of |g|, as m is the moving mean of g. Two roundings of p come from the decay and from the
// update. The factor 16 is for the operations of the update and for the norm of the gradients; sqrt(t) is for the
// moments, whose roundings have random signs. Moments have u (20 + t) times M, or times v. 16-bit weights add their own
// rounding once per step.
#pragma once
#include <string>
#include <vector>

#include "probe/replay_optimizer.h"

namespace ravine {

// The settings of an update by Adam or AdamW, as far as --identify can find them.
struct AdamSettings {
  double rate = 1;            // factor on the learning rates of the recording
  std::vector<double> rates;  // learning rates by step that replace them; empty: none
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double clip_norm = 0;    // 0: no clipping
  double clip_scale = 1;   // factor on the norm that clipping reads: a loss scale that is divided out later
  double grad_factor = 1;  // factor on the gradients, before clipping
  bool bias_correction = true;
  bool coupled = false;      // the decay is added to the gradient, before the moments (Adam); false: AdamW
  std::vector<char> decays;  // by parameter: it has weight decay
};

// A recording of updates: the input and the result of an optimizer.
struct RecordedUpdates {
  struct Of {
    std::string name;
    Shape shape;
    std::vector<double> before, grads;  // grads: of each step
    std::vector<double> after;          // after each step, or after the last one only (every_step)
    std::vector<double> m, v;           // moments after the last step; empty: not recorded
    int64_t count() const { return static_cast<int64_t>(before.size()); }
  };
  std::vector<Of> params;
  int64_t steps = 0;
  bool every_step = false;
  std::vector<double> rates, norms;  // by step: learning rate, and norm of all gradients
  double rounding = 0x1p-24;         // u of the arithmetic
  double stored = 0;                 // u of the weights if they are of 16 bits, else 0
};

// Reads the result of an optimizer for the parameters of `input`. `path` is a safetensors file with p.NAME or NAME:
// [..], the weights after the last step; or [S, ..] or [S + 1, ..], the weights after each of S steps (behind those
// before the first). Optional moments are state.m.NAME and state.v.NAME, or exp_avg.NAME and exp_avg_sq.NAME.
RecordedUpdates read_updates(const ReplayInput& input, const std::string& path, const std::vector<double>& rates);

// The distance of recorded values from the rule.
struct Misfit {
  double squares = 0;                // sum of squares of differences, in units of their bounds
  double worst = 0;                  // the largest difference, in units of its bound
  size_t worst_param = 0;            // the parameter that has it
  double missed = 0, moved = 0;      // sums of squares of differences after the last step, and of the recorded change
  int64_t judged = 0, left_out = 0;  // elements; left_out: their second moment is too small for the arithmetic
  // True if all differences are within their bounds, and more than half of the recorded change is explained: bounds of
  // elements with tiny gradients allow any value.
  bool fits() const { return worst <= 1 && unexplained() < 0.5; }
  double unexplained() const;  // |difference| / |recorded change|, in L2 norms
};

// The elements of a recording that are compared: by parameter their numbers.
using ChosenElements = std::vector<std::vector<int64_t>>;
// Returns about `most` elements, evenly spread over each parameter, at least 4 of each; most 0: all.
ChosenElements elements_of(const RecordedUpdates& u, int64_t most);

// Returns the distance of these elements from the rule. choose_decay: each parameter decays or not, whichever is
// nearer; settings.decays gets the choice. residuals (may be null): all differences in units of their bounds.
Misfit misfit_of(const RecordedUpdates& u, AdamSettings& settings, const ChosenElements& elements, bool choose_decay = false,
                 std::vector<double>* residuals = nullptr);

// Returns the learning rate of each step that fits best, from the weights after each step. Needs every_step.
std::vector<double> solve_rates(const RecordedUpdates& u, const AdamSettings& settings, const ChosenElements& elements);

}  // namespace ravine
