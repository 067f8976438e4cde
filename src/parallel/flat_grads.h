// Gradients of flat buckets: accumulators, sums over leaves and over the ranks of a bucket's group. What a rank has of them
// under ZeRO:
//
//   stage   gradients of a step
//   0       all; summed over the group at the end
//   1       all; reduced to the shard at the end
//   2, 3    shard; every micro batch is reduced to it
//
// Gradients are sums over leaves (parallel.sum_leaves): micro batches of a leaf add up in place, in order; leaves are the
// leaves of a balanced tree (LeafSums), whose upper levels run over the ranks of the group. A tied parameter has an accumulator
// of its own per place of use, summed like the owner's and added to it once at the end. So bits do not depend on how leaves lie
// on ranks, as long as those of a rank are a power of two. Under ZeRO 2 and 3 data ranks take micro batches in turns, under 0 and
// 1 neighbours: both are the same tree. Of tied tables on two stages both hold the table, exchange the sums of their places of
// use, and update alike.
//
// Experts that data ranks divide (parallel.expert) meet tokens of several of these at once. Gradients of the tokens of each are
// added up by themselves, side by side in the accumulator, and joined by the lowest levels of the same tree; what remains goes
// over the ranks that have the same experts. So memory of these gradients is that of experts that are not divided.
//
// Gradients of 16 bits (precision.gradients) are rounded by whatever adds to them: a kernel, once per micro batch (the loss
// head once per chunk of tokens), and each sum of two.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "engine/ctx.h"
#include "engine/ops/collectives.h"
#include "parallel/flat_table.h"
#include "parallel/leaf_sums.h"

namespace ravine {

class FlatGrads : public GradStore {
 public:
  explicit FlatGrads(std::shared_ptr<const FlatTable> table);

  // Says that the backward that comes next is of the last micro batch of its leaf, and of the step: then gradients of a unit
  // are on their way to the other ranks while the units before it are computed. Without it all of a step is one leaf, reduced
  // at its end.
  void end_leaf(bool last, bool last_of_step) { leaf_ends_ = last, step_ends_ = last_of_step; }
  // Waits for the gradients that are on their way. After each backward.
  void wait_reduced(Ctx& c);
  // From the next step on finish_grads adds to `to` (one sum per Param::index, of the caller, who clears it) the squares of
  // each parameter's gradient as it is on this rank: of its micro batches, before the ranks of its group add theirs. Where
  // these keep only their shard of gradients (stages 2, 3) there is no such gradient: there it is the finished one of what this
  // rank owns. Null: no more. Gradients then wait for the end of the step before they are sent.
  void watch_unreduced(std::vector<ExactSum>* to) { local_ = to; }

  // From the next backward on gradients stay what this rank has found, not summed over the ranks of their group (of stages
  // 0 and 1).
  void keep_unreduced(bool on) { keep_local_ = on; }

  void open_grads(Ctx& c, const Unit& unit) override;
  void close_grads(Ctx& c, const Unit& unit) override;
  TensorView add_to_grad(const Param& p, bool& accumulate) override;
  TensorView grad_of_source(const Param& p, const TensorView& first, int source) override;
  bool has_grad(const Param& p) const override { return targets_[p.index].ever; }
  void finish_grads(Ctx& c) override;
  void end_step() override;
  const std::vector<Bucket>& buckets() const override { return table_->buckets; }
  TensorView owned_grad(size_t bucket) const override;

  // The finished gradient of a parameter, where all of it is owned.
  TensorView grad(const Param& p) const;
  bool under_way() const { return !moving_.empty(); }
  // The parameters whose gradients lie in these elements.
  std::vector<const Param*> grads_in(const TensorView& view) const;

 private:
  // Where a unit's blocks add gradients: one per trainable bucket, and one per tied place of use.
  struct Accumulator {
    size_t bucket = 0;
    const Param* tied = nullptr;  // null: the bucket's own
    const Unit* unit = nullptr;   // whose backward adds to it; null: of an owner on another stage, which nobody writes to
    int64_t sources = 1;          // ranks whose tokens its parameters meet
    Tensor leaf;                  // of the leaf under way: the whole bucket, for each source
    Tensor leaf_sum;              // of the leaf under way where every micro batch is reduced: this rank's shard
    LeafSums leaves;
    bool reduced = false;  // over the group, or on its way
    Tensor sum;            // after finish_grads: of the bucket, or of the shard if reduced early
  };
  // Where the gradient of a parameter, or of a tied place of use, goes.
  struct Target {
    bool wanted = false;
    size_t accumulator = 0;
    bool written = false, ever = false;  // since the buffer was opened; in this step
  };
  // A sum over a group that is under way.
  struct Moving {
    size_t accumulator;
    Tensor from, to;  // what is handed over, and what comes of it: itself, or this rank's shard
    bool leaf_ends;   // where every micro batch is reduced
    Reduction reduction;
  };
  static constexpr int kNone = -1;
  const Bucket& bucket_of(const Accumulator& a) const { return table_->buckets[a.bucket]; }
  Accumulator& own(size_t bucket) { return accumulators_[static_cast<size_t>(own_[bucket])]; }
  Tensor empty(Ctx& c, const Accumulator& a, int64_t count, MemoryKind kind = MemoryKind::gradients) const {
    return c.empty({count}, bucket_of(a).grad_type, kind);
  }
  void clear_unwritten(Ctx& c, Accumulator& a);
  Tensor join_sources(Ctx& c, const Accumulator& a, Tensor sums) const;
  void end_leaf_of(Ctx& c, Accumulator& a);
  bool sum_leaves(Ctx& c, Accumulator& a);
  void reduce(Ctx& c, Accumulator& a);
  void note_local(Ctx& c, bool early);
  void add_micro(Ctx& c, Accumulator& a, Tensor micro, bool leaf_ends);
  void advance(Ctx& c, size_t count);
  void add_tied(Ctx& c);
  TensorView owned_sum(const Accumulator& a) const;

  std::shared_ptr<const FlatTable> table_;
  bool leaf_ends_ = false, step_ends_ = false;
  bool keep_local_ = false;
  std::vector<ExactSum>* local_ = nullptr;
  std::deque<Moving> moving_;  // in the order in which they began
  std::vector<Accumulator> accumulators_;
  std::vector<int> own_;         // by bucket: its own accumulator
  std::vector<int> partner_;     // by bucket: the stage where the other accumulator of a tied parameter is
  std::vector<Target> targets_;  // by Param::index
};

}  // namespace ravine
