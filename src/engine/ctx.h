// Ctx: all that a layer needs to run. A layer asks Ctx for its tensor ranks and for the caches of its batch. Pipelines,
// ZeRO, recomputation, observers and precision rules are hidden behind Ctx.
//
//
//   call    runs a kernel: workspace, precision rules, observers, then the kernel.
//   save    keeps a tensor for the backward pass, as the stash decides.
//   record  appends the backward pass of an op, in two parts: dx (gradients of inputs), dw (gradients of parameters).
//   block   runs a block: the unit of recomputation, of gathering parameters and of reducing gradients.
//   add_sum adds to sums that leave a block without a tensor (losses, counts): step_sums.h.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "comm/group.h"
#include "config/choices.h"
#include "engine/batch.h"
#include "engine/grads.h"
#include "engine/observer.h"
#include "engine/param_store.h"
#include "engine/recipe.h"
#include "engine/saved.h"
#include "engine/step_sums.h"
#include "engine/tape.h"

namespace ravine {

// The data types of the tensors of a run, chosen by precision.compute.
struct Types {
  DType compute = DType::f32;   // activations inside blocks, and matrices as kernels read them
  DType residual = DType::f32;  // the residual stream and its gradient
  DType master = DType::f32;    // master weights and optimizer states
  DType stat = DType::f32;      // statistics: rstd, logsumexp, tables of rope
  // The type of gradients of matrices that kernels read in the compute type. Gradients of other parameters have the
  // type `master`.
  DType gradient = DType::f32;
  static Types of(DType compute, GradientType gradients = GradientType::f32);
};

class Ctx {
 public:
  struct Setup {
    const Kernels* kernels = nullptr;
    Arena* arena = nullptr;
    WeightSource* store = nullptr;
    GradStore* grads = nullptr;      // null: weights are only read, there is no backward pass
    Stash* stash = nullptr;          // null: no backward pass is recorded
    const Recipe* recipe = nullptr;  // null: no rules
    Types types;
    uint64_t seed = 0;
    double dropout = 0, attention_dropout = 0;
    bool drop = false;                              // true: adapters apply dropout, each with its own probability
    std::array<const Group*, kAxisCount> groups{};  // by Axis; null: one rank
    bool sequence = false;  // sequence parallelism: tensor ranks divide the tokens of the residual stream
    std::vector<Observer*> observers;
  };
  explicit Ctx(Setup setup);
  ~Ctx();

  // --- Functions for layers and ops. empty() allocates a tensor in the arena of the step; its values are not
  // initialised.
  Tensor empty(const Shape& shape, DType dtype, MemoryKind kind = MemoryKind::activations) {
    return Tensor::make(arena(), shape, dtype, kind);
  }
  template <class Args>
  void call(const Args& args);
  template <class Args>
  bool has() const {
    return setup_.kernels->of<Args>().run != nullptr;
  }
  // Returns the precision rule for an op (precision.recipes) at the current path and role; null if no rule matches.
  const RecipeRule* rule(const char* op) const {
    return setup_.recipe && !setup_.recipe->empty() ? setup_.recipe->find(path_, op, role_) : nullptr;
  }
  bool fused(const char* op) const { return !setup_.recipe || setup_.recipe->fused(op); }

  bool recording() const { return recording_; }
  Saved save(const Tensor& t) { return setup_.stash->keep(t); }
  // Appends the backward pass of an op to the current block, while recording. dx adds gradients of inputs, dw gradients
  // of parameters.
  void record(const char* op, std::vector<TensorRef> outputs, BackwardFn dx, BackwardFn dw = {});
  Grads& grads() { return grads_; }
  // Stores the finished gradient of an activation. A second gradient of the same tensor is added to the first.
  void give_grad(const TensorRef& ref, Tensor t);

