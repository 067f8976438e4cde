#include "apps/plan_layouts.h"

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "parallel/fit.h"

namespace ravine {
namespace {

std::string step_time(double s) { return s < 10 ? fmt::format("{:.0f} ms", s * 1000) : human_time(s); }

// A layout of the run over ranks, with its plan.
struct PlannedLayout {
  Config config;
  RunLayout layout;
  int64_t bytes = 0;  // maximum over ranks
  StepEstimate time;
  Communication sent;  // maximum over ranks
  std::string text() const {
    return layout.text() + (config.parallel.zero > 0 ? fmt::format(", ZeRO {}", config.parallel.zero) : "") +
           (config.train.recompute == Recompute::full ? ", recompute full" : "") +
           (layout.leaves > 1 ? fmt::format(", {} leaves", layout.sum_leaves) : "");
  }
};

// Returns the config without options that are not valid on this mesh.
Config on_mesh(Config c, const Mesh& mesh, int64_t columns) {
  if (mesh.pipeline * c.parallel.virtual_stages != static_cast<int64_t>(c.parallel.stage_layers.size()))
    c.parallel.stage_layers.clear();
  if (mesh.pipeline * c.parallel.virtual_stages != static_cast<int64_t>(c.train.recompute_layers.size()))
    c.train.recompute_layers.clear();
  const int64_t leaves = c.parallel.sum_leaves;
  if (leaves % mesh.data != 0 || (leaves > 0 && micro_batches_of(c) % leaves != 0)) c.parallel.sum_leaves = 0;
  if (c.parallel.sequence && c.train.micro_batch * columns % mesh.tensor != 0) c.parallel.sequence = false;
  return c;
}

PlannedLayout plan_layout(const PlanFor& plan, const Config& config, const RunLayout& layout) {
  PlannedLayout out{config, layout, 0, {}, {}};
  out.time = estimate_of(plan, out.config, layout);
  const PlannedStep planned = plan_ranks(plan.model, out.config, layout, plan.types, plan.kernels, plan.columns);
  out.bytes = planned.bytes, out.sent = planned.sent;
  return out;
}

// Returns why the first layout is the best: the time that its step loses, compared with the next one.
std::string reason(const std::vector<PlannedLayout>& all, int64_t have) {
  const PlannedLayout& best = all[0];
  if (best.bytes > have) return "nothing fits; the first needs least";
  const StepEstimate& e = best.time;
  std::string why =
      fmt::format("it fits, and of its {} {:.0f} % are arithmetic", step_time(e.seconds), 100 * e.compute / e.seconds);
  auto part = [&](const char* what, double seconds) {
    if (seconds > 0.005 * e.seconds) why += fmt::format(", {:.0f} % {}", 100 * seconds / e.seconds, what);
  };
  part("waiting in the pipeline", e.bubble * e.times.length);
  part("sums over tensor ranks", e.tensor);
  part("exchange between data ranks", e.data);
  part("sums over leaves", e.leaves);
  part("update", e.update);
  for (size_t i = 1; i < all.size() && all[i].bytes <= have; ++i)
    if (!(all[i].layout.mesh == best.layout.mesh))
      return why +
             fmt::format("; the best other mesh, {}, takes {:.2f} x as long", all[i].text(), all[i].time.seconds / e.seconds);
  return why;
}

}  // namespace

StepEstimate estimate_of(const PlanFor& plan, Config& c, const RunLayout& layout) {
  c.parallel.data = layout.mesh.data, c.parallel.tensor = layout.mesh.tensor, c.parallel.pipeline = layout.mesh.pipeline;
  c.parallel.expert = layout.mesh.expert;
  if (c.parallel.split == StageSplit::cost && layout.mesh.pipeline > 1 && c.parallel.stage_layers.empty())
    c.parallel.stage_layers = layers_by_cost(plan.model, c, plan.types, plan.kernels, plan.columns);
  return estimate_step(plan.model, c, layout, plan.types, plan.columns, plan.rates,
                       block_costs(plan.model, c, plan.types, plan.kernels, plan.columns, plan.rates));
}

int print_layouts(const PlanFor& plan) {
  std::vector<PlannedLayout> all;
  Knobs knobs(
      Trial{.micro_batch = plan.config.train.micro_batch, .length = plan.columns, .compute = plan.config.precision.compute});
  knobs.meshes = meshes_of(plan.ranks, plan.config.parallel, plan.model, micro_batches_of(plan.config));
  knobs.zeros = {0, 1, 2, 3};
  knobs.recomputes = {Recompute::cheap, Recompute::full};
  for (const Trial& trial : knobs.trials()) {
    const Config c = on_mesh(trial.config(plan.config), trial.mesh, plan.columns);
    all.push_back(plan_layout(plan, c, run_layout(c, plan.ranks, plan.model)));
  }
  if (all.empty()) run_layout(plan.config, plan.ranks, plan.model);  // throws, with the valid meshes
  int64_t have = plan.memory;
  std::stable_sort(all.begin(), all.end(), [&](const PlannedLayout& a, const PlannedLayout& b) {
    bool fits_a = a.bytes <= have, fits_b = b.bytes <= have;
    return fits_a != fits_b ? fits_a : fits_a ? a.time.seconds < b.time.seconds : a.bytes < b.bytes;
  });
  std::string why = all.empty() ? "" : reason(all, have);
  if (plan.json) {
    Json list = Json::array();
    for (const PlannedLayout& l : all) {
      list.push_back({{"data", l.layout.mesh.data},
                      {"tensor", l.layout.mesh.tensor},
                      {"pipeline", l.layout.mesh.pipeline},
                      {"expert", l.layout.mesh.expert},
                      {"zero", l.config.parallel.zero},
                      {"recompute", name(l.config.train.recompute)},
                      {"leaves", l.layout.sum_leaves},
                      {"memory", l.bytes},
                      {"fits", l.bytes <= have},
                      {"sent_data", l.sent.data},
                      {"sent_tensor", l.sent.tensor},
                      {"sent_pipeline", l.sent.pipeline},
                      {"sent_expert", l.sent.expert},
                      {"bubble", l.time.bubble},
                      {"step", estimate_json(l.time)}});
    }
    fmt::print("{}\n", Json{{"ranks", plan.ranks}, {"memory_available", have}, {"layouts", list}, {"best", why}}.dump(
                           -1, ' ', true, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print(
      "{} ranks of {} each; per rank and step, sent in MB by axis, and the predicted time of a step\n\n{:<56} {:>10} {:>9} {:>9} {:>9} {:>7} {:>9}\n",
      plan.ranks, human_bytes(static_cast<double>(have)), "layout", "memory", "data", "tensor", "pipeline", "bubble", "step");
  for (const PlannedLayout& l : all)
    fmt::print("{:<56} {:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>6.1f}% {:>9}{}\n", l.text(),
               human_bytes(static_cast<double>(l.bytes)), static_cast<double>(l.sent.data) * 1e-6,
               static_cast<double>(l.sent.tensor) * 1e-6, static_cast<double>(l.sent.pipeline) * 1e-6, 100 * l.time.bubble,
               step_time(l.time.seconds),
               l.bytes > have  ? "  does not fit"
               : &l == &all[0] ? "  best"
                               : "");
  if (!why.empty()) fmt::print("\nbest: {}\n{}", why, estimate_text(plan, all[0].time));
  return 0;
}

int print_decision(const PlanFor& plan) {
  Decision d = decide(plan.model, plan.config, plan.backend, plan.ranks, plan.columns, plan.memory);
  const DecisionStep* choice = d.choice();
  if (plan.json) {
    Json list = Json::array();
    for (const DecisionStep& s : d.steps)
      list.push_back({{"setting", s.setting}, {"why", s.why}, {"memory", s.bytes}, {"fits", s.fits}});
    Json settings = d.settings();
    fmt::print(
        "{}\n",
        Json{{"ranks", plan.ranks}, {"memory_available", plan.memory}, {"steps", list}, {"choice", choice ? settings : Json()}}
            .dump(-1, ' ', true, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{} ranks of {} each, {}; what saves memory is tried in the order of what it costs, until it fits\n\n", plan.ranks,
             human_bytes(static_cast<double>(plan.memory)), d.steps[0].layout.text());
  bool fitted = false;
  for (const DecisionStep& s : d.steps) {
    if (s.fits && !fitted) fitted = true;
    fmt::print("{:<28} {:>10}  {}  ({})\n", s.setting, human_bytes(static_cast<double>(s.bytes)),
               s.fits ? "fits          " : "does not fit  ", s.why);
  }
  if (choice) {
    fmt::print("\nuse {}\n", fmt::join(d.settings(), " "));
    return 0;
  }
  int64_t least = d.steps[0].bytes;
  for (const DecisionStep& s : d.steps) least = std::min(least, s.bytes);
  fmt::print(
      "\nnothing fits: the least is {}; more tensor or pipeline ranks divide weights and activations further, and more data ranks under parallel.zero=3 do too "
      "(see `ravine plan --layouts --ranks N`)\n",
      human_bytes(static_cast<double>(least)));
  return 0;
}

std::string estimate_text(const PlanFor& plan, const StepEstimate& e) {
  std::string out = fmt::format("predicted step {}: arithmetic {}", step_time(e.seconds), step_time(e.compute));
  auto part = [&](const char* what, double seconds) {
    if (seconds > 0) out += fmt::format(", {} {}", what, step_time(seconds));
  };
  part("waiting in the pipeline", e.bubble * e.times.length);
  part("messages between stages", e.pipeline);
  part("sums over tensor ranks", e.tensor);
  part("exchange between data ranks", e.data);
  part("sums over leaves", e.leaves);
  part("update", e.update);
  const Rates& r = plan.rates;
  out += fmt::format(
      "\nby what was measured here{}: {:.2f} of {:.0f} GFLOP/s and {:.1f} GB/s of memory for each of {} rank{} that share a machine\n",
      r.measured ? ", once (`ravine bench machine` measures anew)"
                 : " (nothing was: usual figures; see `ravine bench machine`)",
      r.step_share, (plan.types.compute == DType::bf16 ? r.flops_bf16 : r.flops_f32) * 1e-9, r.bytes * 1e-9, r.local,
      r.local > 1 ? "s" : "");
  if (plan.ranks > 1)
    out += r.messages.measured
               ? fmt::format("messages as measured between {} ranks of this machine\n", r.messages.ranks)
               : fmt::format("messages between ranks are a guess: `mpirun -n {} ravine bench messages` measures them\n",
                             std::max(2, r.local));
  return out;
}

Json estimate_json(const StepEstimate& e) {
  return {{"seconds", e.seconds}, {"compute", e.compute}, {"tensor", e.tensor}, {"pipeline", e.pipeline},
          {"data", e.data},       {"leaves", e.leaves},   {"update", e.update}, {"bubble", e.bubble}};
}

std::string leaves_text(const PlanFor& plan, const RunLayout& layout, const StepEstimate& e) {
  if (layout.leaves < 2) return "";
  Config one = plan.config;
  one.parallel.sum_leaves = layout.mesh.data;
  auto bytes = [&](const Config& c) {
    return static_cast<double>(
        plan_ranks(plan.model, c, run_layout(c, plan.ranks, plan.model), plan.types, plan.kernels, plan.columns).bytes);
  };
  return fmt::format(
      "parallel.sum_leaves={}: a rank keeps the sums of {} leaves, up to {} sets of gradients at a time: {} more than with one leaf, and {} of additions per step\n",
      layout.sum_leaves, layout.leaves, std::bit_width(static_cast<uint64_t>(layout.leaves)),
      human_bytes(std::max(0.0, bytes(plan.config) - bytes(one))), step_time(e.leaves));
}

}  // namespace ravine
