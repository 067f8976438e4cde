// One optimizer step of one rank: micro batches forward and backward as the schedule of its stage says, gradients finished,
// clipped, applied. And its memory, known before a byte is allocated: the same code runs once on the meta device.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/config.h"
#include "data/loader.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "parallel/flat_store.h"
#include "parallel/stage.h"
#include "step/experts.h"
#include "step/memory_phases.h"

namespace ravine {

// A micro batch of the loader as the model reads it. Views point into `micro`, which must stay.
class ModelBatch {
 public:
  // loss (may be null) must stay too.
  // micro_scale: as in Batch.
  ModelBatch(const MicroBatch& micro, double grad_scale, int64_t step, const SequenceLoss* loss = nullptr,
             double micro_scale = 0);
  const Batch& batch() const { return batch_; }

 private:
  Batch batch_;
  std::vector<int64_t> sequences_;
  std::vector<int32_t> places_;
};

// What a run keeps in memory, by kind, in bytes.
struct RunMemory {
  int64_t weights = 0, optimizer = 0;  // outside the arena; of what lies on a disk what is in memory at once
  int64_t disk = 0;                    // in a file of offload.path: no memory
  MemoryPlan arena;                    // gradients, activations, workspace
  std::vector<MemoryPhase> phases;     // of the arena, while the step goes on
  int64_t base = 0;                    // the program itself and what it holds at the time of planning (tokens, tables)
  int64_t batches = 0;                 // what the loader holds ready, the one it makes and the one in use (data/loader.h)
  int64_t total() const { return base + batches + weights + optimizer + arena.total; }
};

// Bytes that a rank hands to others in a step, by axis, as its groups count them (comm/group.h). data: also what ranks with the
// same experts hand each other. expert: rows for the experts of other ranks; of a plan at even load (engine/ops/expert_ranks.h).
struct Communication {
  int64_t data = 0, tensor = 0, pipeline = 0, expert = 0;
  int64_t all() const { return data + tensor + pipeline + expert; }
  friend Communication operator+(const Communication& a, const Communication& b) {
    return {a.data + b.data, a.tensor + b.tensor, a.pipeline + b.pipeline, a.expert + b.expert};
  }
  friend Communication operator-(const Communication& a, const Communication& b) {
    return {a.data - b.data, a.tensor - b.tensor, a.pipeline - b.pipeline, a.expert - b.expert};
  }
};
Communication communication_of(const Ranks& ranks);  // all that was handed over so far

struct StepShape {
  int64_t rows = 1, columns = 1, micro_batches = 1;  // of one micro batch; of one step of this rank
  bool validation = false;
  int64_t leaves = 1;  // of this rank; divides micro_batches
};

enum class Verdict { apply, skip, stop };  // update; go on without an update; end the run without one

// Seconds of this rank. Gradients that go to other data ranks while the last micro batch is computed count as backward.
struct MicroTimes {
  double forward = 0, backward = 0;
};
struct StepTimes {
  std::vector<MicroTimes> micro;  // by micro batch of this rank
  double reduce = 0, update = 0;  // the rest of the sum of gradients; norm, decision and update
};

struct StepResult {
  double loss = 0, grad_norm = 0;                           // mean loss as train.loss_average says; norm before clipping.
                                                            // micro: a micro batch without labels is one of them, of mean 0
  int64_t tokens = 0, valid = 0;                            // columns fed; labels, or pairs, counted
  Verdict verdict = Verdict::apply;                         // what was decided of it
  std::optional<int64_t> gradient_zeros;                    // of log.figures
  std::vector<std::pair<std::string, double>> preferences;  // of train.objective=dpo, by name (step/preference.h)
  RouterReport routers;
  StepTimes times;
};  // of all ranks, but times: every rank gets the same

// Between the norm of the gradients and the update stands one decision, taken from sums over all ranks, so all ranks take the
// same one.
using Decide = std::function<Verdict(double loss, double grad_norm)>;
Verdict stop_unless_finite(double loss, double grad_norm);

// Everything that computes. Not movable: parts refer to each other.
class StepEngine {
 public:
  // Plans memory on meta; allocates nothing yet. `watch` (optional) sees the kernel calls of its step. ranks (must outlive
  // this): null is one alone; fake ones give the plan of a layout that is not there.
  StepEngine(Model& model, const Config& config, const Types& types, Kernels kernels, const StepShape& shape,
             Observer* watch = nullptr, const Ranks* ranks = nullptr);
  ~StepEngine();

