#include "plan/variants.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "base/parallel.h"
#include "device/limits.h"
#include "kernels/backend.h"
#include "plan/machine.h"
#include "plan/work.h"
#include "step/arithmetic.h"

namespace ravine {

int64_t memory_for_run() {
  // Each thread maps a stack and an arena of malloc; both are address space, hardly memory.
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
      compute_(types.compute),
      model_(engine.model()),
      shape_(engine.shape()),
      ranks_(engine.ranks()),
      base_(engine.memory().base) {
  const MachinePeaks peaks = known_machine_peaks().value_or(usual_machine());
  flops_f32_ = peaks.f32_flops;
  flops_bf16_ = peaks.bf16_flops;
  bytes_ = peaks.copy_bytes;
  for (const Recompute r : {Recompute::none, Recompute::cheap, Recompute::full})
    if (r == config.train.recompute || !recomputes_.empty()) recomputes_.push_back(r);
  computes_ = {compute_};
  if (compute_ == DType::f32 && backend == Backend::cpu) computes_.push_back(DType::bf16);
  for (int64_t rows = shape_.rows; rows > 0; rows = micros_.back() / 2) {
    while (shape_.rows % rows != 0) --rows;  // more micro batches by a whole factor: pipelines and leaves go on to divide them
    micros_.push_back(rows);
  }
  lengths_ = {shape_.columns};
  if (shorten)
    for (int64_t part : {2, 4})
      if (shape_.columns / part >= 2) lengths_.push_back(shape_.columns / part);
  seconds_ = plan(config.train.recompute, compute_, shape_.rows, shape_.columns).time;
}

Variant Variants::plan(Recompute recompute, DType compute, int64_t micro, int64_t length) {
  Variant v;
  auto change = [&](const char* key, const auto& was, const auto& is) {
    if (was != is) v.changes.push_back(fmt::format("{}={}", key, is));
  };
  change("train.recompute", name(config_.train.recompute), name(recompute));
  change("train.micro_batch", shape_.rows, micro);
  change("precision.compute", name(compute_), name(compute));
  change("data.sequence_length", shape_.columns, length);
  v.same_work = length == shape_.columns;
  Config config = config_;
  config.train.recompute = recompute;
  config.precision.compute = compute;
  const int64_t micros = div_exact(shape_.rows * shape_.micro_batches, micro);
  const StepShape shape{.rows = micro,
                        .columns = length,
                        .micro_batches = micros,
                        .validation = shape_.validation,
                        .leaves = std::gcd(shape_.leaves, micros)};
  WorkCount work;
  const Arithmetic arithmetic = choose_arithmetic(config.precision, backend_, cpu_arithmetic(cpu_id()));
  StepEngine engine(model_, config, Types::of(arithmetic.compute, config.precision.gradients),
                    backend_kernels(backend_, arithmetic.products), shape, &work, &ranks_);
  v.bytes = engine.memory().total() - engine.memory().base + base_;
  double tokens = static_cast<double>(micro * shape.micro_batches * length);
  double seconds = work.seconds(compute == DType::bf16 ? flops_bf16_ : flops_f32_, bytes_, shape.micro_batches) / tokens;
  v.time = seconds_ > 0 ? seconds / seconds_ : seconds;
  return v;
}

std::vector<Variants::Way> Variants::all() const {
  std::vector<Way> ways;
  for (size_t l = 0; l < lengths_.size(); ++l)
    for (size_t r = 0; r < recomputes_.size(); ++r)
      for (size_t c = 0; c < computes_.size(); ++c)
        for (size_t m = 0; m < micros_.size(); ++m) ways.push_back({.recompute = r, .compute = c, .micro = m, .length = l});
  auto strength = [](const Way& w) { return w.recompute + w.compute + w.micro + w.length; };
  std::stable_sort(ways.begin(), ways.end(), [&](const Way& a, const Way& b) { return strength(a) < strength(b); });
  return ways;
}

std::vector<Variant> Variants::that_fit(int64_t bytes, size_t count) {
  std::vector<Way> fitting;
  std::vector<Variant> out;
  for (const Way& w : all()) {
    bool needless = std::any_of(fitting.begin(), fitting.end(), [&](const Way& f) {
      return f.recompute <= w.recompute && f.compute <= w.compute && f.micro <= w.micro && f.length <= w.length;
    });
    if (needless) continue;
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
  for (const Way& w : all())
    if (Variant v = plan(w); best.bytes == 0 || v.bytes < best.bytes) best = v;
  return best;
}

std::vector<Variant> Variants::neighbours() {
  std::vector<Variant> out{plan(config_.train.recompute, compute_, shape_.rows, shape_.columns)};
  for (const Recompute r : {Recompute::none, Recompute::cheap, Recompute::full})
    if (r != config_.train.recompute) out.push_back(plan(r, compute_, shape_.rows, shape_.columns));
  int64_t global = shape_.rows * shape_.micro_batches;
  if (micros_.size() > 1) out.push_back(plan(config_.train.recompute, compute_, micros_[1], shape_.columns));
  if (global % (2 * shape_.rows) == 0 && ranks_.mesh().pipeline == 1)
    out.push_back(plan(config_.train.recompute, compute_, 2 * shape_.rows, shape_.columns));
  if (backend_ == Backend::cpu && (compute_ == DType::f32 || compute_ == DType::bf16))
    out.push_back(
        plan(config_.train.recompute, compute_ == DType::f32 ? DType::bf16 : DType::f32, shape_.rows, shape_.columns));
  return out;
}

}  // namespace ravine
