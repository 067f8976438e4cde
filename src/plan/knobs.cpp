#include "plan/knobs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "device/limits.h"
#include "kernels/backend.h"
#include "step/arithmetic.h"

namespace ravine {

Config Trial::config(const Config& base) const {
  Config c = base;
  c.parallel.data = mesh.data, c.parallel.tensor = mesh.tensor, c.parallel.pipeline = mesh.pipeline;
  c.parallel.expert = mesh.expert;
  c.parallel.zero = zero;
  c.train.recompute = recompute;
  c.train.micro_batch = micro_batch;
  c.precision.compute = compute;
  return c;
}

std::vector<std::string> Trial::changes(const Trial& from) const {
  std::vector<std::string> out;
  auto change = [&](const char* key, const auto& was, const auto& is) {
    if (was != is) out.push_back(fmt::format("{}={}", key, is));
  };
  change("parallel.data", from.mesh.data, mesh.data);
  change("parallel.tensor", from.mesh.tensor, mesh.tensor);
  change("parallel.pipeline", from.mesh.pipeline, mesh.pipeline);
  change("parallel.expert", from.mesh.expert, mesh.expert);
  change("parallel.zero", from.zero, zero);
  change("train.recompute", name(from.recompute), name(recompute));
  change("train.micro_batch", from.micro_batch, micro_batch);
  change("precision.compute", name_or(from.compute, kAuto), name_or(compute, kAuto));
  change("data.sequence_length", from.length, length);
  return out;
}

bool Trial::at_most(const Trial& other) const {
  return std::equal(notches.begin(), notches.end(), other.notches.begin(), std::less_equal{});
}

Knobs::Knobs(const Trial& only)
    : meshes{only.mesh},
      zeros{only.zero},
      recomputes{only.recompute},
      computes{only.compute},
      micro_batches{only.micro_batch},
      lengths{only.length} {}

std::vector<Trial> Knobs::trials() const {
  std::vector<Trial> out{Trial{}};
  size_t knob = 0;
  auto turn = [&](const auto& values, auto set) {
    std::vector<Trial> turned;
    for (const Trial& w : out)
      for (size_t i = 0; i < values.size(); ++i) {
        Trial next = w;
        next.notches[knob] = i;
        set(next, values[i]);
        turned.push_back(next);
      }
    out = std::move(turned);
    ++knob;
  };
  turn(meshes, [](Trial& w, const Mesh& v) { w.mesh = v; });
  turn(zeros, [](Trial& w, int64_t v) { w.zero = v; });
  turn(lengths, [](Trial& w, int64_t v) { w.length = v; });
  turn(recomputes, [](Trial& w, Recompute v) { w.recompute = v; });
  turn(computes, [](Trial& w, std::optional<DType> v) { w.compute = v; });
  turn(micro_batches, [](Trial& w, int64_t v) { w.micro_batch = v; });
  std::erase_if(out, [](const Trial& w) { return w.notches[1] > 0 && w.mesh.data == 1; });
  return out;
}

std::vector<Trial> Knobs::mildest_first() const {
  std::vector<Trial> out = trials();
  auto turned = [](const Trial& w) { return std::reduce(w.notches.begin(), w.notches.end()); };
  std::stable_sort(out.begin(), out.end(), [&](const Trial& a, const Trial& b) { return turned(a) < turned(b); });
  return out;
}

PlannedTypes planned_types(const Config& config, Backend backend) {
  const Arithmetic arithmetic = choose_arithmetic(config.precision, backend, cpu_arithmetic(cpu_id()));
  return {Types::of(arithmetic.compute, config.precision.gradients), backend_kernels(backend, arithmetic.products)};
}

PlannedStep planned_step(Model& model, const Config& config, const Types& types, const Kernels& kernels, const StepShape& shape,
                         Ranks& ranks, WorkCount* work) {
  const StepEngine engine(model, config, types, kernels, shape, work, &ranks);
  return {engine.memory().total() - engine.memory().base, engine.communication()};
}

PlannedStep plan_ranks(Model& model, const Config& config, const RunLayout& layout, const Types& types, const Kernels& kernels,
                       int64_t columns) {
  const Mesh& m = layout.mesh;
  const StepShape shape{
      .rows = config.train.micro_batch, .columns = columns, .micro_batches = layout.micro_batches, .leaves = layout.leaves};
  static const int64_t program = resident_memory();  // memory left over from planning is not part of a run
  PlannedStep out;
  for (int stage : std::set<int>{0, std::min(1, m.pipeline - 1), m.pipeline - 1}) {
    Ranks fake = Ranks::fake(m, rank_of(m, {stage, 0, 0}));
    const PlannedStep one = planned_step(model, config, types, kernels, shape, fake);
    out.bytes = std::max(out.bytes, one.bytes + program);
    if (one.sent.all() >= out.sent.all()) out.sent = one.sent;
  }
  return out;
}

}  // namespace ravine
