// Interface of update rules: how a step changes parameters, and the states it keeps between steps. Each rule has a file
// in rules/ and a row in config/optimizers.def. Optimizer, ZeRO, checkpoints, plans and estimates know only what a rule
// declares here.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/ctx.h"

namespace ravine {

// The part of a parameter that a rule must see whole to update any of it: single elements, or its last dims. A vector
// is one row, and one matrix. A rule with `model` sees all tensors of this rank at once (UpdateRule::update_all).
enum class Whole : uint8_t { element, row, matrix, tensor, model };

// A state that a rule keeps for every parameter between steps; initially zero.
struct StateDeclaration {
  // The part of a parameter that shares one value of the state. A block is `block` consecutive elements of a row; the
  // last one of a row may be shorter. A column runs through a matrix.
  enum class Per : uint8_t { element, row, block, column, tensor };
  std::string name;           // name in checkpoints ("m/PARAMETER")
  Per per = Per::element;     // the state has one value for each of these, and the rule sees all of it (Whole)
  int64_t block = 0;          // elements of a block, for Per::block
  std::optional<DType> type;  // type of the values; none: the type of the master
  // True if the values may differ between ranks of a group from step UpdateRule::unreduced_from() on; then the weights
  // may differ too.
  bool per_rank = false;
  // A function that is true for the parameters that have the state; null: all have it. Only for rules that see more
  // than elements.
  bool (*of)(const Param& p) = nullptr;
  bool is_of(const Param& p) const { return !of || of(p); }
};

// The tensors of an update, made by the optimizer for UpdateRule::update. For a rule of elements: flat views of this
// rank's part of a bucket (Bucket::owned), all of one length. For other rules: items of one parameter, of shape {items,
// dims of an item..}, with one span over all; the optimizer makes the copy. States then have their declared shapes for
// it, and are absent if the parameter lacks them.
struct UpdateViews {
  TensorView param, grad, copy;       // copy: the weights in 16 bits, absent if there are none
  std::vector<TensorView> states;     // in the order of UpdateRule::states()
  std::span<const UpdateSpan> spans;  // runs of parameters with equal lr_mult and weight decay
  TensorView own;                     // UpdateRule::own_count numbers of this rank
  const Group* group = nullptr;       // ranks whose gradients are summed
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::vector<StateDeclaration> states() const = 0;
  virtual Whole sees() const { return Whole::element; }
  // Does update `step` (from 1) at learning rate `lr`: changes the parameters and the states. Gradients are multiplied
  // by grad_scale. The result for an item must not depend on other items.
  virtual void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const = 0;

  // Returns the learning rate of a step if the rule computes it itself and ignores `lr`; nothing if the rule uses `lr`.
  virtual std::optional<double> own_rate(int64_t /*step*/) const { return {}; }

  // Updates all trained parameters of this rank, in their order; for rules that see the model. `own` has numbers for
  // all their elements together.
  virtual void update_all(Ctx&, std::span<const UpdateViews>, const TensorView& /*own*/, const Group&, int64_t /*step*/,
                          double /*lr*/, double /*grad_scale*/) const {
    fail("optimizer: this rule sees no whole model");
  }

  // True if step `step` uses each rank's own gradient as if it were the mean, instead of the sum over the ranks. Only
  // for rules that send other data than gradients (the 1-bit types; parallel.zero 0 and one tensor rank only).
  virtual bool wants_unreduced(int64_t /*step*/) const { return false; }
  // Returns the first step from which all steps use each rank's own gradient (wants_unreduced); 0: no step does. A rule
  // with such steps allocates the same memory in every step.
  virtual int64_t unreduced_from() const { return 0; }
  // Returns the count of numbers (of the master's type, initially zero) that a rank keeps for an item of `count`
  // elements, with `ranks` ranks; for a rule that sees the model, `count` is of all elements. Checkpoints store the
  // numbers of each rank; a resume with as many ranks restores them.
  virtual int64_t own_count(int64_t /*count*/, int /*ranks*/) const { return 0; }
  // True if ranks may hold different weights between steps.
  bool diverges() const {
    for (const StateDeclaration& s : states())
      if (s.per_rank) return true;
    return false;
  }
};

}  // namespace ravine
