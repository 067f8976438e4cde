#include <algorithm>

#include "apps/commands.h"
#include "apps/plan_layouts.h"
#include "apps/plan_picture.h"
#include "apps/plan_procedure.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "base/text.h"
#include "dialects/deepspeed_procedure.h"
#include "files/atomic.h"
#include "kernels/backend.h"
#include "parallel/schedule_picture.h"
#include "plan/decide.h"
#include "plan/machine.h"
#include "plan/variants.h"
#include "runs/open.h"
#include "runs/run_paths.h"
#include "train/resolve.h"

namespace ravine {
namespace {

struct PlanFlags {
  ModelFlag model;
  CommonFlags common;
  bool json = false, layouts = false, decide = false, procedure = false, overwrite = false;
  int64_t ranks = 0, local = 0;
  double memory = 0;
  int64_t memory_mb = 0;
  std::string schedule, svg, deepspeed, ds_config;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("ranks", ranks, "number of ranks to plan for; 0: as set by parallel.*", between(0, kMostRanks));
    v("layouts", layouts, "list the layouts of these ranks, best first");
    v("decide", decide, "choose ZeRO stage, recomputation and micro batch for the ranks of parallel.*, with reasons");
    v("procedure", procedure, "follow the nine steps of the DeepSpeed guide, with planned bytes of each",
      detail(
          "The steps go from micro batches of 1 and gradient checkpointing to NVMe. The first step that fits gets a ds_config.json."));
    v("deepspeed", deepspeed, "ds_config.json that --procedure starts from (with --procedure, --config FILE.json is the same)",
      filled() & reads() & metavar("FILE.json"));
    v("ds-config", ds_config, "file to write: the ds_config.json of the step that --procedure chooses",
      filled() & writes() & metavar("FILE.json"));
    v("memory-mb", memory_mb, "memory of each rank in MiB, instead of --memory", between(0, 1e9));
    v("memory", memory, "memory of each rank in GiB; 0: the memory of this machine, divided by the ranks on it",
      between(0.001, 1e9) & or_zero());
    v("local", local, "ranks on one machine, which is like this one; 0: all ranks, at most one for each core",
      between(0, 4096));
    v("schedule", schedule, "draw the pipeline's schedule: on the terminal, or as SVG in a file",
      filled() & metavar("-|FILE.svg") & writes());
    v("svg", svg, "SVG file to write: the pipeline's schedule, and memory over a step by kind",
      filled() & writes() & metavar("FILE.svg"));
    v("overwrite", overwrite, "replace an existing file of that name");
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

// A plan of one layout: the facts that both of its printed forms show. memory, sent: by pipeline stage.
struct PlanFigures {
  const PlanFor& plan;
  const Config& config;
  const RunLayout& layout;
  const StepShape& shape;
  const StepEstimate& estimate;
  std::vector<RunMemory> memory;
  std::vector<Communication> sent;
  std::vector<Variant> variants;
  double flops, seconds;  // of a step; seconds at the peak of all ranks together
  double peak;            // FLOP/s of a rank

