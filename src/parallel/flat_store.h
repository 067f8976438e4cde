// ParamStore of training: parameters in flat buckets, spread over data ranks as the ZeRO stage says (Rajbhandari et al. 2020). One rank is the
// case in which everything is here.
//
//   stage   masters        16-bit copies   moments   gradients of a step
//   0       all            all             all       all; summed over data ranks at the end
//   1       all or part*   all             part      all; reduced to the part at the end
//   2       all or part*   all             part      part; every micro batch is reduced to it
//   3       part           part            part      part; values are gathered around each block
//   * a part where kernels read copies only; f32 runs compute with the masters.
//
// Gradients are sums over leaves (parallel.sum_leaves): micro batches of a leaf add up in place, in order; leaves are the leaves of a
// balanced tree, neighbours first, whose upper levels run over data ranks. A tied parameter has an accumulator of its own per place of
// use, summed like the owner's and added to it once at the end. So bits do not depend on how leaves lie on ranks, as long as those of a
// rank are a power of two.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "comm/ranks.h"
#include "engine/ctx.h"
#include "engine/ops/collectives.h"
#include "parallel/flat.h"

namespace ravine {

struct FlatLayout {
  std::vector<int> stages;       // pipeline stage of each unit, by Unit::index; empty: all are here
  int zero = 0;
  int64_t whole_below = 0;       // buckets of fewer elements are not divided
  bool sequence = false;         // gradients of parameters that are not cut are of a part of the tokens on each tensor rank
  const Ranks* ranks = nullptr;  // null: alone; must outlive the store
};

class FlatStore : public ParamStore {
 public:
  // Buffers for the parameters of this rank's stage, zero. 16-bit compute keeps a copy of what products read. A stage that uses a tied
  // parameter of another holds it too, and both update it alike. The set is kept by reference.
  FlatStore(ParamSet& params, const Types& types, DeviceKind device, const FlatLayout& layout = {});
  ~FlatStore() override;

  // Whose arena holds gathered values (stage 3), and who computes. To be set before units are acquired if values are gathered.
  void attach(Ctx& c) { ctx_ = &c; }

  void prefetch(const Unit& unit) override;
  void acquire(const Unit& unit) override;
  void release(const Unit& unit) override;
  void progress() override;
  TensorView value(const Param& p) const override;
  Shape shape(const Param& p) const override { return at(p).shape; }
  TensorView master(const Param& p) const override;
  std::vector<ParamBox> boxes() const override;

  // Says that the backward that comes next is of the last micro batch of its leaf, and of the step: then gradients of a unit are on their way to the
  // other data ranks while the units before it are computed. Without it all of a step is one leaf, reduced at its end.
  void end_leaf(bool last, bool last_of_step) { leaf_ends_ = last, step_ends_ = last_of_step; }
  // Waits for the gradients that are on their way. After each backward.
  void settle(Ctx& c);
  // From the next step on finish_grads adds to `to` (one sum per Param::index, of the caller, who clears it) the squares of each parameter's gradient as it is
  // on this rank: of its micro batches, before data ranks add theirs. Where data ranks keep only their part of gradients (stages 2, 3) there is no such gradient:
  // there it is the finished one of the part that this rank updates. Null: no more. Gradients then wait for the end of the step before they are sent.
  void watch_local(std::vector<ExactSum>* to) { local_ = to; }
  void open_grads(Ctx& c, const Unit& unit) override;
  void close_grads(Ctx& c, const Unit& unit) override;
  TensorView add_to_grad(const Param& p, bool& accumulate) override;
  bool has_grad(const Param& p) const override;
  void finish_grads(Ctx& c) override;
  void end_step() override;
  void publish(Ctx& c, size_t bucket) override;
  std::vector<const Param*> params_in(const TensorView& view) const override;

  const std::vector<Bucket>& buckets() const override { return buckets_; }
  TensorView flat_master(size_t bucket) const override;
  TensorView flat_copy(size_t bucket) const override;
  TensorView flat_grad(size_t bucket) const override;