  // Runs f as a block of the model: acquires its unit, and in training puts the block on the tape. A block that the
  // stash recomputes keeps only its input. Returns the output of f.
  Flow block(const std::string& path, const Unit& unit, Flow in, const BlockFn& f);
  // Runs the backward pass of all blocks on the tape, the last block first, and empties the tape. `inputs`: tensors
  // from outside the tape; their gradients stay for the caller. An Error if other gradients are left.
  void backward(const std::vector<TensorRef>& inputs = {});
  // Adds a number to a step sum (loss, counts) of this micro batch. A block that is recomputed adds only once.
  void add_sum(StepSum side, const ExactSum& sum) {
    if (phase_ != Phase::recompute) step_sums_.add(micro_, side, sum);
  }
  // Stores the router statistics of a layer for this micro batch. A block that is recomputed stores them only once.
  void add_router(int64_t layer, RouterLoad load) {
    if (phase_ != Phase::recompute) step_sums_.add_router(micro_, layer, std::move(load));
  }
  void set_router_shares(int64_t micro, int64_t layer, std::vector<double> shares) {
    step_sums_.set_shares(micro, layer, std::move(shares));
  }
  // Returns the router statistics of this micro batch, by layer, for the layers that have run.
  const RouterLoads& routers() const { return step_sums_.routers(micro_); }
  // Returns the router statistics of this micro batch pooled over all layers, layers of other pipeline stages included.
  RouterPool router_pool() const { return step_sums_.pool(micro_); }
  void set_router_pool(RouterPool pool) { step_sums_.set_pool(micro_, std::move(pool)); }
  // Adds the exact sum of the elements of `values` (f64) to a step sum of this micro batch. On the meta device there is
  // nothing to add.
  void add_sum(StepSum side, const TensorView& values);
  // Stores a named result that is not part of the flow between blocks: "logits", or "hidden", the normed last hidden
  // state. Kept until the next begin().
  void output(const std::string& name, const Tensor& t) { outputs_[name] = t; }

  const Batch& batch() const { return *batch_; }
  WeightSource& store() { return *setup_.store; }
  GradStore& grad_store() {
    require(setup_.grads != nullptr, "weights are only read here: there are no gradients");
    return *setup_.grads;
  }
  const Group& group(Axis axis) const;
  bool sequence_parallel() const { return setup_.sequence && group(Axis::tensor).size() > 1; }
  // stream_rows returns the number of rows of the residual stream on this rank; stream_begin returns the index of the
  // first row. The rows are all tokens, or this rank's part under sequence parallelism.
  int64_t stream_rows() const {
    return sequence_parallel() ? div_exact(batch_->tokens, group(Axis::tensor).size()) : batch_->tokens;
  }
  int64_t stream_begin() const { return sequence_parallel() ? stream_rows() * group(Axis::tensor).rank() : 0; }
  Arena& arena() { return *setup_.arena; }
  const Types& types() const { return setup_.types; }
  const Recipe* recipe() const { return setup_.recipe; }
  uint64_t seed() const { return setup_.seed; }
  double dropout() const { return training_ ? setup_.dropout : 0; }
  bool dropping() const { return training_ && setup_.drop; }  // adapters apply their own dropout
  double attention_dropout() const { return training_ ? setup_.attention_dropout : 0; }
  const std::string& path() const { return path_; }
  Phase phase() const { return phase_; }

  // --- Functions for the code that runs a step.
  // Starts a step: clears the step sums and call counts of the previous step. `step` is shown to observers; it counts
  // from 1.
  void begin_step(int64_t step);
  // Starts a micro batch, which must outlive its forward and backward pass. training: ops record their backward pass.
  // The tape, gradients and outputs of the previous micro batch are dropped.
  void begin(const Batch& batch, bool training);
  // The state of a micro batch between its forward and its backward pass, stored while other micro batches run
  // (pipelines). suspend() takes it out of Ctx, resume() puts it back.
  struct InFlight {
    const Batch* batch = nullptr;
    Tape tape;
  };
  InFlight suspend();
  void resume(InFlight state);
  const StepSums& step_sums() const { return step_sums_; }
  std::map<std::string, Tensor>& outputs() { return outputs_; }
  void set_phase(Phase p) { phase_ = p; }
  void add_observer(Observer* o) { setup_.observers.push_back(o); }
  void remove_observer(Observer* o) { std::erase(setup_.observers, o); }

  // Appends `part` to the dotted path of the Ctx ("model.layers.3.mlp") until the end of the scope.
  class Scope {
   public:
    Scope(Ctx& c, const std::string& part) : c_(c), length_(c.path_.size()) { c.path_ += (c.path_.empty() ? "" : ".") + part; }
    ~Scope() { c_.path_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ctx& c_;
    size_t length_;
  };

 private:
  template <class Args>
  void run(const Args& args);
  template <class Args>
  void run_by_rule(const Args& args, const RecipeRule& rule);
  CallInfo describe(const char* op, std::span<const NamedView> tensors, double flops);
  void run_block_backward(BlockNode node);

