// One optimizer step of one rank: forward and backward passes of the micro batches in the order of the schedule,
// finished gradients, clipping, update. Its memory is planned before allocation: the same code runs once on the meta
// device.
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

// Converts a micro batch of the loader to a Batch, the form that the model reads. Views in the Batch point into
// `micro`, which must outlive this object.
class ModelBatch {
 public:
  // grad_scale: factor of the gradients. `loss`: a loss over whole sequences, or null for the sum over labels; must
  // outlive this object. micro_scale: as Batch::micro_scale.
  ModelBatch(const MicroBatch& micro, double grad_scale, int64_t step, const SequenceLoss* loss = nullptr,
             double micro_scale = 0);
  const Batch& batch() const { return batch_; }

 private:
  Batch batch_;
  std::vector<int64_t> sequences_;
  std::vector<int32_t> token_index_;
};

// The planned memory of a run on this rank by kind, in bytes.
struct RunMemory {
  int64_t weights = 0, optimizer = 0;  // outside the arena; for states on disk: the part that is in memory at once
  int64_t disk = 0;                    // in a file of offload.path; not memory
  MemoryPlan arena;                    // gradients, activations, workspace
  std::vector<MemoryPhase> phases;     // the phases of a step in the arena
  int64_t base = 0;                    // the process itself at the time of planning (program, tokens, tables)
  int64_t batches = 0;                 // batches of the loader: queued, in preparation and in use (data/loader.h)
  int64_t total() const { return base + batches + weights + optimizer + arena.total; }
};

// Bytes that a rank sends to other ranks in a step, by axis, as its groups count them (comm/group.h). data: traffic
// over data ranks, which includes traffic between ranks with the same experts. expert: activation rows for the experts
// of other ranks; a plan assumes even load (engine/ops/expert_ranks.h).
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
Communication communication_of(const Ranks& ranks);  // all bytes sent up to now

// The shape of a training step on this rank: size and number of its micro batches.
struct StepShape {
  // Rows (sequences) and columns (tokens) of a micro batch; number of micro batches of this rank in a step.
  int64_t rows = 1, columns = 1, micro_batches = 1;
  bool validation = false;
  int64_t leaves = 1;  // of this rank; divides micro_batches
};

enum class Verdict { apply, skip, stop };  // update; continue without an update; end the run without an update

// Forward and backward time of one micro batch on this rank, in seconds. Gradients that are reduced during the last
// micro batch count as backward.
struct MicroTimes {
  double forward = 0, backward = 0;
};
struct StepTimes {
  std::vector<MicroTimes> micro;  // one for each micro batch of this rank
  double reduce = 0, update = 0;  // the rest of the gradient reduction; norm, decision and update
};

// The result of a step over all ranks, the same on every rank; only `times` is of this rank.
struct StepResult {
  // loss: mean as train.loss_average defines it; with `micro`, a micro batch without labels counts with mean 0.
  // grad_norm: norm of the gradients before clipping.
  double loss = 0, grad_norm = 0;
  int64_t tokens = 0, valid = 0;                            // tokens fed; labels (or pairs) with a loss
  Verdict verdict = Verdict::apply;                         // the decision for this step
  std::optional<int64_t> gradient_zeros;                    // set for log.figures
  std::vector<std::pair<std::string, double>> preferences;  // set for train.objective=dpo, by name (step/preference.h)
  RouterReport routers;
  StepTimes times;
};

// A function that decides after the gradient norm is known, if a step is applied, is skipped, or ends the run. Its
// arguments are sums over all ranks, so all ranks decide the same.
using Decide = std::function<Verdict(double loss, double grad_norm)>;
// Returns Verdict::apply if loss and gradient norm are finite, else Verdict::stop.
Verdict stop_unless_finite(double loss, double grad_norm);

// Computes the steps of a run: owns weights, optimizer, arena and stage. Not movable: its members refer to each other.
class StepEngine {
 public:
  // Plans the memory of a training step on the meta device; allocate() then allocates it. `observer` (optional)
  // observes the kernel calls of the planned step. ranks: the ranks of the run, which must outlive this; null: a single
  // rank. With fake ranks this plans a layout without starting it.
  StepEngine(Model& model, const Config& config, const Types& types, Kernels kernels, const StepShape& shape,
             Observer* observer = nullptr, const Ranks* ranks = nullptr);
  ~StepEngine();

  const RunMemory& memory() const { return memory_; }
  // Returns the bytes that this rank sends to other ranks in a step, as planned, by axis of the mesh.
  const Communication& communication() const { return communication_; }
  const StepShape& shape() const { return shape_; }
  const Recipe& recipe() const { return recipe_; }  // after planning it knows which of its rules matched a call
  // Allocates weights, optimizer states and the arena.
  void allocate();

