#include "train/open_run.h"

#include <filesystem>

#include "base/version.h"
#include "device/device.h"
#include "device/limits.h"
#include "io/checkpoint.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/open_weights.h"
#include "kernels/backend.h"
#include "plan/choose_recompute.h"
#include "plan/decide.h"
#include "plan/estimate.h"
#include "plan/variants.h"
#include "runs/adapter.h"
#include "runs/healthy_only.h"
#include "runs/open.h"
#include "runs/run_record.h"
#include "step/arithmetic.h"
#include "train/check_reference.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

// What a run keeps lies in memory: a config may name a disk, to be shown and translated, but no run can work so.
void refuse_disk(const Config& c) {
  if (!c.offload.asks_for_disk()) return;
  const bool states = c.offload.optimizer == OffloadTo::disk;
  const std::string key = states ? "offload.optimizer" : "offload.params";
  throw UserError(key + " is disk", key, "states and weights lie in memory: this version moves neither to a disk",
                  "use cpu, or more ranks with parallel.zero=3; `ravine plan` says what a rank needs");
}

// The checkpoint that the run may go on from, at a glance; it is opened by find_checkpoint, once the folder is held.
std::optional<RunRecord> look_at_folder(OpenedRun& run) {
  const Config& c = run.config;
  const World* world = run.world;
  if (world) check_same(world->all(), "program", program_version());
  if (world) check_same(world->all(), "config", to_yaml(c));
  run.folder = std::make_unique<RunFolder>(c);
  if (world) world->all().barrier();  // all have looked before one of them writes
  std::optional<RunRecord> was = glance_at_checkpoint(run.path("checkpoints"), c.checkpoint.resume, healthy_only(c));
  if (world) check_same(world->all(), "checkpoint", was ? was->checkpoint : "none");
  if (was) refuse_strangers_in_default(*was, c);
  return was;
}

void open_model(OpenedRun& run, const std::optional<RunRecord>& was) {
  const Config& c = run.config;
  World* world = run.world;
  const int ranks = world ? world->size() : 1;
  std::string unknown;
  if (!c.model.path.empty()) try {
      run.weights = weights_checksum(c.model.path);
    } catch (const UserError& e) {
      if (!was) throw;
      unknown = e.what();  // whoever resumes does not need these weights
    }
  run.model = open_run_model(c);
  run.lora = lora_of(c, *run.model);
  if (run.lora && !c.lora.path.empty()) keep_in_config(*run.lora, run.config);
  if (was) refuse_other_model(*was, *run.model, c);
  if (world) check_same(world->all(), "model", run.model->config().dump(1));
  if (world && !was)
    check_same(world->all(), "weights", run.weights);  // a copy of the folder on another machine may be an older one
  run.layout = run_layout(c, ranks, *run.model, was ? was->sum_leaves : std::nullopt);
  if (world && ranks > 1) run.ranks = Ranks(*world, run.layout.mesh);
  if (!run.ranks.first()) run.log.quiet(true);
  if (!unknown.empty()) run.log.warn("what {} holds is not known, and the run goes on without: {}", c.model.path, unknown);
}

// A 16-bit type if all weights of model.path have it, else f32, as the masters.
DType export_type(const std::string& model_path) {
  if (model_path.empty()) return DType::f32;
  try {
    const auto type = weights_type(model_path);
    return type && (*type == DType::bf16 || *type == DType::f16) ? *type : DType::f32;
  } catch (const UserError&) {  // a run of a version that did not record the type goes on without the weights it began from
    return DType::f32;
  }
}

// Works out precision.compute, precision.bf16_products and checkpoint.model_dtype: what they say, else as the checkpoint had
// them, else by the CPUs of all ranks. From here on the config holds what was chosen.
RunChoices make_choices(OpenedRun& run, const std::optional<RunRecord>& was, Backend backend) {
  Config& config = run.config;
  PrecisionOptions& p = config.precision;
  const PrecisionOptions given = p;
  const CpuArithmetic cpu = common_arithmetic(run.ranks.all());
  if (was) keep_choices(config, *was, backend, cpu);
  const bool kept = p.compute != given.compute || p.bf16_products != given.bf16_products;
  const Arithmetic chosen = choose_arithmetic(p, backend, cpu);
  p.compute = chosen.compute;
  if (chosen.compute == DType::bf16 && backend == Backend::cpu) p.bf16_products = chosen.products;
  RunChoices out;
  out.backend = backend;
  out.types = Types::of(chosen.compute, p.gradients);
  if (kept || !chosen.why.empty())
    out.why = fmt::format("{}{}: {}", name(chosen.compute),
                          chosen.compute == DType::bf16 ? fmt::format(", products by {}", name_or(p.bf16_products, kAuto)) : "",
                          kept ? "as in " + was->checkpoint : chosen.why);
  if (!config.checkpoint.model_dtype) config.checkpoint.model_dtype = export_type(config.model.path);
  out.config_text = to_yaml(config);
  out.options = recorded_options(config, run.layout.mesh.data, run.layout.sum_leaves);
  if (was) refuse_other_options(*was, option_changes(*was, out.options, run.weights), config);
  out.kernels = backend_kernels(backend, chosen.products);
  return out;
}