  const RunMemory& memory() const { return memory_; }
  // Of a step, counted on groups that are not there while the step ran on meta.
  const Communication& communication() const { return communication_; }
  const StepShape& shape() const { return shape_; }
  const Recipe& recipe() const { return recipe_; }  // after planning it knows which of its rules matched a call
  // Allocates weights, moments and the arena.
  void allocate();

  // Runs the step: loss and gradients of every micro batch, their norm, then what `decide` says of these; by default the
  // update, unless one of them is not finite. Its rates are `rates`; `before_unit`: see Optimizer. A step that is not
  // applied leaves weights, moments and the count of updates alone. Backward works out loss_scale times the gradients; norms
  // and the update are those of the gradients themselves.
  StepResult run(const std::vector<MicroBatch>& micros, int64_t step, const UpdateRates& rates,
                 const std::function<void(const Unit&)>& before_unit = {}, const Decide& decide = stop_unless_finite,
                 double loss_scale = 1);
  // Sum of losses and number of labels (or pairs) of a batch, forward only; its other sums are in ctx().step_sums() until the next
  // step. All ranks of a model call it together; the sum over them is that of the batch.
  std::pair<ExactSum, int64_t> evaluate(const MicroBatch& micro);
  // The log-probability of the answer of each segment, forward only; empty but on the last pipeline stage, whose tensor ranks
  // have the same. All ranks of a model call it together.
  std::vector<double> answer_log_probs(const MicroBatch& micro);

  // Between steps: the memory that activations and gradients had goes back to the system until it is used again.
  void rest() { arena_->forget(); }

  // Whether the config asks for what the gradients of parameters come to on this rank alone (FlatGrads::watch_unreduced), and the
  // sum of squares of one's in the last step.
  static bool wants_unreduced(const Config& c) {
    return !c.log.local_norms.empty() || c.health.embedding_norm > 0 || watches_norms(c.log);
  }
  bool has_unreduced() const { return !unreduced_squares_.empty(); }
  double unreduced_squares(const Param& p) const { return unreduced_squares_[p.index].value() / (loss_scale_ * loss_scale_); }

  FlatStore& store() { return *store_; }
  const Ranks& ranks() const { return *ranks_; }
  std::vector<int> stages() const { return stages_of_units(model_, parts_, ranks_->mesh().pipeline); }  // by Unit::index
  Optimizer& optimizer() { return *optimizer_; }
  Ctx& ctx() { return *ctx_; }
  Model& model() { return model_; }

 private:
  // The parts that a run on meta and a real one have of their own.
  struct Parts {
    Ctx& c;
    FlatStore& store;
    Optimizer& optimizer;
    Stage& stage;
    const Ranks& ranks;
    std::vector<Communication>* sent = nullptr;  // by micro batch of this rank, added to
    std::vector<MicroTimes> times{};             // filled in by run_micros
  };
  StepResult run_with(Parts parts, const std::vector<MicroBatch>& micros, int64_t step, const UpdateRates& rates,
                      const std::function<void(const Unit&)>& before_unit, const Decide& decide, double loss_scale);
  void run_micros(Parts& parts, const std::vector<MicroBatch>& micros, const std::vector<double>& grad_scales, int64_t step,
                  double micro_scale);
  void run_forward(const MicroBatch& micro, const SequenceLoss* loss);
  std::unique_ptr<SequenceLoss> sequence_loss(const MicroBatch& micro) const;  // null: the sum over labels
  FlatLayout layout(const Ranks& ranks, DiskMemory& disk) const;
  DiskMemory* disk_of_states(DiskMemory& disk) const;  // null: they lie in memory
  Ctx::Setup setup(Arena& arena, FlatStore& store, const Kernels& kernels, const Ranks& ranks);

  Model& model_;
  const Config& config_;
  Types types_;
  Kernels kernels_;
  Recipe recipe_;
  StepShape shape_;
  RunMemory memory_;
  Communication communication_;
  std::unique_ptr<PlannedArena> arena_;  // outlives whoever holds tensors
  std::unique_ptr<Stash> stash_;
  Ranks alone_;
  const Ranks* ranks_;
  std::vector<BlockRange> parts_;
  std::unique_ptr<DiskMemory> disk_;  // outlives whoever has memory there
  std::unique_ptr<FlatStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ctx> ctx_;
  std::unique_ptr<Stage> stage_;
  std::vector<ExactSum> unreduced_squares_;  // of what backward left, by Param::index; empty: not wanted
  double loss_scale_ = 1;                    // of the last step
};

}  // namespace ravine