  // Runs a step: loss and gradients of every micro batch, their norm, then the decision of `decide`. The default
  // updates the weights unless the loss or the norm is not finite. `rates`: learning rates of the update.
  // `before_unit`: see Optimizer. `micros`: the micro batches of this rank. A step that is not applied leaves weights,
  // optimizer states and the count of updates unchanged. The backward pass computes loss_scale * gradient; the norm and
  // the update use gradients divided by loss_scale.
  StepResult run(const std::vector<MicroBatch>& micros, int64_t step, const UpdateRates& rates,
                 const std::function<void(const Unit&)>& before_unit = {}, const Decide& decide = stop_unless_finite,
                 double loss_scale = 1);
  // Runs a batch forward only. Returns the sum of its losses and the number of its labels (or preference pairs). Other
  // sums stay in ctx().step_sums() until the next step. All ranks of a model call it together; the loss of the batch is
  // the sum of the returned losses over these ranks.
  std::pair<ExactSum, int64_t> evaluate(const MicroBatch& micro);
  // Returns the log-probability (nats) of the answer of each segment of a batch, forward only. Empty except on the
  // ranks of the last pipeline stage, which all have the same values. All ranks of a model call it together.
  std::vector<double> answer_log_probs(const MicroBatch& micro);

  // Returns the pages of the arena (activations and gradients) to the system between steps. The next step uses the
  // arena again.
  void rest() { arena_->forget(); }

  // The gradients of a step that replace_gradients has replaced: none, or all, to be clipped or clipped already.
  enum class Given : uint8_t { none, unclipped, clipped };
  // Sets a function that is called in each step after the gradients are summed over all ranks, before their norm. The
  // function may overwrite owned_grad() of the store with gradients times `loss_scale`.
  void replace_gradients(std::function<Given(double loss_scale)> f) { given_ = std::move(f); }
  // True if the update exchanges other data than gradients at some step (UpdateRule::unreduced_from).
  bool optimizer_sends_other_data() const;

  // True if options of `c` need the gradient norm of each rank alone, before the sum over data ranks
  // (FlatGrads::record_unreduced): log.local_norms, health.embedding_norm, or logs_local_norms(log).
  static bool wants_unreduced(const Config& c) {
    return !c.log.local_norms.empty() || c.health.embedding_norm > 0 || logs_local_norms(c.log);
  }
  bool has_unreduced() const { return !unreduced_squares_.empty(); }
  // Returns the sum of squares of this rank's own gradient of p in the last step, before the sum over data ranks (see
  // FlatGrads::record_unreduced) and without the loss scale. Requires has_unreduced().
  double unreduced_squares(const Param& p) const { return unreduced_squares_[p.index].value() / (loss_scale_ * loss_scale_); }

  FlatStore& store() { return *store_; }
  const Ranks& ranks() const { return *ranks_; }
  // Returns the pipeline stage of each unit, by Unit::index.
  std::vector<int> stages() const { return stages_of_units(model_, parts_, ranks_->mesh().pipeline); }
  Optimizer& optimizer() { return *optimizer_; }
  Ctx& ctx() { return *ctx_; }
  Model& model() { return model_; }

 private:
  // The objects that a step works on. The planned step on meta and a real step each have their own.
  struct Parts {
    Ctx& c;
    FlatStore& store;
    Optimizer& optimizer;
    Stage& stage;
    const Ranks& ranks;
    std::vector<Communication>* sent = nullptr;  // by micro batch of this rank; added to
    std::vector<MicroTimes> times{};             // filled by run_micros
  };
  StepResult run_with(Parts parts, const std::vector<MicroBatch>& micros, int64_t step, const UpdateRates& rates,
                      const std::function<void(const Unit&)>& before_unit, const Decide& decide, double loss_scale);
  void run_micros(Parts& parts, const std::vector<MicroBatch>& micros, const std::vector<double>& grad_scales, int64_t step,
                  double micro_scale);
  void run_forward(const MicroBatch& micro, const SequenceLoss* loss);
  std::unique_ptr<SequenceLoss> sequence_loss(const MicroBatch& micro) const;  // null: the loss is the sum over labels
  FlatLayout layout(const Ranks& ranks, DiskMemory& disk) const;
  DiskMemory* disk_of_states(DiskMemory& disk) const;  // null: states are in memory
  Ctx::Setup setup(Arena& arena, FlatStore& store, const Kernels& kernels, const Ranks& ranks);

  Model& model_;
  const Config& config_;
  Types types_;
  Kernels kernels_;
  Recipe recipe_;
  StepShape shape_;
  RunMemory memory_;
  Communication communication_;
  std::unique_ptr<PlannedArena> arena_;  // outlives everything that holds tensors
  std::unique_ptr<Stash> stash_;
  Ranks alone_;
  const Ranks* ranks_;
  std::vector<BlockRange> parts_;
  std::unique_ptr<DiskMemory> disk_;  // outlives everything that has memory on disk
  std::unique_ptr<FlatStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ctx> ctx_;
  std::unique_ptr<Stage> stage_;
  std::vector<ExactSum> unreduced_squares_;  // of the gradients before reduction, by Param::index; empty: not needed
  double loss_scale_ = 1;                    // of the last step
  std::function<Given(double)> given_;       // empty: gradients are the step's own
};

}  // namespace ravine
