#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "parallel/stash.h"
#include "train/machine.h"

namespace ravine {

ModelBatch::ModelBatch(const MicroBatch& m, double grad_scale, int64_t step) {
  batch_.tokens = m.rows * m.columns;
  require(static_cast<int64_t>(m.ids.size()) == batch_.tokens && m.labels.size() == m.ids.size() && m.positions.size() == m.ids.size(),
          "batch: {} ids, {} labels, {} positions for {} rows of {}", m.ids.size(), m.labels.size(), m.positions.size(), m.rows, m.columns);
  auto view = [&](const std::vector<int32_t>& v) { return view_of(const_cast<int32_t*>(v.data()), DType::i32, {batch_.tokens}); };
  batch_.ids = view(m.ids);
  batch_.labels = view(m.labels);
  batch_.positions = view(m.positions);
  sequences_.resize(m.ids.size());
  for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i] = m.sequence_index[i / static_cast<size_t>(m.columns)];
  batch_.sequences = view_of(sequences_.data(), DType::i64, {batch_.tokens});
  for (const TokenSpan& s : m.segments) batch_.segments.push_back({s.begin, s.length, s.begin, s.length});
  for (int32_t p : m.positions) batch_.max_position = std::max<int64_t>(batch_.max_position, p + 1);
  batch_.grad_scale = grad_scale;
  batch_.step = static_cast<uint32_t>(step);
}

Recipe make_recipe(const PrecisionOptions& options, const Kernels& kernels) {
  Recipe recipe;
  std::vector<std::string> ops;
  const_cast<Kernels&>(kernels).each([&]<class Args>(Kernel<Args>&) { ops.push_back(Args::name); });
  auto check = [](const std::string& op, const std::vector<std::string>& known, const char* key) {
    for (auto& k : known)
      if (glob_match(op, k)) return;
    std::string near = nearest(op, known);
    throw UserError("no op '" + op + "'", key, "it must be the name of an op", near.empty() ? "see docs/howto/add-an-op.md" : "did you mean '" + near + "'?");
  };
  for (const RecipeOption& o : options.recipes) {
    check(o.op, ops, "precision.recipes");
    RecipeRule rule{o.path, o.op, {}, {}};
    if (!o.compute.empty()) rule.arithmetic = parse_dtype(o.compute);
    if (!o.round.empty()) rule.rounding = parse_dtype(o.round);
    recipe.add(rule);
  }
  for (const std::string& op : options.unfused) {
    check(op, {"attention", "add_rms_norm", "add_layer_norm", "loss_head"}, "precision.unfused");
    recipe.unfuse(op);
  }
  return recipe;
}

DType compute_type(const PrecisionOptions& options, const std::string& backend) {
  if (options.compute == "auto") {
    if (backend != "cpu" || options.bf16_products == "widen") return DType::f32;
    MachinePeaks p = machine_peaks(Peaks::arithmetic);
    return p.bf16_product > 1.1 * p.f32_product ? DType::bf16 : DType::f32;
  }
  DType t = *parse_dtype(options.compute);
  if (t == DType::f64 && backend != "ref")
    throw UserError("precision.compute=f64", "precision.compute", "f64 is computed by the ref backend only", "add --backend ref");
  return t;
}

Bf16Products bf16_products(const PrecisionOptions& options, DType compute, const std::string& backend) {
  if (options.bf16_products == "widen" || backend != "cpu") return Bf16Products::widen;
  if (options.bf16_products == "auto") {
    if (compute != DType::bf16) return Bf16Products::widen;
    std::optional<MachinePeaks> known = known_machine_peaks(Peaks::arithmetic);
    return known ? known->bf16_products() : measure_bf16_products();
  }
  if (!cpu_has_bf16_dot())
    throw UserError("precision.bf16_products=dot", "precision.bf16_products", "this machine has no bf16 dot product (AVX512_BF16)", "choose auto or widen");
  return Bf16Products::dot;
}

Ctx::Setup StepEngine::setup(Arena& arena, ParamStore& store, const Kernels& kernels) {
  Ctx::Setup s;
  s.kernels = &kernels;
  s.arena = &arena;
  s.store = &store;
  s.stash = stash_.get();
  s.recipe = &recipe_;
  s.types = types_;
  s.seed = static_cast<uint64_t>(config_.train.seed);
  s.dropout = config_.train.dropout;
  return s;
}