  Setup setup_;
  const Batch* batch_ = nullptr;
  bool recording_ = false, training_ = false;
  Phase phase_ = Phase::forward;
  Role role_ = Role::forward;
  int64_t step_ = 0, micro_ = 0;
  std::string path_;
  Tape tape_;
  BlockNode* current_ = nullptr;
  Grads grads_;
  StepSums step_sums_;
  // Number of calls in this step, for observers, by micro batch, phase, path and op.
  std::map<std::tuple<int64_t, Phase, std::string, const char*>, int64_t> calls_;
  std::map<std::string, Tensor> outputs_;
};

template <class Args>
void Ctx::call(const Args& args) {
  if (const RecipeRule* found = rule(Args::name))
    run_by_rule(args, *found);
  else
    run(args);
}

template <class Args>
void Ctx::run(const Args& args) {
  const Kernel<Args>& kernel = setup_.kernels->of<Args>();
  require(kernel.run != nullptr, "{}: backend {} has no such kernel", Args::name, setup_.kernels->backend);
  Tensor scratch;
  if (int64_t bytes = kernel.workspace ? kernel.workspace(args, thread_count()) : 0; bytes > 0)
    scratch = empty({bytes}, DType::u8, MemoryKind::workspace);
  if (setup_.observers.empty()) {
    kernel.run(args, scratch.view().data);
    return;
  }
  std::array<NamedView, 12> tensors;
  size_t n = 0;
  args.each([&](const char* name, const TensorView& v, Access access) {
    if (v.absent()) return;
    require(n < tensors.size(), "{}: more tensors than observers are shown", Args::name);
    tensors[n++] = {name, v, access};
  });
  CallInfo info = describe(Args::name, {tensors.data(), n}, args.flops());
  std::array<CallSetting, 8> settings;
  if constexpr (requires { args.settings([](const char*, double) {}); }) {
    size_t count = 0;
    args.settings([&](const char* name, double value) {
      require(count < settings.size(), "{}: more settings than observers are shown", Args::name);
      settings[count++] = {name, value};
    });
    info.settings = {settings.data(), count};
  }
  if constexpr (requires { args.bytes(); }) info.bytes = args.bytes();
  info.args_ = &args;
  info.rerun_ = [](const void* like, const Kernels& kernels, std::span<const TensorView> on) {
    Args again = with_tensors(*static_cast<const Args*>(like), on);
    ExactSum besides;
    if constexpr (requires { again.result = &besides; }) again.result = &besides;
    const Kernel<Args>& other = kernels.of<Args>();
    require(other.run != nullptr, "{}: backend {} has no such kernel", Args::name, kernels.backend);
    Storage memory(DeviceKind::cpu, other.workspace ? other.workspace(again, thread_count()) : 0);
    other.run(again, memory.data());
  };
  for (Observer* o : setup_.observers) o->before(info);
  kernel.run(args, scratch.view().data);
  for (Observer* o : setup_.observers) o->after(info);
}

// Runs a kernel call under a precision rule. In rule.arithmetic: a wider type computes on widened copies of the
// tensors, a narrower type on rounded operands. Then copies the results back. If rule.rounding is set, results are
// rounded to that type in place.
template <class Args>
void Ctx::run_by_rule(const Args& args, const RecipeRule& rule) {
  std::vector<TensorView> on, results;
  std::vector<Tensor> temporaries;
  std::vector<std::pair<TensorView, TensorView>> back;  // (temporary, original)
  args.each([&](const char*, const TensorView& v, Access access) {
    if (v.absent()) return;
    on.push_back(v);
    if (!is_float(v.dtype)) return;
    if (access != Access::read) results.push_back(v);
    const DType to = rule.arithmetic.value_or(v.dtype);
    const bool wider = size_of(to) > size_of(v.dtype);
    if (v.dtype == DType::f64 || (!wider && (to == v.dtype || access != Access::read))) return;
    Tensor t = empty({v.rows(), v.cols()}, wider ? to : v.dtype, MemoryKind::workspace);
    if (access != Access::write) run(Cast{v, t.view(), wider ? DType::f64 : to});
    on.back() = t.view();
    on.back().shape = v.shape;
    if (access != Access::read) back.emplace_back(t.view(), v);
    temporaries.push_back(std::move(t));
  });
  run(with_tensors(args, on));
  for (auto& [from, to] : back) run(Cast{from, to});
  if (rule.rounding)
    for (const TensorView& r : results) run(Cast{r, r, *rule.rounding});
}

}  // namespace ravine
