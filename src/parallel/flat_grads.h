// Gradients of flat buckets: accumulators, and sums over leaves and over the ranks of a bucket's group. The ZeRO stage
// decides which elements a rank holds:
//
//   stage   gradients of a step
//   0       all; summed over the group at the end
//   1       all; reduced to the shard at the end
//   2, 3    shard; every micro batch is reduced to it
//
// Gradients are sums over leaves (parallel.sum_leaves). Micro batches of a leaf are added in place, in order. Leaves
// are added in a balanced tree (LeafSums), whose upper levels run over the ranks of the group. A tied parameter has an
// accumulator for each place of use. This accumulator is summed like the accumulator of the owner, and added to it once
// at the end. So bits do not depend on the distribution of leaves over ranks, if the number of leaves of a rank is a
// power of two. Data ranks have alternating micro batches under ZeRO 2 and 3, and neighbouring ones under 0 and 1: both
// give the same tree. If a table is tied between two stages, both stages hold the table. They exchange the sums of
// their places of use, and make the same update.
//
// Experts that data ranks divide (parallel.expert) receive tokens of several ranks at once. The gradients of each
// source rank are summed separately, next to each other in the accumulator. The lowest levels of the same tree join
// them. The rest is reduced over the ranks that have the same experts. So these gradients need the memory of undivided
// experts.
//
// Gradients of 16 bits (precision.gradients) are rounded at each addition. A kernel adds once per micro batch, the loss
// head once per chunk of tokens. Each sum of two tensors rounds, too.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "engine/ctx.h"
#include "engine/ops/collectives.h"
#include "parallel/flat_table.h"
#include "parallel/leaf_sums.h"

namespace ravine {

// The gradients of a training step in flat buckets: accumulates them, and sums them over leaves and ranks.
class FlatGrads : public GradStore {
 public:
  explicit FlatGrads(std::shared_ptr<const FlatTable> table);

  // Announces the next backward pass: `last` is true if its micro batch is the last one of its leaf, `last_of_step` if
  // it is the last one of the step. In the last micro batch, finished units are reduced while earlier units are
  // computed. If it is never called, the whole step is one leaf, reduced at its end.
  void end_leaf(bool last, bool last_of_step) { leaf_ends_ = last, step_ends_ = last_of_step; }
  // Waits for the reductions of gradients between ranks that are in flight. Called after each backward pass.
  void wait_reduced(Ctx& c);
  // Turns on sums of squares of each rank's own gradients, from the next step on. `to`: one sum per Param::index, to
  // which finish_grads adds; null turns this off. The caller owns and clears `to`. The gradient is the sum over this
  // rank's micro batches, before reduction over the group. Under ZeRO 2 and 3 no such gradient exists: there the square
  // is of the finished shard of this rank. Gradients are then reduced only at the end of the step.
  void record_unreduced(std::vector<ExactSum>* to) { local_ = to; }

  // Sets if gradients stay unreduced: if on, they are not summed over the ranks of their group, from the next backward
  // pass on. Allowed under ZeRO 0 and 1.
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

  // Returns the finished gradient of a parameter, if this rank owns all of it.
  TensorView grad(const Param& p) const;
  bool in_flight() const { return !moving_.empty(); }
  // Returns the parameters whose gradients are in the elements of `view`.
  std::vector<const Param*> grads_in(const TensorView& view) const;

 private:
  // The buffer to which the blocks of a unit add gradients: one per trainable bucket, and one per tied place of use.
  struct Accumulator {
    size_t bucket = 0;
    const Param* tied = nullptr;  // null: the accumulator of the bucket itself
    const Unit* unit = nullptr;   // the unit whose backward adds to it; null: the owner is on another stage
    int64_t sources = 1;          // number of ranks whose tokens the parameters receive
    Tensor leaf;                  // the current leaf: the whole bucket, for each source
    Tensor leaf_sum;              // the current leaf if every micro batch is reduced: the shard of this rank
    LeafSums leaves;
    bool reduced = false;  // reduced over the group, or in flight
    Tensor sum;            // after finish_grads: the bucket, or the shard if reduced early
  };
  // For a parameter or a tied place of use: its accumulator, and if a gradient was written to it.
  struct Target {
    bool wanted = false;
    size_t accumulator = 0;
    bool written = false, ever = false;  // written: since the buffer was opened; ever: in this step
  };
  // A reduction of gradients over the ranks of a group that is in flight.
  struct Moving {
    size_t accumulator;
    Tensor from, to;  // input, and output (in place, or the shard of this rank)
    bool leaf_ends;   // used if every micro batch is reduced
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
  std::deque<Moving> moving_;  // in order of their start
  std::vector<Accumulator> accumulators_;
  std::vector<int> own_;         // by bucket: its own accumulator; kNone if frozen
  std::vector<int> partner_;     // by bucket: the stage that has the other accumulator of a tied parameter
  std::vector<Target> targets_;  // by Param::index
};

}  // namespace ravine
