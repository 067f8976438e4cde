// An update rule on what this rank updates of the flat buckets of a GradStore, with global gradient clipping.
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
  // States start at zero. Decay as optimizer.decay says, lr_mult and wd_mult as the parameters say. Before update
  // Param::from_step a parameter is frozen: its gradient counts in no norm, neither it nor its states change; the rule then counts
  // its updates from 1, as torch does for a parameter that an optimizer is given later. `tensor`: how many tensor ranks cut the
  // parameters, and which of them this is. rule: null is the one that the options name. group_size: ranks of the groups of the
  // buckets, and group_rank this one, for rules that send something else than gradients. disk (may be null; must outlive this):
  // where states lie between the updates of their buckets; of a rule that sees the model a UserError.
  Optimizer(const OptimizerOptions& options, GradStore& store, DeviceKind device, int tensor_rank = 0, int tensor_size = 1,
            std::unique_ptr<UpdateRule> rule = nullptr, int group_size = 1, int group_rank = 0, DiskMemory* disk = nullptr);

  // Whether the next update takes gradients as each rank has them; the store must not have summed them then.
  bool wants_unreduced() const { return rule_->wants_unreduced(steps_ + 1); }

  // L2 norm of all gradients of the step, over all ranks, every parameter counted once, independent of order. Of gradients that
  // are not summed: the root mean square of the ranks' norms, each taken as if it had the mean.
  double grad_norm(Ctx& c, const Group& all) const;
  // How many elements of these gradients are 0, of those that this rank answers for.
  int64_t zeros_in_grads() const;

  // One update at these rates; gradients, which are `loss_scale` times what they should be, are divided by it and
  // scaled by min(1, clip / (norm + 1e-6)) if clipping is on; `norm` is that of the divided ones. `before_unit` is called
  // before the parameters of a unit change (a checkpoint may still be writing them).
  void update(Ctx& c, const UpdateRates& rates, double norm, const std::function<void(const Unit&)>& before_unit,
              double loss_scale = 1);

  // The rate that the next update takes of what the schedule says: that, or the rule's own.
  double rate(double scheduled) const { return rule_->own_rate(steps_ + 1).value_or(scheduled); }
  int64_t steps() const { return steps_; }
  // The updates N until which some parameters of these buckets are frozen, ascending: from each on the update needs other memory.
  // last_unfrozen: the last of them that the next update has reached; 0: none.
  const std::vector<int64_t>& unfreezing() const { return unfreezing_; }
  int64_t last_unfrozen() const;
  void set_steps(int64_t n) { steps_ = n; }
  int64_t bytes() const;  // in memory; of states on a disk what is there at once

  const UpdateRule& rule() const { return *rule_; }
  // What the rule keeps of a bucket, as boxes of the states of its parameters: what this rank has, or what of it this rank
  // alone answers for.
  struct StatePiece {
    std::string state;
    const Param* param = nullptr;
    TensorView view;
    Shape global;
    std::vector<int64_t> begin;
  };
  enum class Of : uint8_t { kept, primary };
  std::vector<StatePiece> states(size_t bucket, Of of) const;

  // Ranks that keep buffers of their own between steps (error feedback); 1: no rank does.
  int ranks_with_buffers() const { return rule_->unreduced_from() > 0 ? group_size_ : 1; }
  int group_rank() const { return group_rank_; }
  // Whether they hold different weights and states now (those of StateDeclaration::per_rank).
  bool diverged() const;
  // What this rank keeps for itself of a bucket: "errors" of what it sent, of a rule that sees the model those of all under the
  // name of the first parameter; and the states that differ between ranks.
  std::vector<StatePiece> per_rank_states(size_t bucket) const;

 private:
  // The number of the update among those of the parameter; 0 or less: it is frozen until then.
  static int64_t own_step(const Param& p, int64_t step) { return step - p.policy.from_step + 1; }
  bool frozen_at(size_t bucket, int64_t step) const;  // all of it
  void each_counted_grad(const std::function<void(const TensorView&)>& f) const;
  UpdateSpan span_of(const Param& p, int64_t begin, int64_t count) const;
  void update_elements(Ctx& c, size_t bucket, double lr, double scale);
  void update_items(Ctx& c, size_t bucket, double lr, double scale);
  void update_model(Ctx& c, double lr, double scale);
  // What this rank keeps for itself of items.
  TensorView own(size_t bucket, const SpanItems& items) const;
  // State `s` of items that this rank keeps: its values of them lie side by side.
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
  std::vector<std::vector<Spans>> spans_;      // per bucket, by the update that is their first; of a rule of elements
  std::vector<std::vector<SpanItems>> items_;  // per bucket; of others
  std::vector<std::vector<Storage>> states_;   // by state of the rule, per bucket
  int group_size_, group_rank_;
  DiskMemory* disk_;
  std::vector<Storage> own_;  // per bucket; of a rule that sees the model: one
  int64_t steps_ = 0;
  std::vector<int64_t> unfreezing_;
};

}  // namespace ravine
