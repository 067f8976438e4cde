#include "engine/ctx.h"

#include <algorithm>

#include "base/text.h"

namespace ravine {

Types Types::of(DType compute, GradientType gradients) {
  const DType wide = compute == DType::f64 ? DType::f64 : DType::f32;
  return {.compute = compute,
          .residual = wide,
          .master = wide,
          .stat = wide,
          .gradient = gradients == GradientType::compute ? compute : wide};
}

const RecipeRule* Recipe::find(const std::string& path, const std::string& op, Role role) const {
  auto [it, fresh] = resolved_.try_emplace({path, op, role}, nullptr);
  if (!fresh) return it->second;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const RecipeRule& r = rules_[i];
    if (glob_match(r.path, path) && glob_match(r.op, op) && r.role.value_or(role) == role) it->second = &r, matched_.insert(i);
  }
  return it->second;
}

std::vector<size_t> Recipe::unmatched() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < rules_.size(); ++i)
    if (!matched_.contains(i)) out.push_back(i);
  return out;
}

Ctx::Ctx(Setup setup) : setup_(std::move(setup)), grads_(*setup_.arena) {}
Ctx::~Ctx() = default;

void Ctx::begin_step(int64_t step) {
  step_ = step;
  step_sums_.clear();
  calls_.clear();
}

void Ctx::begin(const Batch& batch, bool training) {
  require(!training || setup_.stash, "ctx: training needs a stash");
  tape_.blocks.clear();
  grads_.clear();
  outputs_.clear();
  batch_ = &batch;
  micro_ = batch.micro;
  training_ = training;
  recording_ = false;
  phase_ = Phase::forward;
  role_ = Role::forward;
}

void Ctx::record(const char* op, std::vector<TensorRef> outputs, BackwardFn dx, BackwardFn dw) {
  if (setup_.store) setup_.store->progress();
  if (!recording_) return;
  require(current_ != nullptr, "{}: recorded outside a block", op);
  current_->ops.push_back({path_, op, std::move(outputs), std::move(dx), std::move(dw)});
}

// Host work: a loss per token.
void Ctx::add_sum(StepSum side, const TensorView& values) {
  ExactSum sum;
  if (const double* v = values.as<double>())
    for (int64_t i = 0; i < values.count(); ++i) sum.add(v[i]);
  add_sum(side, sum);
}

void Ctx::give_grad(const TensorRef& ref, Tensor t) {
  if (!grads_.has(ref)) return grads_.put(ref, std::move(t));
  Tensor old = grads_.take(ref);
  Tensor sum = old.unique() ? old : empty(ref.shape, ref.dtype);
  call(Add{old.view(), t.view(), sum.view()});
  grads_.put(ref, std::move(sum));
}

const Group& Ctx::group(Axis axis) const {
  static const SelfGroup self;
  const Group* group = setup_.groups[static_cast<size_t>(axis)];
  return group ? *group : self;
}

Flow Ctx::block(const std::string& path, const Unit& unit, Flow in, const BlockFn& f) {
  Lease lease(store(), unit);
  Scope scope(*this, path);
  if (!training_) {
    Flow out = f(*this, std::move(in));
    for (Observer* o : setup_.observers) o->flow(*this, path_, out);
    return out;
  }
  BlockNode node{.path = path, .unit = &unit, .ops = {}, .again = {}, .x = {}, .branch = {}, .out_x = {}, .out_branch = {}};
  bool again = setup_.stash->recompute_block(path);
  if (again) {
    node.again = f;
    if (in.x) node.x = save(in.x);
    if (in.branch) node.branch = save(in.branch);
  }
  current_ = &node;
  recording_ = !again;
  Flow out = f(*this, std::move(in));
  recording_ = false;
  current_ = nullptr;
  if (out.x) node.out_x = out.x.ref();
  if (out.branch) node.out_branch = out.branch.ref();
  for (Observer* o : setup_.observers) o->flow(*this, path_, out);
  tape_.blocks.push_back(std::move(node));
  return out;
}

Ctx::InFlight Ctx::suspend() {
  require(grads_.empty(), "ctx: a micro batch is put aside before its backward");
  return {batch_, std::exchange(tape_, {})};
}

void Ctx::resume(InFlight state) {
  require(tape_.blocks.empty() && grads_.empty(), "ctx: another micro batch is under way");
  batch_ = state.batch;
  micro_ = batch_->micro;
  tape_ = std::move(state.tape);
}

void Ctx::backward(const std::vector<TensorRef>& inputs) {
  phase_ = Phase::backward;
  while (!tape_.blocks.empty()) {
    BlockNode node = std::move(tape_.blocks.back());
    tape_.blocks.pop_back();
    if (!tape_.blocks.empty()) store().prefetch(*tape_.blocks.back().unit);
    run_block_backward(std::move(node));
  }
  require(grads_.only(inputs), "backward: gradients of activations are left over");
}

void Ctx::run_block_backward(BlockNode node) {
  Lease lease(store(), *node.unit);
  Scope scope(*this, node.path);
  if (node.again) {
    phase_ = Phase::recompute;
    recording_ = true;
    current_ = &node;
    Flow out;
    {
      Flow in{node.x.get(*this), node.branch.get(*this)};
      node.x = node.branch = {};
      out = node.again(*this, std::move(in));
    }
    recording_ = false;
    current_ = nullptr;
    phase_ = Phase::backward;
    if (out.x) grads_.rename(node.out_x, out.x.ref());
    if (out.branch) grads_.rename(node.out_branch, out.branch.ref());
  }
  grad_store().open_grads(*this, *node.unit);
  while (!node.ops.empty()) {
    OpNode op = std::move(node.ops.back());
    node.ops.pop_back();
    bool wanted = op.outputs.empty();
    for (auto& r : op.outputs) wanted = wanted || grads_.has(r);
    if (!wanted) continue;
    std::string before = std::exchange(path_, op.path);
    role_ = Role::dx;
    if (op.dx) op.dx(*this);
    role_ = Role::dw;
    if (op.dw) op.dw(*this);
    role_ = Role::forward;
    path_ = before;
    for (auto& r : op.outputs) grads_.drop(r);
    store().progress();
  }
  grad_store().close_grads(*this, *node.unit);
}

CallInfo Ctx::describe(const char* op, std::span<const NamedView> tensors, double flops) {
  const int64_t micro = phase_ == Phase::update ? 0 : micro_;
  double bytes = 0;
  for (const NamedView& t : tensors) bytes += static_cast<double>(t.view.bytes()) * (t.access == Access::update ? 2 : 1);
  return {.step = step_,
          .micro = micro,
          .phase = phase_,
          .role = role_,
          .path = path_,
          .op = op,
          .ordinal = calls_[{micro, phase_, path_, op}]++,
          .tensors = tensors,
          .flops = flops,
          .bytes = bytes,
          .store = setup_.store};
}

std::vector<const Param*> CallInfo::parameters() const {
  std::vector<const Param*> out;
  for (const NamedView& t : tensors)
    for (const Param* p : store ? store->params_in(t.view) : std::vector<const Param*>())
      if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  return out;
}

}  // namespace ravine