StepEngine::StepEngine(Model& model, const Config& config, const Types& types, Kernels kernels, const StepShape& shape, Observer* watch)
    : model_(model), config_(config), types_(types), kernels_(kernels), recipe_(make_recipe(config.precision, kernels)), shape_(shape),
      stash_(make_stash(config.train.recompute)) {
  Kernels meta = meta_kernels(kernels_);
  RecordingArena arena;
  ResidentStore store(model.params(), types, DeviceKind::meta);
  Optimizer optimizer(config.optimizer, store, types, DeviceKind::meta);
  MicroBatch micro;
  micro.rows = shape.rows;
  micro.columns = shape.columns;
  size_t n = static_cast<size_t>(shape.rows * shape.columns);
  micro.ids.assign(n, 0);
  micro.labels.assign(n, 0);
  for (int64_t r = 0; r < shape.rows; ++r) {
    micro.sequence_index.push_back(r);
    micro.segments.push_back({static_cast<int32_t>(r * shape.columns), static_cast<int32_t>(shape.columns)});
    for (int64_t t = 0; t < shape.columns; ++t) micro.positions.push_back(static_cast<int32_t>(t));
  }
  {
    Ctx c(setup(arena, store, meta));
    if (watch) c.add_observer(watch);
    run_with(c, store, optimizer, std::vector<MicroBatch>(static_cast<size_t>(std::min<int64_t>(2, shape.micro_batches)), micro), 0, 0, {}, true);
    if (shape.validation) {
      ModelBatch b(micro, 0, 0);
      arena.section("valid");
      c.begin(b.batch(), false);
      model.forward(c);
    }
  }
  memory_.arena = arena.pack();
  memory_.weights = store.weight_bytes();
  memory_.optimizer = optimizer.bytes();
  memory_.base = resident_memory();
}

StepEngine::~StepEngine() = default;

void StepEngine::allocate() {
  store_ = std::make_unique<ResidentStore>(model_.params(), types_, DeviceKind::cpu);
  optimizer_ = std::make_unique<Optimizer>(config_.optimizer, *store_, types_, DeviceKind::cpu);
  arena_ = std::make_unique<PlannedArena>(DeviceKind::cpu, memory_.arena);
  ctx_ = std::make_unique<Ctx>(setup(*arena_, *store_, kernels_));
}

StepResult StepEngine::run(const std::vector<MicroBatch>& micros, int64_t step, double lr, const std::function<void(const Unit&)>& before_unit, bool apply) {
  return run_with(*ctx_, *store_, *optimizer_, micros, step, lr, before_unit, apply);
}

StepResult StepEngine::run_with(Ctx& c, ParamStore& store, Optimizer& optimizer, const std::vector<MicroBatch>& micros, int64_t step, double lr,
                                const std::function<void(const Unit&)>& before_unit, bool apply) {
  StepResult result;
  for (const MicroBatch& m : micros) {
    result.tokens += m.rows * m.columns;
    result.valid += m.valid_tokens;
  }
  double scale = result.valid > 0 ? 1.0 / static_cast<double>(result.valid) : 0.0;
  c.sides().clear();
  for (size_t i = 0; i < micros.size(); ++i) {
    ModelBatch b(micros[i], scale, step);
    c.arena().section(i == 0 ? "first" : "later");
    c.begin(b.batch(), true);
    model_.forward(c);
    c.backward();
  }
  c.set_phase(Phase::update);
  c.arena().section("update");
  store.finish_grads(c);
  result.loss = c.sides()["loss"].value() * scale;
  result.grad_norm = optimizer.grad_norm(c);
  bool finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (apply && finite) optimizer.update(c, lr, result.grad_norm, before_unit);
  store.end_step();
  require(c.arena().live() == 0, "step: {} blocks of the arena are still held after the step", c.arena().live());
  return result;
}

std::pair<ExactSum, int64_t> StepEngine::evaluate(const MicroBatch& micro) {
  Ctx& c = *ctx_;
  ModelBatch b(micro, 0, 0);
  c.sides().clear();
  c.arena().section("valid");
  c.begin(b.batch(), false);
  model_.forward(c);
  return {c.sides()["loss"], micro.valid_tokens};
}

}  // namespace ravine