  int64_t kind(MemoryKind k) const { return memory[0].arena.peak_kind[static_cast<size_t>(k)]; }
};

// Throws UserError for flags that exclude each other, and for files that exist.
void check_flags(const PlanFlags& flags) {
  if (!flags.svg.empty() && !flags.svg.ends_with(".svg"))
    throw UserError("picture '" + flags.svg + "'", "--svg", "its name must end in .svg", "choose such a name");
  if (!flags.svg.empty() && (flags.layouts || flags.decide || !flags.schedule.empty()))
    throw UserError("--svg with --layouts, --decide or --schedule", "--svg",
                    "it draws the one plan that is printed without them", "leave one of them out");
  if (flags.procedure && (flags.layouts || flags.decide || !flags.schedule.empty() || !flags.svg.empty()))
    throw UserError("--procedure with --layouts, --decide, --schedule or --svg", "--procedure",
                    "--procedure prints a separate plan", "leave one of them out");
  if (!flags.procedure && !flags.deepspeed.empty())
    throw UserError("--deepspeed without --procedure", "--deepspeed", "it is the file that the procedure begins from",
                    "add --procedure; a run takes the file by `ravine trainer --deepspeed FILE`");
  if (!flags.procedure && !flags.ds_config.empty())
    throw UserError("--ds-config without --procedure", "--ds-config", "it is the file that the procedure writes",
                    "add --procedure");
  if (flags.memory > 0 && flags.memory_mb > 0)
    throw UserError("--memory and --memory-mb", "--memory-mb", "both set the memory, in GiB and in MiB",
                    "leave one of them out");
  for (const std::string& file : {flags.svg, flags.schedule, flags.ds_config})  // checked before the work
    if (!file.empty() && file != "-") refuse_existing_file(file, flags.overwrite);
}

Json plan_json(const PlanFigures& f) {
  const RunMemory& m = f.memory[0];
  Json j{{"parameters", f.plan.model.params().count()},
         {"active_parameters", f.plan.model.params().active_count()},
         {"weights", m.weights},
         {"optimizer", m.optimizer},
         {"disk", m.disk},
         {"gradients", f.kind(MemoryKind::gradients)},
         {"activations", f.kind(MemoryKind::activations)},
         {"workspace", f.kind(MemoryKind::workspace)},
         {"arena", m.arena.total},
         {"base", m.base},
         {"batches", m.batches},
         {"total", m.total()},
         {"flops_per_step", f.flops},
         {"seconds_per_step_at_peak", f.seconds},
         {"step", estimate_json(f.estimate)},
         {"ranks", Json::array()},
         {"variants", Json::array()}};
  for (size_t stage = 0; stage < f.memory.size(); ++stage)
    j["ranks"].push_back({{"stage", stage},
                          {"weights", f.memory[stage].weights},
                          {"optimizer", f.memory[stage].optimizer},
                          {"arena", f.memory[stage].arena.total},
                          {"total", f.memory[stage].total()},
                          {"sent_data", f.sent[stage].data},
                          {"sent_tensor", f.sent[stage].tensor},
                          {"sent_pipeline", f.sent[stage].pipeline},
                          {"sent_expert", f.sent[stage].expert}});
  for (const Variant& v : f.variants) j["variants"].push_back({{"changes", v.changes}, {"total", v.bytes}, {"time", v.time}});
  return j;
}

void print_memory(const PlanFigures& f) {
  const RunMemory& m = f.memory[0];
  auto line = [](const char* what, int64_t bytes, const char* why) {
    fmt::print("{:<12} {:>12}  {}\n", what, human_bytes(static_cast<double>(bytes)), why);
  };
  fmt::print("{} parameters, micro batch {} x {}, {} per step, {} arithmetic, recompute {}\n\n",
             human_count(static_cast<double>(f.plan.model.params().count())), f.shape.rows, counted(f.shape.columns, "token"),
             counted(f.shape.micro_batches, "micro batch"), name(f.plan.types.compute), name(f.config.train.recompute));
  if (const std::string text = experts_text(f.plan.model); !text.empty())
    fmt::print("{}\n{}\n\n", text, expert_rows_text(f.plan.model, f.shape.rows * f.shape.columns, f.layout.mesh.expert));
  line("weights", m.weights, "masters in f32, and 16-bit copies where products need them; of what is frozen one of the two");
  line("optimizer", m.optimizer, "moments");
  if (m.disk > 0) line("disk", m.disk, "in offload.path, no memory: of it the lines above have what is in use at once");
  line("arena", m.arena.total, "one block that all of a step's memory takes turns in; at its fullest moment:");
  line("  gradients", f.kind(MemoryKind::gradients), "");
  line("  activations", f.kind(MemoryKind::activations), "");
  line("  workspace", f.kind(MemoryKind::workspace), "scratch of kernels");
  line("batches", m.batches, "of the steps that the loader prepares ahead (data.prefetch)");
  line("program", m.base, "code, libraries, this process as it stands");
  line("total", m.total(), "");
  fmt::print(
      "{:<12} {:>12}  {}\n", "not in it", "",
      "the tokenizer and the tokens of train; what the process grows by as it runs, 12 to 19 MB where it was measured: code and libraries once they are used, thread stacks,");
  fmt::print("{:<12} {:>12}  {}\n", "", "",
             "ends of huge pages, buffers while files are written; with several ranks what MPI takes for each");
  for (size_t stage = 0; f.plan.ranks > 1 && stage < f.memory.size(); ++stage)
    fmt::print(
        "{}stage {:<6} {:>12}  each rank of it; sends {:.1f} MB per step over data, {:.1f} over tensor, {:.1f} over pipeline ranks{}\n",
        stage == 0 ? "\n" : "", stage, human_bytes(static_cast<double>(f.memory[stage].total())),
        static_cast<double>(f.sent[stage].data) * 1e-6, static_cast<double>(f.sent[stage].tensor) * 1e-6,
        static_cast<double>(f.sent[stage].pipeline) * 1e-6,
        f.layout.mesh.expert > 1
            ? fmt::format(", {:.1f} over expert ranks at even load", static_cast<double>(f.sent[stage].expert) * 1e-6)
            : "");
}

void print_plan(const PlanFigures& f) {
  print_memory(f);
  auto briefly = [](double s) { return s < 1 ? fmt::format("{:.3g} ms", 1000 * s) : human_time(s); };
  fmt::print("\n{} per step: {} at {}the machine's peak of {:.0f} GFLOP/s (sol 1), {} at sol 0.7\n",
             f.flops < 1e11 ? fmt::format("{:.2g} GFLOP", f.flops * 1e-9) : fmt::format("{:.2f} TFLOP", f.flops * 1e-12),
             briefly(f.seconds), f.plan.ranks > 1 ? fmt::format("{} times ", f.plan.ranks) : "", f.peak * 1e-9,
             briefly(f.seconds / 0.7));
  fmt::print("{}{}", estimate_text(f.plan, f.estimate), leaves_text(f.plan, f.layout, f.estimate));
  fmt::print("\nother ways, planned alike; time at the machine's peaks, per token\n");
  for (const Variant& v : f.variants)
    fmt::print("{:<24} {:>9} {:>5.2f} x\n", v.changes.empty() ? "as configured" : fmt::format("{}", fmt::join(v.changes, " ")),
               human_bytes(static_cast<double>(v.bytes)), v.time);
}

int run_plan(PlanFlags& flags, Config& requested) {
  if (!requested.lora.path.empty()) requested.lora.path = resolve_adapter(requested.lora.path, "lora.path");
  std::string where = model_label(requested.model);
  check_flags(flags);
  if (where.empty())
    throw UserError("no model", "model.config", "a plan needs one", "set model.config=FILE.json or model.path=FOLDER");
  const DeepSpeedStart start = flags.deepspeed.empty() ? DeepSpeedStart{} : read_deepspeed_start(flags.deepspeed, requested);
  std::unique_ptr<Model> model = open_run_model(requested);
  refuse_long_sequences(requested, model->facts());
  MachinePeaks peaks = machine_peaks();
  int ranks = narrow_option<int>(
      flags.ranks > 0 ? flags.ranks
                      : std::max<int64_t>(1, requested.parallel.data) * requested.parallel.tensor * requested.parallel.pipeline,
      "parallel.data");
  int local = narrow_option<int>(flags.local > 0 ? flags.local : std::clamp(ranks, 1, std::max(1, thread_count())), "--local");
  int64_t have = flags.memory_mb > 0 ? flags.memory_mb << 20
                 : flags.memory > 0  ? static_cast<int64_t>(flags.memory * (1 << 30))
                                     : memory_for_run() / local;
  if (flags.procedure)
    return print_procedure(*model, requested, start,
                           {.json = flags.ds_config,
                            .as_json = flags.json,
                            .overwrite = flags.overwrite,
                            .free_batch = !requested.sources.contains("train.global_batch") && !start.sets_batch,
                            .ranks = ranks,
                            .memory = have,
                            .backend = flags.common.backend});
  const RunFacts facts{.backend = flags.common.backend,
                       .ranks = ranks,
                       .cpu = cpu_arithmetic(cpu_id()),
                       .model = model.get(),
                       .columns = requested.data.sequence_length};
  const bool search = flags.layouts || flags.decide;
  RunSpec spec = search ? resolve_types(requested, facts) : resolve(requested, facts);
  const Types& types = spec.types;
  const Kernels& kernels = spec.kernels;
  PlanFor plan{.model = *model,
               .config = search ? requested : spec.options,
               .backend = flags.common.backend,
               .types = types,
               .kernels = kernels,
               .ranks = ranks,
               .columns = requested.data.sequence_length,
               .memory = have,
               .rates = known_rates(local),
               .json = flags.json};
  if (flags.layouts) return print_layouts(plan);
  if (flags.decide) return print_decision(plan);
  Config config = spec.options;  // with the resolved mesh
  const RunLayout& layout = spec.layout;
  StepEstimate estimate = estimate_of(plan, config, layout);
  if (!flags.schedule.empty()) {
    if (flags.schedule == "-") return fmt::print("{}", pipeline_chart(estimate.times)), 0;
    write_file_atomic(flags.schedule, pipeline_svg(estimate.times), may_overwrite(flags.overwrite));
    print_stderr("saved    " + escaped(flags.schedule));
    return 0;
  }
  const StepShape shape{.rows = config.train.micro_batch,
                        .columns = config.data.sequence_length,
                        .micro_batches = layout.micro_batches,
                        .leaves = layout.leaves};
  // The first rank of each pipeline stage; the other ranks of a stage are equal.
  std::vector<Ranks> of_stage;
  for (int stage = 0; stage < layout.mesh.pipeline; ++stage)
    of_stage.push_back(Ranks::fake(layout.mesh, rank_of(layout.mesh, {stage, 0, 0})));
  StepEngine engine(*model, config, types, kernels, shape, nullptr, &of_stage[0]);
  std::vector<RunMemory> memories{engine.memory()};
  std::vector<Communication> sent{engine.communication()};
  for (size_t stage = 1; stage < of_stage.size(); ++stage) {
    const StepEngine one(*model, config, types, kernels, shape, nullptr, &of_stage[stage]);
    memories.push_back(one.memory()), sent.push_back(one.communication());
  }
  if (!flags.svg.empty()) {
    write_file_atomic(flags.svg, plan_picture(estimate, memories), may_overwrite(flags.overwrite));
    print_stderr("saved    " + escaped(flags.svg));
  }
  const double flops =
      model->training_flops_per_token(shape.columns) * static_cast<double>(config.train.global_batch * shape.columns);
  const double peak = types.compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  const PlanFigures figures{.plan = plan,
                            .config = config,
                            .layout = layout,
                            .shape = shape,
                            .estimate = estimate,
                            .memory = std::move(memories),
                            .sent = std::move(sent),
                            .variants = Variants(config, flags.common.backend, types, engine, true).neighbours(),
                            .flops = flops,
                            .seconds = flops / peak / ranks,
                            .peak = peak};
  if (flags.json)
    fmt::print("{}\n", plan_json(figures).dump(-1, ' ', true, Json::error_handler_t::replace));
  else
    print_plan(figures);
  return 0;
}

}  // namespace

Command plan_command() {
  Command made = command<PlanFlags>(
      {.name = "plan",
       .summary = "predict memory and time of a run, without running it",
       .example = "ravine plan model.config=configs/llama-134m.json data.sequence_length=1024 train.micro_batch=4",
       .about =
           "Shows the memory per rank by kind, and the time of a step as this machine's peaks allow it, for the options of a run. Nothing is allocated and nothing is trained.",
       .sections = {"model", "lora", "moe", "data", "train", "dpo", "optimizer", "schedule", "precision", "parallel", "offload",
                    "checkpoint", "log", "health", "probe"},
       .shown = {"model.config", "lora.rank", "data.sequence_length", "train.global_batch", "train.micro_batch",
                 "train.recompute", "train.memory_mb", "optimizer.type", "precision.compute", "parallel.data",
                 "parallel.tensor", "parallel.pipeline", "parallel.virtual", "parallel.expert", "parallel.zero",
                 "offload.optimizer"}},
      "Train", run_plan);
  made.rewrite = procedure_words;
  return made;
}

}  // namespace ravine
