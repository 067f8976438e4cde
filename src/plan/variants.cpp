#include "plan/variants.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "base/parallel.h"
#include "device/limits.h"

namespace ravine {
namespace {

// in the order of the memory they save
constexpr Recompute kRecomputes[] = {Recompute::none, Recompute::cheap, Recompute::full};

}  // namespace

int64_t memory_for_run() {
  // Each thread maps a stack and an arena of malloc: address space, almost no memory.
  constexpr int64_t kPerThread = int64_t{72} << 20;
  int64_t room = available_memory(), threads = thread_count() + 3;
  if (int64_t limit = process_room(); limit < int64_t{1} << 60) room = std::min(room, limit - threads * kPerThread);
  return std::max<int64_t>(0, room) + resident_memory();
}

std::string Variant::text() const {
  return fmt::format("{} ({}, {:.2f} x the time)", fmt::join(changes, " "), human_bytes(static_cast<double>(bytes)), time);
}

Variants::Variants(const Config& config, Backend backend, const Types& types, StepEngine& engine, bool shorten)
    : config_(config),
      backend_(backend),
      model_(engine.model()),
      shape_(engine.shape()),
      ranks_(engine.ranks()),
      base_(engine.memory().base),
      peaks_(known_machine_peaks().value_or(usual_machine())),
      configured_{.mesh = ranks_.mesh(),
                  .zero = config.parallel.zero,
                  .recompute = config.train.recompute,
                  .micro_batch = shape_.rows,
                  .length = shape_.columns,
                  .compute = types.compute},
      knobs_(configured_) {
  for (const Recompute r : kRecomputes)
    if (r > configured_.recompute) knobs_.recomputes.push_back(r);
  if (types.compute == DType::f32 && backend == Backend::cpu) knobs_.computes.push_back(DType::bf16);
  for (int64_t rows = shape_.rows / 2; rows > 0; rows /= 2) {
    while (shape_.rows % rows != 0) --rows;  // pipelines and leaves must still divide the micro batches
    knobs_.micro_batches.push_back(rows);
  }
  if (shorten)
    for (int64_t part : {2, 4})
      if (shape_.columns / part >= 2) knobs_.lengths.push_back(shape_.columns / part);
  seconds_ = plan(configured_).time;
}

Variant Variants::plan(const Trial& trial) {
  Variant v;
  v.changes = trial.changes(configured_);
  v.same_work = trial.length == shape_.columns;
  const Config config = trial.config(config_);
  const int64_t micros = div_exact(shape_.rows * shape_.micro_batches, trial.micro_batch);
  const StepShape shape{.rows = trial.micro_batch,
                        .columns = trial.length,
                        .micro_batches = micros,
                        .validation = shape_.validation,
                        .leaves = std::gcd(shape_.leaves, micros)};
  WorkCount work;
  const auto [types, kernels] = planned_types(config, backend_);
  v.bytes = planned_step(model_, config, types, kernels, shape, ranks_, &work).bytes + base_;
  const double tokens = static_cast<double>(trial.micro_batch * micros * trial.length);
  const double flops = types.compute == DType::bf16 ? peaks_.bf16_flops : peaks_.f32_flops;
  const double seconds = work.seconds(flops, peaks_.copy_bytes, micros) / tokens;
  v.time = seconds_ > 0 ? seconds / seconds_ : seconds;
  return v;
}

std::vector<Variant> Variants::that_fit(int64_t bytes, size_t count) {
  std::vector<Trial> fitting;
  std::vector<Variant> out;
  for (const Trial& w : knobs_.mildest_first()) {
    // a smaller change fits
    if (std::any_of(fitting.begin(), fitting.end(), [&](const Trial& f) { return f.at_most(w); })) continue;
    Variant v = plan(w);
    if (v.bytes > bytes) continue;
    fitting.push_back(w);
    out.push_back(std::move(v));
  }
  std::stable_sort(out.begin(), out.end(), [](const Variant& a, const Variant& b) {
    return a.same_work != b.same_work ? a.same_work : a.time < b.time;
  });
  if (out.size() > count) out.resize(count);
  return out;
}

Variant Variants::smallest() {
  Variant best;
  for (const Trial& w : knobs_.mildest_first())
    if (Variant v = plan(w); best.bytes == 0 || v.bytes < best.bytes) best = v;
  return best;
}

std::vector<Variant> Variants::neighbours() {
  std::vector<Variant> out{plan(configured_)};
  auto turned = [&](auto knob, auto value) { out.push_back(plan(configured_.with(knob, value))); };
  for (const Recompute r : kRecomputes)
    if (r != configured_.recompute) turned(&Trial::recompute, r);
  if (knobs_.micro_batches.size() > 1) turned(&Trial::micro_batch, knobs_.micro_batches[1]);
  if (shape_.rows * shape_.micro_batches % (2 * shape_.rows) == 0 && ranks_.mesh().pipeline == 1)
    turned(&Trial::micro_batch, 2 * shape_.rows);
  if (backend_ == Backend::cpu && configured_.compute == DType::f32) turned(&Trial::compute, DType::bf16);
  if (backend_ == Backend::cpu && configured_.compute == DType::bf16) turned(&Trial::compute, DType::f32);
  return out;
}

}  // namespace ravine