// Before anything is written. Whoever resumes does not need the weights that the run began with.
void check_what_it_begins_from(const OpenedRun& run) {
  const Config& c = run.config;
  const std::string& resume = c.checkpoint.resume;
  if (!c.model.path.empty() &&
      (resume == kResumeNone || (resume == kResumeNewest && checkpoints_to_try(run.path("checkpoints")).empty())))
    check_weights(c.model.path, *run.model);
  check_reference(c, *run.model);
  if (resume != kResumeNone && resume != kResumeNewest && c.checkpoint.layout == CheckpointLayout::ravine)
    check_checkpoint_folder(resume, "checkpoint.resume"), CheckpointReader(resume, false);
}

void plan_step(OpenedRun& run) {
  Config& c = run.config;
  const int64_t columns = run.data.train->columns();
  const Mesh& mesh = run.layout.mesh;
  if (int64_t tokens = c.train.micro_batch * columns; c.parallel.sequence && tokens % mesh.tensor != 0)
    throw UserError(fmt::format("micro batches of {} tokens over {} tensor ranks", tokens, mesh.tensor), "parallel.sequence",
                    "with it the tokens of a micro batch must be a multiple of the tensor ranks",
                    "change data.sequence_length, or set parallel.sequence=false");
  const StepShape shape{.rows = c.train.micro_batch,
                        .columns = columns,
                        .micro_batches = run.layout.micro_batches,
                        .validation = run.data.valid != nullptr || c.train.objective == TrainObjective::dpo,
                        .leaves = run.layout.leaves};
  if (c.parallel.split == StageSplit::cost && mesh.pipeline > 1)
    c.parallel.stage_layers = layers_by_cost(*run.model, c, run.chosen.types, run.chosen.kernels, columns);
  choose_recompute(c, [&](const Config& way) {
    return largest(run.ranks.all(),
                   plan_ranks(*run.model, way, run.layout, run.chosen.types, run.chosen.kernels, columns).bytes);
  });
  run.engine = std::make_unique<StepEngine>(*run.model, c, run.chosen.types, run.chosen.kernels, shape, nullptr, &run.ranks);
}

// What is offered leaves this much free: the program's own memory is not the same byte for byte in the next process.
constexpr int64_t kSpare = int64_t{2} << 20;

// Said by all ranks as the first finds it that has too little.
void refuse_without_memory(const OpenedRun& run) {
  const RunMemory& m = run.engine->memory();
  int64_t have = memory_for_run() / std::max(1, run.world ? run.world->local_size() : 1);
  auto text = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  std::string what, fix;
  if (m.total() > have) {
    what = fmt::format("the run needs {} of memory{}", text(m.total()),
                       run.ranks.size() > 1 ? fmt::format(" on rank {}", run.ranks.rank()) : "");
    bool fixed = !run.data.tokenizer;  // the length of fixed batches is not ours to choose
    Variants variants(run.config, run.chosen.backend, run.chosen.types, *run.engine, !fixed);
    for (const Variant& v : variants.that_fit(have - kSpare, 3))
      fix += (fix.empty() ? "what fits, cheapest first: " : "; or ") + v.text();
    if (fix.empty()) {
      Variant least = variants.smallest();
      fix = fmt::format(
          "no train.micro_batch, train.recompute{} or precision.compute makes it fit, the least is {}; use a smaller model or a larger machine",
          fixed ? "" : ", data.sequence_length", least.changes.empty() ? text(least.bytes) : least.text());
    }
  }
  std::vector<std::string> whats = gather_texts(run.ranks.all(), what), fixes = gather_texts(run.ranks.all(), fix),
                           limits = gather_texts(
                               run.ranks.all(),
                               "this process has " + text(have) + " at most" +
                                   (process_room() <= available_memory() ? " (ulimit -v or -d; raise it, or unset it)" : ""));
  for (size_t r = 0; r < whats.size(); ++r)
    if (!whats[r].empty()) throw UserError(whats[r], "memory plan", limits[r], fixes[r]);
}

}  // namespace

const OpenedRun& open_run(OpenedRun& run, Backend backend) {
  const Config& config = run.config;
  refuse_disk(config);
  const std::optional<RunRecord> was = look_at_folder(run);
  open_model(run, was);
  run.chosen = make_choices(run, was, backend);
  check_what_it_begins_from(run);
  run.data = open_run_data(config, run.model->facts(), run.ranks, *run.folder, run.log);
  plan_step(run);
  refuse_without_memory(run);
  run.bytes = saved_bytes(config, *run.model, run.chosen.types, run.weights.empty(), run.layout.mesh.data);
  // Where nothing lies yet that a run might clear away, before anything is written.
  std::error_code ignored;
  const bool fresh = run.ranks.first() && !fs::exists(run.path("checkpoints"), ignored);
  if (!was && any(run.ranks.all(), fresh)) refuse_without_room(config, run.ranks, run.bytes, 0);
  return run;
}

}  // namespace ravine
