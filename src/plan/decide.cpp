#include "plan/decide.h"

namespace ravine {

const DecisionStep* Decision::choice() const {
  for (auto it = steps.rbegin(); it != steps.rend(); ++it)
    if (it->fits) return &*it;
  return nullptr;
}

std::vector<std::string> Decision::settings() const {
  const DecisionStep* c = choice();
  if (!c) return {};
  return {fmt::format("parallel.zero={}", c->trial.zero), fmt::format("train.recompute={}", name(c->trial.recompute)),
          fmt::format("train.micro_batch={}", c->trial.micro_batch),
          fmt::format("precision.compute={}", name_or(c->trial.compute, kAuto))};
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

Decision decide(Model& model, const Config& requested, Backend backend, int ranks, int64_t columns, int64_t have) {
  Decision out;
  Trial trial{.length = columns, .compute = requested.precision.compute};
  Config smallest = requested;
  smallest.train.micro_batch = 1;
  smallest.parallel.zero = 0;
  trial.mesh = run_layout(smallest, ranks, model).mesh;
  auto attempt = [&](const Trial& next, const std::string& why) {
    std::string setting = out.steps.empty() ? "train.micro_batch=1" : fmt::format("{}", fmt::join(next.changes(trial), " "));
    trial = next;
    const Config c = trial.config(requested);
    const RunLayout layout = run_layout(c, ranks, model);
    const auto [types, kernels] = planned_types(c, backend);
    const int64_t bytes = plan_ranks(model, c, layout, types, kernels, columns).bytes;
    out.steps.push_back(
        {.trial = trial, .layout = layout, .setting = setting, .why = why, .bytes = bytes, .fits = bytes <= have});
    return out.steps.back().fits;
  };
  auto search = [&] {
    if (attempt(trial, "any batch comes of accumulation; nothing else is given up")) return true;
    const int64_t data = trial.mesh.data, micros = out.steps.back().layout.micro_batches;
    if (data > 1 &&
        attempt(trial.with(&Trial::zero, 1), fmt::format("the optimizer's state over {} data ranks; sends no more", data)))
      return true;
    if (attempt(trial.with(&Trial::recompute, Recompute::full), "activations are computed again: a third more arithmetic"))
      return true;
    if (data > 1) {
      if (attempt(trial.with(&Trial::zero, 2),
                  fmt::format("gradients too; {} x the parameters are sent per step instead of 2 x", micros + 1)))
        return true;
      if (attempt(trial.with(&Trial::zero, 3),
                  fmt::format("weights too, gathered around each layer; {} x the parameters are sent", 3 * micros)))
        return true;
    }
    if (trial.compute != DType::f32 || backend != Backend::cpu) return false;
    return attempt(trial.with(&Trial::compute, DType::bf16), "activations halve; other rounding");
  };
  if (!search()) return out;
  // Larger micro batches are faster: products have more rows, and weights are read less often.
  for (;;) {
    const Trial next = trial.with(&Trial::micro_batch, 2 * trial.micro_batch);
    if (requested.train.global_batch % next.micro_batch != 0 || !layout_fits(next.config(requested), ranks, model)) break;
    if (!attempt(next, "larger products, weights read less often")) break;
  }
  return out;
}

}  // namespace ravine
