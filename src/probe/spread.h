// Perturbation: how far rounding alone may move what a run computes, found by making its steps once more with every parameter
// moved up or down by a unit in the last place (TTrace, arXiv 2506.09280). For what no bound of a kernel tells: calls of another
// program of which not all that they read is recorded, and what calls have made that the other dump lacks.
//
// The unit is that of the coarsest type that either dump has. Up or down: by a hash of the parameter's name and
// the element's number, so that the same elements move on any rank and every time.
//
// Of each tensor a sketch is kept (sums of its elements, with signs, in 64 boxes: |x - y| follows from two of them to within a
// tenth or so), not the tensor.
//
// The bound counts up to the first culprit, since no rounding has made what comes behind it. It is kOfSpread times the spread. Both runs round (sqrt 2), at every call and not at parameters alone (about four calls
// for each parameter: 2); the norm of a tensor of few elements, one draw, may be a third of its size. That is 8.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>

#include "engine/observer.h"
#include "probe/substitution.h"
#include "train/step_watch.h"

namespace ravine {

inline constexpr double kOfSpread = 8;

// w (1 + s epsilon), s = 1 or -1, of all that the run reads as parameters but blocks of 4 bits.
void move_parameters(WeightSource& store, DType unit);

class Spread : public StepWatch, public Observer {
 public:
  Spread(const Dump& a, const Dump& b, Substituted& found);
  // Once the run has been made as it was: whether something is left that substitution has not decided.
  bool wants_more() const;
  // The run is made again, with other parameters: watch it once more.
  void perturb() { again_ = true; }

  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t) override { ctx_->add_observer(this); }
  void before_update() override {}
  void end_step(const StepResult&, const UpdateRates&, double) override { ctx_->remove_observer(this); }
  void before(const CallInfo& call) override { look(call, false); }
  void after(const CallInfo& call) override { look(call, true); }

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
  std::set<std::string> wanted_, calls_;    // keys of records, and the calls that have such
  std::map<std::string, Sketch> sketches_;  // of the run as it was, by key
};

Spread::Sketch sketch_of(const TensorView& view);
double distance(const Spread::Sketch& x, const Spread::Sketch& y);  // about |x - y| / |x|

}  // namespace ravine
