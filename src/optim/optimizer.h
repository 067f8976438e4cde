// Applies an update rule to this rank's part of the flat buckets of a GradStore, with global gradient clipping.
#pragma once
#include <functional>
#include <vector>

#include "config/config.h"
#include "engine/ctx.h"
#include "files/disk_memory.h"
#include "optim/schedule.h"
#include "optim/state_layout.h"

namespace ravine {

class Optimizer {
 public:
  // States start at zero. Weight decay follows optimizer.decay; lr_mult and wd_mult are the parameters'. Before update
  // Param::from_step a parameter is frozen: its gradient is in no norm, and it and its states do not change. Afterwards
  // the rule counts its updates from 1, like torch for a parameter that is added to an optimizer later. `tensor_rank`,
  // `tensor_size`: this tensor rank, and the number of tensor ranks that split the parameters. `rule`: null is the rule
  // of the options. `group_size`, `group_rank`: ranks of the groups of the buckets, and this one, for rules that send
  // other data than gradients. `disk` (may be null; must outlive this object) holds the states between the updates of
  // their buckets; a UserError for a rule that sees the model.
  Optimizer(const OptimizerOptions& options, GradStore& store, DeviceKind device, int tensor_rank = 0, int tensor_size = 1,
            std::unique_ptr<UpdateRule> rule = nullptr, int group_size = 1, int group_rank = 0, DiskMemory* disk = nullptr);

  // True if the next update uses each rank's own gradients; the store must then not have summed them.
  bool wants_unreduced() const { return rule_->wants_unreduced(steps_ + 1); }

  // Returns the L2 norm of all gradients of the step over all ranks. Every parameter is counted once; the result does
  // not depend on order. All ranks call it together. For gradients that are not summed it is the root mean square over
  // N ranks of N |g|. Each rank's gradient g is used as the mean.
  double grad_norm(Ctx& c, const Group& all) const;
  // Returns the number of gradient elements that equal 0. All elements are counted once over all ranks; this rank
  // counts its own part.
  int64_t zeros_in_grads() const;

  // Does one update at these learning rates. Gradients are divided by `loss_scale`, and multiplied by min(1, clip /
  // (norm + 1e-6)) if clipping is on; `norm` is the norm of the divided gradients. `before_unit` is called before the
  // parameters of a unit change (a checkpoint may still be writing them).
  void update(Ctx& c, const UpdateRates& rates, double norm, const std::function<void(const Unit&)>& before_unit,
              double loss_scale = 1);

  // Returns the learning rate of the next update: `scheduled`, unless the rule computes its own.
  double rate(double scheduled) const { return rule_->own_rate(steps_ + 1).value_or(scheduled); }
  int64_t steps() const { return steps_; }
  // The updates N before which some parameters of these buckets are frozen, ascending; from each N on an update needs
  // other memory. last_unfrozen() is the last N that the next update has reached; 0: none.
  const std::vector<int64_t>& unfreezing() const { return unfreezing_; }
  int64_t last_unfrozen() const;
  void set_steps(int64_t n) { steps_ = n; }
  int64_t bytes() const;  // in memory; for states on disk, the most that is in memory at once

  const UpdateRule& rule() const { return *rule_; }
  // A box of the state of a parameter: `view` has the values on this rank, which begin at `begin` in the state of shape
  // `global`.
  struct StatePiece {
    std::string state;
    const Param* param = nullptr;
    TensorView view;
    Shape global;
    std::vector<int64_t> begin;
  };
  // The states that states() returns. kept: all states that this rank holds. primary: only the part that this rank
  // saves in checkpoints, so that all ranks together save each value once.
  enum class Of : uint8_t { kept, primary };
  std::vector<StatePiece> states(size_t bucket, Of of) const;

  // Returns the number of ranks that keep private buffers between steps (error feedback); 1: no rank keeps one.
  int ranks_with_buffers() const { return rule_->unreduced_from() > 0 ? group_size_ : 1; }
  int group_rank() const { return group_rank_; }
  // True if the ranks of the groups hold different weights and states now (states with StateDeclaration::per_rank).
  bool diverged() const;
  // Returns this rank's private data of a bucket: "errors" of sent data, and the states that differ between ranks. For
  // a rule that sees the model, the errors of all parameters have the name of the first one.
  std::vector<StatePiece> per_rank_states(size_t bucket) const;

 private:
  // Returns the number of the update for this parameter; 0 or less while it is frozen.
  static int64_t own_step(const Param& p, int64_t step) { return step - p.policy.from_step + 1; }
  bool frozen_at(size_t bucket, int64_t step) const;  // all parameters are frozen
  void each_counted_grad(const std::function<void(const TensorView&)>& f) const;
  UpdateSpan span_of(const Param& p, int64_t begin, int64_t count) const;
  void update_elements(Ctx& c, size_t bucket, double lr, double scale);
  void update_items(Ctx& c, size_t bucket, double lr, double scale);
  void update_model(Ctx& c, double lr, double scale);
  // Returns this rank's private numbers of items (UpdateRule::own_count).
  TensorView own(size_t bucket, const SpanItems& items) const;
  // Returns this rank's values of state `s` for items, which are contiguous.
  TensorView kept(size_t bucket, size_t s, const SpanItems& items) const;

  OptimizerOptions options_;
  GradStore& store_;
  int tensor_rank_, tensor_size_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<StateDeclaration> declared_;
  struct Spans {
    int64_t from_step;
    std::vector<UpdateSpan> spans;
  };
  // For a rule of elements: the spans of each bucket, by the first update of their parameters.
  std::vector<std::vector<Spans>> spans_;
  std::vector<std::vector<SpanItems>> items_;  // per bucket; for other rules
  std::vector<std::vector<Storage>> states_;   // by state of the rule, then by bucket
  int group_size_, group_rank_;
  DiskMemory* disk_;
  std::vector<Storage> own_;  // per bucket; for a rule that sees the model: one
  int64_t steps_ = 0;
  std::vector<int64_t> unfreezing_;
};

}  // namespace ravine
