#include "plan/decide.h"

#include <algorithm>
#include <set>

#include "device/limits.h"
#include "kernels/backend.h"
#include "step/arithmetic.h"

namespace ravine {

PlannedRanks plan_ranks(Model& model, const Config& config, const RunLayout& layout, const Types& types, const Kernels& kernels,
                        int64_t columns) {
  const Mesh& m = layout.mesh;
  const StepShape shape{
      .rows = config.train.micro_batch, .columns = columns, .micro_batches = layout.micro_batches, .leaves = layout.leaves};
  static const int64_t program = resident_memory();  // what planning leaves behind is no part of a run
  PlannedRanks out;
  for (int stage : std::set<int>{0, std::min(1, m.pipeline - 1), m.pipeline - 1}) {
    Ranks fake = Ranks::fake(m, rank_of(m, {stage, 0, 0}));
    const StepEngine engine(model, config, types, kernels, shape, nullptr, &fake);
    out.bytes = std::max(out.bytes, engine.memory().total() - engine.memory().base + program);
    if (engine.communication().all() >= out.sent.all()) out.sent = engine.communication();
  }
  return out;
}

const DecisionStep* Decision::choice() const {
  for (auto it = steps.rbegin(); it != steps.rend(); ++it)
    if (it->fits) return &*it;
  return nullptr;
}

std::vector<std::string> Decision::settings() const {
  const DecisionStep* c = choice();
  if (!c) return {};
  return {fmt::format("parallel.zero={}", c->config.parallel.zero),
          fmt::format("train.recompute={}", name(c->config.train.recompute)),
          fmt::format("train.micro_batch={}", c->config.train.micro_batch),
          fmt::format("precision.compute={}", name_or(c->config.precision.compute, kAuto))};
}

namespace {

bool layout_fits(const Config& c, int ranks, const Model& model) {
  try {
    run_layout(c, ranks, model);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

Decision decide(Model& model, const Config& asked, Backend backend, int ranks, int64_t columns, int64_t have) {
  Decision out;
  Config c = asked;
  c.train.micro_batch = 1;
  c.train.recompute = Recompute::cheap;
  c.parallel.zero = 0;
  auto attempt = [&](const std::string& setting, const std::string& why) {
    RunLayout layout = run_layout(c, ranks, model);
    const Arithmetic arithmetic = choose_arithmetic(c.precision, backend, cpu_arithmetic(cpu_id()));
    Kernels kernels = backend_kernels(backend, arithmetic.products);
    int64_t bytes = plan_ranks(model, c, layout, Types::of(arithmetic.compute, c.precision.gradients), kernels, columns).bytes;
    out.steps.push_back({.config = c, .layout = layout, .setting = setting, .why = why, .bytes = bytes, .fits = bytes <= have});
    return out.steps.back().fits;
  };
  auto search = [&] {
    if (attempt("train.micro_batch=1", "any batch comes of accumulation; nothing else is given up")) return true;
    int64_t data = out.steps.back().layout.mesh.data, micros = out.steps.back().layout.micro_batches;
    if (data > 1) {
      c.parallel.zero = 1;
      if (attempt("parallel.zero=1", fmt::format("the optimizer's state over {} data ranks; sends no more", data))) return true;
    }
    c.train.recompute = Recompute::full;
    if (attempt("train.recompute=full", "activations are computed again: a third more arithmetic")) return true;
    if (data > 1) {
      c.parallel.zero = 2;
      if (attempt("parallel.zero=2",
                  fmt::format("gradients too; {} x the parameters are sent per step instead of 2 x", micros + 1)))
        return true;
      c.parallel.zero = 3;
      if (attempt("parallel.zero=3",
                  fmt::format("weights too, gathered around each layer; {} x the parameters are sent", 3 * micros)))
        return true;
    }
    if (c.precision.compute != DType::f32 || backend != Backend::cpu) return false;
    c.precision.compute = DType::bf16;
    return attempt("precision.compute=bf16", "activations halve; other rounding");
  };
  if (!search()) return out;
  // Larger micro batches are faster: products of more rows, weights read less often.
  for (;;) {
    c.train.micro_batch *= 2;
    if (c.train.global_batch % c.train.micro_batch != 0 || !layout_fits(c, ranks, model)) break;
    if (!attempt(fmt::format("train.micro_batch={}", c.train.micro_batch), "larger products, weights read less often")) break;
  }
  return out;
}

}  // namespace ravine
