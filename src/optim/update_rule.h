// An update rule: how a step changes parameters, and what it keeps of the steps before. One file in rules/ each, and a
// row of config/optimizers.def. What it declares here is all that optimizer, ZeRO, checkpoints, plans and estimates know of it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/ctx.h"

namespace ravine {

// What of a parameter a rule must see to update any of it: single elements, or whole runs of its last dims. A vector is one
// row, and one matrix. A rule that sees the model sees all tensors of this rank at once (UpdateRule::update_all).
enum class Whole : uint8_t { element, row, matrix, tensor, model };

// Something that a rule keeps of every parameter from step to step, zero at first.
struct StateDeclaration {
  // A block is `block` neighbours of a row; the last one of a row may be shorter. A column runs through a matrix.
  enum class Per : uint8_t { element, row, block, column, tensor };
  std::string name;        // as checkpoints call it ("m/PARAMETER")
  Per per = Per::element;  // one value for each of these; a rule must see whole what has one value
  int64_t block = 0;
  std::optional<DType> type;  // none: the master's
  bool per_rank = false;      // ranks of a group may hold different ones from UpdateRule::unreduced_from on; then weights too
  bool (*of)(const Param& p) = nullptr;  // the parameters that have it; null: all. Only of rules that see more than elements
  bool is_of(const Param& p) const { return !of || of(p); }
};

// What the update sees. Of a rule of elements: flat views of what this rank updates of a bucket (Bucket::owned), all of one
// length. Of others: items of one parameter, of the shape {items, dims of an item..}, states in the shapes that they declare of
// such (absent where the parameter has none), one span over all; the optimizer makes the copy.
struct UpdateViews {
  TensorView param, grad, copy;       // copy: 16 bits, absent if there is none
  std::vector<TensorView> states;     // in the order in which the rule names them
  std::span<const UpdateSpan> spans;  // runs of parameters that share rate and decay
  TensorView own;                     // UpdateRule::own_count numbers
  const Group* group = nullptr;       // the ranks whose gradients are summed
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::vector<StateDeclaration> states() const = 0;
  virtual Whole sees() const { return Whole::element; }
  // Step `step` (from 1) at learning rate `lr`; gradients count times grad_scale. What it does to an item may not depend on the
  // others beside it.
  virtual void update(Ctx& c, const UpdateViews& v, int64_t step, double lr, double grad_scale) const = 0;

  // The rate of step `step` where the rule works it out itself, whatever is given to update.
  virtual std::optional<double> own_rate(int64_t /*step*/) const { return {}; }

  // Of rules that see the model: all trained parameters of this rank, in their order; `own` of all their elements together.
  virtual void update_all(Ctx&, std::span<const UpdateViews>, const TensorView& /*own*/, const Group&, int64_t /*step*/,
                          double /*lr*/, double /*grad_scale*/) const {
    fail("optimizer: this rule sees no whole model");
  }

  // Of rules that send something else than gradients (the 1-bit types; parallel.zero 0 and one tensor rank only). Whether step
  // `step` takes gradients as each rank has them, as if they were the mean, in place of their sum over the ranks.
  virtual bool wants_unreduced(int64_t /*step*/) const { return false; }
  // From which step on all are so; 0: none ever is. Such a rule asks for the same memory in every step.
  virtual int64_t unreduced_from() const { return 0; }
  // Numbers of the master's type that a rank keeps for itself of an item of `count` elements (of all, where it sees the model)
  // over so many ranks, zero at first. Checkpoints have those of each rank: a resume on as many goes on with them.
  virtual int64_t own_count(int64_t /*count*/, int /*ranks*/) const { return 0; }
  // Whether ranks may hold different weights between steps.
  bool diverges() const {
    for (const StateDeclaration& s : states())
      if (s.per_rank) return true;
    return false;
  }
};

}  // namespace ravine
