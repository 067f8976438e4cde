#include "apps/commands.h"
#include <algorithm>

#include "base/log.h"
#include "files/atomic.h"
#include "kernels/backend.h"
#include "train/layout.h"
#include "train/machine.h"
#include "train/open.h"
#include "train/variants.h"

namespace ravine {
namespace {

struct PlanFlags {
  CommonFlags common;
  bool json = false, layouts = false;
  int64_t ranks = 0;
  std::string schedule;
  template <class V>
  void each(V&& v) {
    v("ranks", ranks, "ranks to plan for; 0: as many as parallel.* names", between(0, 1 << 20));
    v("layouts", layouts, "list the layouts of these ranks, best first");
    v("schedule", schedule, "the chart of the pipeline: to the terminal, or as SVG to a file", metavar("-|FILE.svg"));
    v("json", json, "one JSON object");
    common.each(v);
  }
};

// A way to spread the run over ranks, planned.
struct PlannedLayout {
  Config config;
  RunLayout layout;
  int64_t bytes = 0;  // of the rank that needs most
  double bubble = 0, seconds = 0;
  Communication sent;  // of the rank that sends most
  std::string text() const {
    return layout.text() + (config.parallel.zero > 0 ? fmt::format(", ZeRO {}", config.parallel.zero) : "") + (config.train.recompute == "full" ? ", recompute full" : "");
  }
};

// Of every part of the pipeline what a forward costs: matrix elements.
PipelineTimes times_of(const Model& model, const Config& config, const RunLayout& layout) {
  int stages = layout.mesh.pipeline, chunks = stages > 1 ? static_cast<int>(config.parallel.virtual_stages) : 1;
  std::vector<double> forward, backward;
  for (const BlockRange& part : split_model(model, stages * chunks, config.parallel.stage_layers)) {
    double cost = 1;
    for (size_t b = part.begin; b < part.end; ++b)
      for (const Param* p : model.blocks()[b].unit->params)
        if (p->use == Use::matrix) cost += static_cast<double>(p->shape.count());
    forward.push_back(cost);
    backward.push_back((config.train.recompute == "full" ? 3 : 2) * cost);
  }
  return pipeline_times(stages, chunks, static_cast<int>(layout.micro_batches), forward, backward);
}

PlannedLayout plan_layout(Model& model, const Config& config, const Types& types, const Kernels& kernels, const RunLayout& layout, const MachinePeaks& peaks) {
  PlannedLayout out{config, layout, 0, 0, 0, {}};
  const Mesh& m = layout.mesh;
  StepShape shape{config.train.micro_batch, config.data.sequence_length, layout.micro_batches, false, layout.leaves};
  for (int stage : {0, m.pipeline - 1}) {
    Ranks fake = Ranks::fake(m, rank_of(m, {stage, 0, 0}));
    out.bytes = std::max(out.bytes, StepEngine(model, config, types, kernels, shape, nullptr, &fake).memory().total());
    Communication sent = communication_of(config, layout, model, types.compute, shape.columns, stage);
    if (sent.all() >= out.sent.all()) out.sent = sent;
    if (m.pipeline == 1) break;
  }
  out.bubble = m.pipeline > 1 ? times_of(model, config, layout).bubble : 0;
  double flops = model.training_flops_per_token(shape.columns) * static_cast<double>(config.train.global_batch * shape.columns) * (config.train.recompute == "full" ? 4.0 / 3 : 1);
  out.seconds = flops / m.ranks() / (types.compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops) / (1 - out.bubble) + out.sent.all() / peaks.copy_bytes;
  return out;
}

int run_layout_list(PlanFlags& flags, const Config& config, Model& model, int ranks, const Types& types, const Kernels& kernels, const MachinePeaks& peaks) {
  std::vector<PlannedLayout> all;
  for (const Mesh& mesh : meshes_of(config, ranks, model))
    for (int64_t zero = 0; zero <= (mesh.data > 1 ? 3 : 0); ++zero)
      for (const char* recompute : {"cheap", "full"}) {
        Config c = config;
        c.parallel.data = mesh.data;
        c.parallel.tensor = mesh.tensor;
        c.parallel.pipeline = mesh.pipeline;
        c.parallel.zero = zero;
        c.train.recompute = recompute;
        if (c.parallel.sum_leaves % mesh.data != 0) c.parallel.sum_leaves = 0;
        all.push_back(plan_layout(model, c, types, kernels, run_layout(c, ranks, model), peaks));
      }
  int64_t have = memory_for_run();
  std::stable_sort(all.begin(), all.end(), [&](const PlannedLayout& a, const PlannedLayout& b) {
    bool fits_a = a.bytes <= have, fits_b = b.bytes <= have;
    return fits_a != fits_b ? fits_a : fits_a ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  if (flags.json) {
    Json list = Json::array();
    for (const PlannedLayout& l : all)
      list.push_back({{"data", l.layout.mesh.data}, {"tensor", l.layout.mesh.tensor}, {"pipeline", l.layout.mesh.pipeline}, {"zero", l.config.parallel.zero},
                      {"recompute", l.config.train.recompute}, {"leaves", l.layout.sum_leaves}, {"memory", l.bytes}, {"sent_data", l.sent.data},
                      {"sent_tensor", l.sent.tensor}, {"sent_pipeline", l.sent.pipeline}, {"bubble", l.bubble}, {"seconds_at_peak", l.seconds}});
    fmt::print("{}\n", Json{{"ranks", ranks}, {"memory_available", have}, {"layouts", list}}.dump());
    return 0;
  }
  fmt::print("{} ranks, {} each at hand; per rank and step, sent in MB by axis; time if every rank ran at this machine's peaks\n\n{:<50} {:>10} {:>9} {:>9} {:>9} {:>7} {:>9}\n", ranks,
             human_bytes(static_cast<double>(have)), "layout", "memory", "data", "tensor", "pipeline", "bubble", "time");
  for (const PlannedLayout& l : all)
    fmt::print("{:<50} {:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>6.1f}% {:>9}{}\n", l.text(), human_bytes(static_cast<double>(l.bytes)), l.sent.data * 1e-6,
               l.sent.tensor * 1e-6, l.sent.pipeline * 1e-6, 100 * l.bubble, human_time(l.seconds),
               l.bytes > have ? "  does not fit" : &l == &all[0] ? "  best: fits, and loses least to bubble and messages" : "");
  return 0;
}

int run_plan(PlanFlags& flags, Config& config) {
  std::string where = config.model.path.empty() ? config.model.config : config.model.path;
  if (where.empty()) throw UserError("no model", "model.config", "a plan needs one", "set model.config=FILE.json or model.path=FOLDER");
  std::unique_ptr<Model> model = open_model(where);
  MachinePeaks peaks = machine_peaks();
  DType compute = compute_type(config.precision, flags.common.backend);
  Kernels kernels = backend_kernels(flags.common.backend, bf16_products(config.precision, compute, flags.common.backend));
  int ranks = static_cast<int>(flags.ranks > 0 ? flags.ranks : std::max<int64_t>(1, config.parallel.data) * config.parallel.tensor * config.parallel.pipeline);
  if (flags.layouts) return run_layout_list(flags, config, *model, ranks, Types::of(compute), kernels, peaks);
  RunLayout layout = run_layout(config, ranks, *model);
  if (!flags.schedule.empty()) {
    PipelineTimes times = times_of(*model, config, layout);
    if (flags.schedule == "-")
      fmt::print("{}", pipeline_chart(times));
    else
      write_file_atomic(flags.schedule, pipeline_svg(times));
    return 0;
  }
  StepShape shape{config.train.micro_batch, config.data.sequence_length, layout.micro_batches, false, layout.leaves};
  Ranks fake = Ranks::fake(layout.mesh, 0);
  StepEngine engine(*model, config, Types::of(compute), kernels, shape, nullptr, &fake);
  const RunMemory& m = engine.memory();
  double flops = model->training_flops_per_token(shape.columns) * static_cast<double>(config.train.global_batch * shape.columns);
  double peak = compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  std::vector<Variant> others = Variants(config, flags.common.backend, Types::of(compute), engine, true).neighbours();
  auto kind = [&](MemoryKind k) { return m.arena.peak_kind[static_cast<size_t>(k)]; };
  if (flags.json) {
    Json j{{"parameters", model->params().count()}, {"weights", m.weights}, {"optimizer", m.optimizer}, {"gradients", kind(MemoryKind::gradients)},
           {"activations", kind(MemoryKind::activations)}, {"workspace", kind(MemoryKind::workspace)}, {"arena", m.arena.total}, {"base", m.base},
           {"total", m.total()}, {"flops_per_step", flops}, {"seconds_per_step_at_peak", flops / peak / ranks}, {"ranks", Json::array()}, {"variants", Json::array()}};
    for (int stage = 0; stage < layout.mesh.pipeline; ++stage) {
      Ranks at = Ranks::fake(layout.mesh, rank_of(layout.mesh, {stage, 0, 0}));
      StepEngine one(*model, config, Types::of(compute), kernels, shape, nullptr, &at);
      Communication sent = communication_of(config, layout, *model, compute, shape.columns, stage);
      j["ranks"].push_back({{"stage", stage}, {"weights", one.memory().weights}, {"optimizer", one.memory().optimizer}, {"arena", one.memory().arena.total},
                            {"total", one.memory().total()}, {"sent_data", sent.data}, {"sent_tensor", sent.tensor}, {"sent_pipeline", sent.pipeline}});
    }
    for (const Variant& v : others) j["variants"].push_back({{"changes", v.changes}, {"total", v.bytes}, {"time", v.time}});
    fmt::print("{}\n", j.dump());
    return 0;
  }
  auto line = [](const char* what, int64_t bytes, const char* why) { fmt::print("{:<12} {:>12}  {}\n", what, human_bytes(static_cast<double>(bytes)), why); };
  fmt::print("{} parameters, micro batch {} x {} tokens, {} micro batches per step, {} arithmetic, recompute {}\n\n",
             human_count(static_cast<double>(model->params().count())), shape.rows, shape.columns, shape.micro_batches, name(compute), config.train.recompute);
  line("weights", m.weights, "masters in f32, and 16-bit copies where products need them");
  line("optimizer", m.optimizer, "moments");
  line("arena", m.arena.total, "one block that all of a step's memory takes turns in; at its fullest moment:");
  line("  gradients", kind(MemoryKind::gradients), "");
  line("  activations", kind(MemoryKind::activations), "");
  line("  workspace", kind(MemoryKind::workspace), "scratch of kernels");
  line("program", m.base, "code, libraries, this process as it stands");
  line("total", m.total(), "");
  for (int stage = 0; ranks > 1 && stage < layout.mesh.pipeline; ++stage) {
    Ranks at = Ranks::fake(layout.mesh, rank_of(layout.mesh, {stage, 0, 0}));
    StepEngine one(*model, config, Types::of(compute), kernels, shape, nullptr, &at);
    Communication sent = communication_of(config, layout, *model, compute, shape.columns, stage);
    fmt::print("{}stage {:<6} {:>12}  each rank of it; sends {:.1f} MB per step over data, {:.1f} over tensor, {:.1f} over pipeline ranks\n", stage == 0 ? "\n" : "", stage,
               human_bytes(static_cast<double>(one.memory().total())), sent.data * 1e-6, sent.tensor * 1e-6, sent.pipeline * 1e-6);
  }
  fmt::print("\n{:.2f} TFLOP per step: {} at {}the machine's peak of {:.0f} GFLOP/s, {} at sol 0.7\n", flops * 1e-12, human_time(flops / peak / ranks),
             ranks > 1 ? fmt::format("{} times ", ranks) : "", peak * 1e-9, human_time(flops / peak / ranks / 0.7));
  fmt::print("\nother ways, planned alike; time at the machine's peaks, per token\n");
  for (const Variant& v : others)
    fmt::print("{:<24} {:>9} {:>5.2f} x\n", v.changes.empty() ? "as configured" : fmt::format("{}", fmt::join(v.changes, " ")),
               human_bytes(static_cast<double>(v.bytes)), v.time);
  return 0;
}

}  // namespace

Command plan_command() {
  return command<PlanFlags>({.name = "plan",
                             .summary = "memory and time of a run, without running it",
                             .example = "ravine plan model.config=configs/llama-134m.json data.sequence_length=1024 train.micro_batch=4",
                             .sections = {"model", "data", "train", "optimizer", "precision", "parallel"}},
                            "Train", run_plan);
}

}  // namespace ravine
