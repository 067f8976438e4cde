#include "step/step.h"
#include "engine/make_recipe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/clock.h"
#include "base/narrow_option.h"
#include "base/text.h"
#include "optim/make_update_rule.h"
#include "parallel/stash.h"
#include "step/preference.h"

namespace ravine {

ModelBatch::ModelBatch(const MicroBatch& m, double grad_scale, int64_t step, const SequenceLoss* loss, double micro_scale) {
  batch_.tokens = m.rows * m.columns;
  require(static_cast<int64_t>(m.ids.size()) == batch_.tokens && m.labels.size() == m.ids.size() &&
              m.positions.size() == m.ids.size(),
          "batch: {} ids, {} labels, {} positions for {} rows of {}", m.ids.size(), m.labels.size(), m.positions.size(), m.rows,
          m.columns);
  auto view = [&](const std::vector<int32_t>& v) {
    return view_of(const_cast<int32_t*>(v.data()), DType::i32, {batch_.tokens});
  };
  batch_.ids = view(m.ids);
  batch_.labels = view(m.labels);
  batch_.positions = view(m.positions);
  const auto columns = static_cast<size_t>(m.columns);
  for (size_t i = 0; i < m.ids.size(); ++i)
    sequences_.push_back(m.sequence_index[i / columns]), token_index_.push_back(static_cast<int32_t>(i % columns));
  batch_.sequences = view_of(sequences_.data(), DType::i64, {batch_.tokens});
  batch_.token_index = view_of(token_index_.data(), DType::i32, {batch_.tokens});
  for (const TokenSpan& s : m.segments)
    batch_.segments.push_back({.q_begin = s.begin, .q_count = s.length, .k_begin = s.begin, .k_count = s.length});
  for (int32_t p : m.positions) batch_.max_position = std::max<int64_t>(batch_.max_position, p + 1);
  batch_.grad_scale = grad_scale, batch_.micro_scale = micro_scale;
  batch_.step = static_cast<uint32_t>(step);
  batch_.micro = m.index;
  batch_.sequence_loss = loss;
}

Ctx::Setup StepEngine::setup(Arena& arena, FlatStore& store, const Kernels& kernels, const Ranks& ranks) {
  Ctx::Setup s;
  s.kernels = &kernels;
  s.arena = &arena;
  s.store = &store;
  s.grads = &store;
  s.stash = stash_.get();
  s.recipe = &recipe_;
  s.types = types_;
  s.seed = static_cast<uint64_t>(config_.train.seed);
  s.dropout = config_.train.dropout, s.attention_dropout = config_.train.attention_dropout, s.drop = true;
  s.sequence = config_.parallel.sequence;
  for (Axis axis : kAxes) s.groups[static_cast<size_t>(axis)] = &ranks.along(axis);
  return s;
}

DiskMemory* StepEngine::disk_of_states(DiskMemory& disk) const {
  return config_.offload.optimizer == OffloadTo::disk ? &disk : nullptr;
}

// As in DeepSpeed, masters are on disk together with the states.
FlatLayout StepEngine::layout(const Ranks& ranks, DiskMemory& disk) const {
  return {.stages = stages_of_units(model_, parts_, ranks.mesh().pipeline),
          .zero = narrow_option<int>(config_.parallel.zero, "parallel.zero"),
          .whole_below = config_.parallel.whole_below(),
          .stays_up_to = config_.parallel.zero_threshold,
          .first_rank_saves = make_update_rule(config_.optimizer)->diverges(),
          .sequence = config_.parallel.sequence,
          .ranks = &ranks,
          .disk_values = config_.offload.params == OffloadTo::disk ? &disk : nullptr,
          .disk_masters = disk_of_states(disk)};
}

namespace {

// Returns the most micro batches of a chunk that are in flight at once. In a pipeline at least two: a message can still
// be in flight when the next one is made.
std::vector<int64_t> most_in_flight(const std::vector<PipelineTask>& tasks, int stages, int chunks) {
  std::vector<int64_t> now(static_cast<size_t>(chunks), 0), most(static_cast<size_t>(chunks), stages > 1 ? 2 : 1);
  for (const PipelineTask& t : tasks) {
    int64_t& n = now[static_cast<size_t>(t.chunk)];
    n += t.backward ? -1 : 1;
    most[static_cast<size_t>(t.chunk)] = std::max(most[static_cast<size_t>(t.chunk)], n);
  }
  return most;
}

}  // namespace

StepEngine::StepEngine(Model& model, const Config& config, const Types& types, Kernels kernels, const StepShape& shape,
                       Observer* observer, const Ranks* ranks)
    : model_(model),
      config_(config),
      types_(types),
      kernels_(kernels),
      recipe_(make_recipe(config.precision, kernels)),
      shape_(shape),
      ranks_(ranks ? ranks : &alone_) {
  int stages = ranks_->mesh().pipeline,
      chunks = stages > 1 ? narrow_option<int>(config.parallel.virtual_stages, "parallel.virtual") : 1;
  parts_ = split_model(model, stages * chunks, config.parallel.stage_layers);
  const std::vector<int64_t>& again = config.train.recompute_layers;
  const bool some = config.train.recompute == Recompute::full && !again.empty();
  stash_ = make_stash(config.train.recompute, some ? std::optional(first_layers(model, parts_, again)) : std::nullopt);
  Kernels meta = meta_kernels(kernels_);
  PhaseArena arena;
  Ranks fake = Ranks::fake(ranks_->mesh(), ranks_->rank());
  DiskMemory disk;
  FlatStore store(model.params(), types, DeviceKind::meta, layout(fake, disk));
  if (wants_unreduced(config)) {
    unreduced_squares_.resize(model.params().params().size());
    store.record_unreduced(&unreduced_squares_);
  }
  Optimizer optimizer(config.optimizer, store, DeviceKind::meta, fake.at().tensor, fake.mesh().tensor, nullptr,
                      fake.mesh().data, fake.at().data, disk_of_states(disk));
  Stage stage(model, fake, parts_);
  MicroBatch micro = random_micro_batch(shape.rows, shape.columns, 1);
  if (config.train.objective == TrainObjective::dpo)
    // positions are at most the length of an answer
    for (int32_t& p : micro.positions) p %= static_cast<int32_t>(ceil_div(shape.columns, 2));
  // The planned step has all leaves, with as many micro batches each as all cases need: a first, a middle and a last
  // one. A pipeline needs full rounds of the micro batches in flight, with the same remainder as the real step.
  int64_t leaf = div_exact(shape.micro_batches, shape.leaves), enough = 3;
  if (stages > 1) {
    int64_t held = 1;
    std::vector<PipelineTask> tasks =
        pipeline_schedule(stages, chunks, static_cast<int>(shape.micro_batches), ranks_->at().pipeline);
    for (int64_t n : most_in_flight(tasks, stages, chunks)) held = std::max(held, n);
    held = std::lcm(held, static_cast<int64_t>(stages));
    enough = 3 * held + leaf % held;
  }
  const int64_t of_leaf = std::min(leaf, enough);
  {
    Ctx c(setup(arena, store, meta, fake));
    store.attach(c);
    if (observer) c.add_observer(observer);
    std::vector<MicroBatch> micros(static_cast<size_t>(shape.leaves * of_leaf), micro);
    std::vector<Communication> sent(micros.size());
    for (size_t i = 0; i < micros.size(); ++i) micros[i].index = static_cast<int64_t>(i);
    const Decide apply = [](double, double) { return Verdict::apply; };
    Parts parts{.c = c, .store = store, .optimizer = optimizer, .stage = stage, .ranks = fake, .sent = &sent};
    run_with(parts, micros, 0, 0, {}, apply, 1);
    // A micro batch that was left out is like the second of a leaf, which is neither the first nor the last of it.
    communication_ = communication_of(fake);
    for (int64_t i = of_leaf; i < leaf; ++i)
      for (int64_t l = 0; l < shape.leaves; ++l) communication_ = communication_ + sent[static_cast<size_t>(l * of_leaf + 1)];
    if (observer) c.remove_observer(observer);  // the observer sees one step
    // from this step on, gradients take another path
    if (const int64_t from = optimizer.rule().unreduced_from(); from > 0) {
      optimizer.set_steps(from - 1);
      parts.sent = nullptr;
      run_with(parts, micros, 0, 0, {}, apply, 1);
    }
    if (shape.validation) {
      const std::unique_ptr<SequenceLoss> loss = sequence_loss(micro);
      ModelBatch b(micro, 0, 0, loss.get());
      arena.section("valid");
      c.begin(b.batch(), false);
      for (int chunk = 0; chunk < stage.chunks(); ++chunk) stage.forward(c, chunk, false);
      stage.drain();
    }
    memory_.phases = arena.phases();
    for (const int64_t from : optimizer.unfreezing()) {  // from this step on, other parameters are updated
      optimizer.set_steps(from - 1);
      parts.sent = nullptr;
      run_with(parts, micros, 0, 0, {}, apply, 1);
    }
  }
  memory_.arena = arena.pack();
  memory_.weights = store.weight_bytes();
  memory_.optimizer = optimizer.bytes();
  memory_.disk = disk.bytes();
  memory_.base = resident_memory();
  memory_.batches = loader_bytes(config.data.prefetch, shape.micro_batches, shape.rows, shape.columns);
}

Communication communication_of(const Ranks& ranks) {
  auto of = [](const Group& g) { return g.traffic().bytes; };
  return {.data = of(ranks.along(Axis::data)) + (ranks.mesh().expert > 1 ? of(ranks.along(Axis::expert_data)) : 0),
          .tensor = of(ranks.along(Axis::tensor)),
          .pipeline = of(ranks.along(Axis::pipeline)) + of(ranks.back()),
          .expert = of(ranks.along(Axis::expert))};
}

StepEngine::~StepEngine() = default;

bool StepEngine::optimizer_sends_other_data() const { return make_update_rule(config_.optimizer)->unreduced_from() > 0; }

Verdict stop_unless_finite(double loss, double grad_norm) {
  return std::isfinite(loss) && std::isfinite(grad_norm) ? Verdict::apply : Verdict::stop;
}

void StepEngine::allocate() {
  disk_ = memory_.disk > 0 ? std::make_unique<DiskMemory>(config_.offload.path, memory_.disk) : std::make_unique<DiskMemory>();
  store_ = std::make_unique<FlatStore>(model_.params(), types_, DeviceKind::cpu, layout(*ranks_, *disk_));
  optimizer_ =
      std::make_unique<Optimizer>(config_.optimizer, *store_, DeviceKind::cpu, ranks_->at().tensor, ranks_->mesh().tensor,
                                  nullptr, ranks_->mesh().data, ranks_->at().data, disk_of_states(*disk_));
  arena_ = std::make_unique<PlannedArena>(DeviceKind::cpu, memory_.arena);
  ctx_ = std::make_unique<Ctx>(setup(*arena_, *store_, kernels_, *ranks_));
  store_->attach(*ctx_);
  if (!unreduced_squares_.empty()) store_->record_unreduced(&unreduced_squares_);
  stage_ = std::make_unique<Stage>(model_, *ranks_, parts_);
}

StepResult StepEngine::run(const std::vector<MicroBatch>& micros, int64_t step, const UpdateRates& rates,
                           const std::function<void(const Unit&)>& before_unit, const Decide& decide, double loss_scale) {
  require(static_cast<int64_t>(micros.size()) == shape_.micro_batches, "step: {} micro batches, planned were {}", micros.size(),
          shape_.micro_batches);
  return run_with({.c = *ctx_, .store = *store_, .optimizer = *optimizer_, .stage = *stage_, .ranks = *ranks_}, micros, step,
                  rates, before_unit, decide, loss_scale);
}

// The name of a section holds the facts that decide the memory of a task. A task uses the slot of a micro batch; a
// backward pass also depends on the number of kept leaf sums.
void StepEngine::run_micros(Parts& p, const std::vector<MicroBatch>& micros, const std::vector<double>& grad_scales,
                            int64_t step, double micro_scale) {
  Ctx& c = p.c;
  int stages = p.ranks.mesh().pipeline, chunks = p.stage.chunks();
  std::vector<PipelineTask> tasks = pipeline_schedule(stages, chunks, static_cast<int>(micros.size()), p.ranks.at().pipeline);
  std::vector<int64_t> most = most_in_flight(tasks, stages, chunks);
  int64_t leaf = div_exact(static_cast<int64_t>(micros.size()), shape_.leaves);
  struct InFlight {
    std::unique_ptr<SequenceLoss> loss;
    std::unique_ptr<ModelBatch> batch;
    Stage::Micro micro;
  };
  std::map<std::pair<int, int>, InFlight> in_flight;
  SharesOfStep shares(p.ranks.along(Axis::data), model_);
  auto run = [&](const PipelineTask& t) {
    int64_t slot = t.micro % most[static_cast<size_t>(t.chunk)];
    if (!t.backward) {
      InFlight& u = in_flight[{t.chunk, t.micro}];
      const MicroBatch& m = micros[static_cast<size_t>(t.micro)];
      u.loss = sequence_loss(m);
      u.batch = std::make_unique<ModelBatch>(m, grad_scales[static_cast<size_t>(t.micro)], step, u.loss.get(), micro_scale);
      c.arena().section(fmt::format("forward {} {}", t.chunk, slot));
      c.begin(u.batch->batch(), true);
      u.micro = p.stage.forward(c, t.chunk, true);
      shares.add(c, m.index);
      return;
    }
    bool opens = t.micro % leaf == 0, ends = shape_.leaves > 1 && t.micro % leaf == leaf - 1;
    // Without a pipeline the gradients of the last micro batch are reduced as they are finished. Pipeline stages reduce
    // theirs at the end.
    bool last = stages == 1 && t.micro + 1 == static_cast<int>(micros.size()) && !p.optimizer.wants_unreduced();
    uint64_t waiting = static_cast<uint64_t>(t.micro / leaf);
    c.arena().section(fmt::format("backward {} {} {}{}", t.chunk, slot,
                                  opens ? fmt::format("leaf {}", std::popcount(waiting)) : "more",
                                  last   ? " last"
                                  : ends ? " end"
                                         : ""));
    p.store.end_leaf(ends, last);
    auto found = in_flight.find({t.chunk, t.micro});
    p.stage.backward(c, t.chunk, std::move(found->second.micro));
    p.store.wait_reduced(c);
    in_flight.erase(found);
  };
  p.times.assign(micros.size(), {});
  for (const PipelineTask& t : tasks) {
    const Communication before = communication_of(p.ranks);
    const double began = seconds_now();
    run(t);
    MicroTimes& times = p.times[static_cast<size_t>(t.micro)];
    (t.backward ? times.backward : times.forward) += seconds_now() - began;
    if (p.sent)
      (*p.sent)[static_cast<size_t>(t.micro)] = (*p.sent)[static_cast<size_t>(t.micro)] + (communication_of(p.ranks) - before);
  }
  p.stage.drain();
}

StepResult StepEngine::run_with(Parts p, const std::vector<MicroBatch>& micros, int64_t step, const UpdateRates& rates,
                                const std::function<void(const Unit&)>& before_unit, const Decide& decide, double loss_scale) {
  Ctx& c = p.c;
  StepResult result;
  for (const MicroBatch& m : micros) {
    result.tokens += m.rows * m.columns;
    result.valid += m.valid_tokens;
  }
  const Group& data = p.ranks.along(Axis::data);
  if (data.size() > 1) {
    auto total = [&](int64_t mine) {
      std::vector<int64_t> all = gather_integers(data, mine);
      return std::accumulate(all.begin(), all.end(), int64_t{0});
    };
    result.tokens = total(result.tokens);
    result.valid = total(result.valid);
  }
  // The factor of a micro batch's sum of losses in the loss of the step.
  const double scale = result.valid > 0 ? 1.0 / static_cast<double>(result.valid) : 0.0;
  std::vector<double> scales(micros.size(), scale);
  const bool by_micro = config_.train.loss_average != LossAverage::tokens;
  const bool global = config_.train.loss_average == LossAverage::global_micro && data.size() > 1;
  for (size_t m = 0; by_micro && m < micros.size(); ++m) {
    int64_t valid = micros[m].valid_tokens;
    if (global) {
      const std::vector<int64_t> all = gather_integers(data, valid);
      valid = std::accumulate(all.begin(), all.end(), int64_t{0});
    }
    const double means = static_cast<double>(micros.size()) * (global ? 1 : data.size());
    scales[m] = valid > 0 ? 1.0 / (static_cast<double>(valid) * means) : 0.0;
  }
  c.begin_step(step);
  for (ExactSum& s : unreduced_squares_) s = {};
  p.store.keep_unreduced(p.optimizer.wants_unreduced());
  loss_scale_ = loss_scale;
  std::vector<double> grad_scales = scales;
  for (double& s : grad_scales) s *= loss_scale;
  run_micros(p, micros, grad_scales, step, loss_scale / (static_cast<double>(micros.size()) * data.size()));
  const double computed = seconds_now();
  c.set_phase(Phase::update);
  c.arena().section(p.optimizer.wants_unreduced()     ? "update, local gradients"
                    : p.optimizer.last_unfrozen() > 0 ? fmt::format("update from {}", p.optimizer.last_unfrozen())
                                                      : "update");
  p.store.finish_grads(c);
  const double reduced = seconds_now();
  // The sums below wait for all stages. With the barrier this waiting time counts as pipeline time
  // (StepTraffic::bubble).
  if (p.ranks.mesh().pipeline > 1) p.ranks.along(Axis::pipeline).barrier();
  auto mean = [&](StepSum side) {
    ExactSum all;
    if (by_micro)
      for (size_t m = 0; m < micros.size(); ++m) all.add(c.step_sums().of(micros[m].index, side).value() * scales[m]);
    else
      all = c.step_sums().total(side);
    return sum(p.ranks.all(), all).value() * (by_micro ? 1.0 : scale);
  };
  result.loss = mean(StepSum::loss);
  if (config_.train.objective == TrainObjective::dpo) result.preferences = preference_metrics(mean);
  result.routers = router_report(c.step_sums(), micros, model_, p.ranks);
  if (figure_due(config_, "gradient_zeros", step)) {
    const std::vector<int64_t> zeros = gather_integers(p.ranks.all(), p.optimizer.zeros_in_grads());
    result.gradient_zeros = std::accumulate(zeros.begin(), zeros.end(), int64_t{0});
  }
  const Given given = given_ ? given_(loss_scale) : Given::none;
  result.grad_norm = p.optimizer.grad_norm(c, p.ranks.all()) / loss_scale;
  result.verdict = decide(result.loss, result.grad_norm);
  if (result.verdict == Verdict::apply) {
    p.optimizer.update(c, rates, given == Given::clipped ? 0 : result.grad_norm, before_unit, loss_scale);
    if (config_.moe.load_balance == LoadBalance::bias)
      correct_routers(p.store, result.routers, config_.moe.bias_update_rate, before_unit);
  }
  p.store.end_step();
  result.times = {.micro = std::move(p.times), .reduce = reduced - computed, .update = seconds_now() - reduced};
  require(c.arena().live() == 0, "step: {} blocks of the arena are still held after the step", c.arena().live());
  return result;
}

std::unique_ptr<SequenceLoss> StepEngine::sequence_loss(const MicroBatch& micro) const {
  return config_.train.objective == TrainObjective::dpo ? std::make_unique<DpoLoss>(config_.dpo, micro) : nullptr;
}

void StepEngine::run_forward(const MicroBatch& micro, const SequenceLoss* loss) {
  Ctx& c = *ctx_;
  ModelBatch b(micro, 0, 0, loss);
  c.begin_step(0);
  c.arena().section("valid");
  for (int chunk = 0; chunk < stage_->chunks(); ++chunk) {
    c.begin(b.batch(), false);
    stage_->forward(c, chunk, false);
  }
  stage_->drain();
}

std::pair<ExactSum, int64_t> StepEngine::evaluate(const MicroBatch& micro) {
  const std::unique_ptr<SequenceLoss> loss = sequence_loss(micro);
  run_forward(micro, loss.get());
  return {ctx_->step_sums().total(StepSum::loss), micro.valid_tokens};
}

std::vector<double> StepEngine::answer_log_probs(const MicroBatch& micro) {
  std::vector<double> out;
  const AnswerLogProbs noting(out);
  run_forward(micro, &noting);
  return out;
}

}  // namespace ravine
