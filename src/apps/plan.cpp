#include "apps/commands.h"
#include "base/log.h"
#include "kernels/backend.h"
#include "train/machine.h"
#include "train/open.h"
#include "train/variants.h"

namespace ravine {
namespace {

struct PlanFlags {
  CommonFlags common;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("json", json, "one JSON object");
    common.each(v);
  }
};

int run_plan(PlanFlags& flags, Config& config) {
  std::string where = config.model.path.empty() ? config.model.config : config.model.path;
  if (where.empty()) throw UserError("no model", "model.config", "a plan needs one", "set model.config=FILE.json or model.path=FOLDER");
  std::unique_ptr<Model> model = open_model(where);
  MachinePeaks peaks = machine_peaks();
  DType compute = compute_type(config.precision, flags.common.backend);
  StepShape shape{config.train.micro_batch, config.data.sequence_length, div_exact(config.train.global_batch, config.train.micro_batch), false};
  StepEngine engine(*model, config, Types::of(compute), backend_kernels(flags.common.backend, bf16_products(config.precision, compute, flags.common.backend)), shape);
  const RunMemory& m = engine.memory();
  double flops = model->training_flops_per_token(shape.columns) * static_cast<double>(config.train.global_batch * shape.columns);
  double peak = compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  std::vector<Variant> others = Variants(config, flags.common.backend, Types::of(compute), engine, true).neighbours();
  auto kind = [&](MemoryKind k) { return m.arena.peak_kind[static_cast<size_t>(k)]; };
  if (flags.json) {
    Json j{{"parameters", model->params().count()}, {"weights", m.weights}, {"optimizer", m.optimizer}, {"gradients", kind(MemoryKind::gradients)},
           {"activations", kind(MemoryKind::activations)}, {"workspace", kind(MemoryKind::workspace)}, {"arena", m.arena.total}, {"base", m.base},
           {"total", m.total()}, {"flops_per_step", flops}, {"seconds_per_step_at_peak", flops / peak}, {"variants", Json::array()}};
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
  fmt::print("\n{:.2f} TFLOP per step: {} at the machine's peak of {:.0f} GFLOP/s, {} at sol 0.7\n", flops * 1e-12, human_time(flops / peak), peak * 1e-9,
             human_time(flops / peak / 0.7));
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
                             .sections = {"model", "data", "train", "optimizer", "precision"}},
                            "Train", run_plan);
}

}  // namespace ravine
