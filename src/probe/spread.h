// Perturbation: measures the effect of rounding on a run (TTrace, arXiv 2506.09280). The steps are repeated with every
// parameter moved up or down by one unit in the last place. The result is a bound for tensors without a kernel bound.
// Such tensors are outputs of another program's calls with unrecorded inputs, and outputs of calls that the other dump
// lacks.
//
// The unit is the unit of the coarsest type in both dumps. A hash of the parameter's name and of the element's index
// chooses up or down, so that the same elements move on any rank and in every run.
//
// For each tensor a sketch is kept, not the tensor: signed sums of its elements in 64 boxes. Two sketches give |x - y|
// to about a tenth.
//
// The bound is used up to the first culprit, because later differences are not from rounding. The bound is kOfSpread =
// 8 times the spread. Both runs round (sqrt 2), and round at every call (about four calls per parameter: 2). The norm
// of a tensor with few elements is a single draw, and may be a third of its size (3).
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>

#include "engine/observer.h"
#include "probe/substitution.h"
#include "train/step_observer.h"

namespace ravine {

// The bound of a tensor's error by perturbation, in multiples of its measured spread.
inline constexpr double kOfSpread = 8;

// Moves each element of all parameters of a model up or down by a unit in the last place of the type `unit`. The factor
// is 1 + epsilon or 1 - epsilon. Parameters in blocks of 4 bits are not changed. seed: other seeds choose other signs.
void move_parameters(WeightSource& store, DType unit, uint64_t seed = 0);

// An observer that measures the spread of tensors of two dumps: how much they change if all parameters are moved by a
// rounding. It observes a repeated run, then the same run with moved parameters.
class Spread : public StepObserver, public Observer {
 public:
  Spread(const Dump& a, const Dump& b, Substituted& found);
  // True if a perturbed run is needed: substitution has not decided all tensors. Called after the unperturbed run.
  bool wants_more() const;
  // Called after the unperturbed run, before the perturbed run: the next begin() moves the parameters.
  void perturb() { again_ = true; }

  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t) override { ctx_->add_observer(this); }
  void before_update() override {}
  void end_step(const StepResult&, const UpdateRates&, double) override { ctx_->remove_observer(this); }
  void before(const CallInfo& call) override { look(call, false); }
  void after(const CallInfo& call) override { look(call, true); }

  // A short summary of a tensor from which distance() estimates differences: signed sums of its elements in 64 boxes,
  // and its L2 norm.
  struct Sketch {
    std::array<double, 64> sums{};
    double norm = 0;
  };

 private:
  void find_wanted();
  void look(const CallInfo& call, bool output);

  const Dump &a_, &b_;
  Substituted& found_;
  bool again_ = false;
  int rank_ = 0;
  Ctx* ctx_ = nullptr;
  std::set<std::string> wanted_, calls_;    // keys of records, and their calls
  std::map<std::string, Sketch> sketches_;  // of the unperturbed run, by key
};

Spread::Sketch sketch_of(const TensorView& view);
// Returns an estimate of |x - y| / |x|, in L2 norms, for two tensors with these sketches.
double distance(const Spread::Sketch& x, const Spread::Sketch& y);

}  // namespace ravine