  // What this rank holds of a bucket's masters, and the view of it: to fill, from weights or a checkpoint.
  Range held(size_t bucket) const;
  TensorView held_master(size_t bucket) const;
  const FlatPlace& place() const { return place_; }
  // Whether every parameter is here, whole, in one place: then master(p) may be used without asking other ranks.
  bool all_here() const;
  // The finished gradient of a parameter, where it is here whole.
  TensorView grad(const Param& p) const;
  // After the masters were filled: makes the 16-bit copies again. All ranks call it.
  void refresh_copies(Ctx& c);
  int64_t weight_bytes() const;  // masters and copies

 private:
  struct Held {
    Storage master, copy;
    bool divided = false, master_whole = true, copy_whole = true, reads_master = true;
    // While acquired or on its way, under stage 3.
    Tensor full_master, full_copy;
    Pending coming_master, coming_copy;
    int leases = 0;
    int own = -1;        // place of its gradients; -1: frozen
    int other_stage = -1;  // where the other accumulator of a tied parameter is; -1: nowhere
  };
  // Where a unit's blocks add gradients: one per trainable bucket, and one per tied place of use.
  struct Place {
    size_t bucket = 0;
    const Param* tied = nullptr;    // null: the bucket's own
    const Unit* unit = nullptr;     // whose backward adds to it
    Tensor open;                    // of the leaf under way: the whole bucket
    Tensor part;                    // of the leaf under way under stages 2 and 3: this rank's part
    std::vector<Tensor> finished;   // of leaves before, as a binary counter
    int64_t leaves = 0;
    bool reduced = false;           // over data ranks, or on its way
    Tensor sum;                     // after finish_grads: of the bucket, or of the part if reduced early
  };
  struct ParamPlace {
    size_t bucket = 0, grads = 0;   // grads: index in places_
    int64_t begin = 0;
    Shape shape;
    bool here = false, has_grads = false;
    bool written = false, ever = false;  // gradient, since the buffer was opened; in this step
  };
  const ParamPlace& at(const Param& p) const;
  TensorView view(const Param& p, bool wants_master) const;
  bool reduces_early() const { return zero_ >= 2 && ranks_->along(Axis::data).size() > 1; }
  void declare(const std::vector<int>& stages);
  void gather(size_t bucket);
  void clear_unwritten(Ctx& c, Place& g);
  void add_leaf(Ctx& c, Place& g, Tensor t);
  void sum_leaves(Ctx& c, Place& g);
  bool sum_here(Ctx& c, Place& g);
  void reduce(Ctx& c, Place& g);
  void note_local(Ctx& c);
  void finish_reduction(Ctx& c, Place& g, Tensor sum, bool leaf_ends);
  void advance(Ctx& c, size_t count);
  void add_tied(Ctx& c);
  TensorView sum_view(const Place& g) const;  // what is mine of it

  ParamSet& params_;
  Types types_;
  DeviceKind device_;
  Ranks alone_;
  const Ranks* ranks_;
  int zero_;
  bool sequence_;
  FlatPlace place_;
  Ctx* ctx_ = nullptr;
  bool leaf_ends_ = false, step_ends_ = false;
  std::vector<ExactSum>* local_ = nullptr;
  // Sums over data ranks that are under way, in the order in which they began.
  struct Moving {
    size_t place;
    Tensor from, to;      // what is handed over, and what comes of it: itself, or this rank's part
    bool leaf_ends;       // stages 2 and 3
    Reduction reduction;
  };
  std::deque<Moving> moving_;
  std::vector<Bucket> buckets_;
  std::vector<Held> held_;
  std::vector<Place> places_;
  std::vector<ParamPlace> at_;                    // by Param::index
  std::vector<std::vector<size_t>> reads_;        // by Unit::index: buckets whose values its blocks read
};

// Draws every parameter as declared: element i of a normal one from Philox keyed by (seed, name) at counter i, so layouts agree.
void initialise(const ParamSet& params, ParamStore& store, uint64_t seed);  // of a store that holds everything whole
void initialise(FlatStore& store, uint64_t seed);                           // what this rank holds

}  // namespace ravine
