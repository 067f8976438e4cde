#include "train/open_run.h"

#include <unistd.h>

#include <filesystem>

#include "base/missing_path.h"
#include "base/version.h"
#include "device/device.h"
#include "device/limits.h"
#include "io/checkpoint.h"
#include "io/convert/megatron_arguments.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/open_weights.h"
#include "kernels/backend.h"
#include "plan/variants.h"
#include "runs/adapter.h"
#include "runs/healthy_only.h"
#include "runs/open.h"
#include "runs/run_paths.h"
#include "runs/run_record.h"
#include "runs/saves.h"
#include "step/arithmetic.h"
#include "train/check_reference.h"
#include "train/resolve.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

// Returns the record of the checkpoint to resume from, if there is one. find_checkpoint opens it after the folder is
// locked.
std::optional<RunRecord> look_at_folder(OpenedRun& run) {
  const Config& c = run.config();
  const World* world = run.world;
  if (world) check_same(world->all(), "program", program_version());
  if (world) check_same(world->all(), "config", to_yaml(c));
  refuse_run_of_other_layout(c);
  run.folder = std::make_unique<RunFolder>(c, run.files);
  if (run.files) run.files->check_folder(c, run.folder->run());
  if (world) world->all().barrier();  // all ranks have read it before one rank writes
  std::optional<RunRecord> was = glance_at_checkpoint(run.path("checkpoints"), c.checkpoint.resume, healthy_only(c));
  if (world) check_same(world->all(), "checkpoint", was ? was->checkpoint : "none");
  if (was) refuse_strangers_in_default(*was, c);
  return was;
}

// Returns the type of all weights of model.path; empty if they differ or are missing.
std::optional<DType> type_of_weights(const Config& c) {
  if (c.model.path.empty() || c.checkpoint.model_dtype) return std::nullopt;
  try {
    return weights_type(c.model.path);
  } catch (const UserError&) {  // a run of a version that did not record the type resumes without these weights
    return std::nullopt;
  }
}

// Opens the model and returns the facts of the run. The ranks compare their inputs, and reject a checkpoint of another
// run.
RunFacts open_model(OpenedRun& run, const std::optional<RunRecord>& was, Backend backend) {
  const Config& c = run.config();
  World* world = run.world;
  const int ranks = world ? world->size() : 1;
  std::string unknown;
  // the folder from which frozen weights are read
  const std::string& from = c.lora.enabled() ? base_of(c) : c.model.path;
  if (!from.empty()) try {
      run.weights = weights_checksum(from);
    } catch (const UserError& e) {
      if (!was) throw;
      unknown = e.what();  // a resumed run does not need these weights
    }
  run.model = open_run_model(c);
  run.lora = lora_of(c, *run.model);
  if (was) refuse_other_model(*was, *run.model, c);
  if (world) check_same(world->all(), "model", run.model->config().dump(1));
  if (world && !was) check_same(world->all(), "weights", run.weights);  // a copy of the folder elsewhere may be older
  const RunLayout layout = run_layout(c, ranks, *run.model, was ? was->sum_leaves : std::nullopt);
  if (world && ranks > 1) run.ranks = Ranks(*world, layout.mesh);
  if (!run.ranks.first()) run.log.quiet(true);
  if (!unknown.empty()) run.log.warn("what {} holds is not known, and the run goes on without: {}", from, unknown);
  return {.backend = backend,
          .ranks = ranks,
          .cpu = common_arithmetic(run.ranks.all()),
          .model = run.model.get(),
          .lora = run.lora,
          .weights_type = type_of_weights(c),
          .was = was ? &*was : nullptr,
          .of_ranks = [&run](int64_t bytes) { return largest(run.ranks.all(), bytes); }};
}

// Checks that the tokenizer can be read. A dataset of ids needs no tokenizer, but the exported model gets a copy.
void refuse_lost_tokenizer(const OpenedRun& run) {
  const std::string& tokenizer = run.config().model.tokenizer;
  if (tokenizer.empty() || (run.files && !run.files->exports_model())) return;
  std::error_code error;
  if (!fs::is_directory(tokenizer, error) && !fs::is_regular_file(tokenizer, error))
    throw UserError("no such tokenizer", "model.tokenizer=" + tokenizer, "the model at the end gets a copy of it",
                    missing_path_advice(tokenizer, Hub::models) + ", or leave it out");
  if (::access(tokenizer.c_str(), R_OK) != 0)
    throw UserError("tokenizer cannot be read", "model.tokenizer=" + tokenizer, "the model at the end gets a copy of it",
                    "give this user the right to read it");
}

// Checks the weights, the reference and the checkpoint before anything is written. A resumed run does not need the
// initial weights.
void check_what_it_begins_from(const OpenedRun& run) {
  const Config& c = run.config();
  const std::string& resume = c.checkpoint.resume;
  const std::string of_other_form = run.files ? run.files->to_resume(c) : "";
  for (const std::string& weights : {of_other_form, of_other_form.empty() ? c.model.weights : ""})
    if (!weights.empty()) refuse_other_network(weights, run.model->config(), model_label(c.model));
  if (!c.model.path.empty() &&
      (resume == kResumeNone || (resume == kResumeNewest && checkpoints_to_try(run.path("checkpoints")).empty())))
    check_weights(c.model.path, *run.model);
  check_reference(c, *run.model);
  refuse_lost_tokenizer(run);
  if (resume != kResumeNone && resume != kResumeNewest && !run.files)
    check_checkpoint_folder(resume, "checkpoint.resume"), CheckpointReader(resume, false);
}

// Checks that sequence parallelism can divide the tokens of a micro batch into equal parts.
void refuse_broken_sequences(const OpenedRun& run) {
  const Config& c = run.config();
  const int64_t columns = run.data.train->columns();
  const Mesh& mesh = run.spec->layout.mesh;
  if (int64_t tokens = c.train.micro_batch * columns; c.parallel.sequence && tokens % mesh.tensor != 0)
    throw UserError(fmt::format("micro batches of {} tokens over {} tensor ranks", tokens, mesh.tensor), "parallel.sequence",
                    "with it the tokens of a micro batch must be a multiple of the tensor ranks",
                    "change data.sequence_length, or set parallel.sequence=false");
}

void plan_step(OpenedRun& run) {
  const Config& c = run.config();
  const StepShape shape{.rows = c.train.micro_batch,
                        .columns = run.data.train->columns(),
                        .micro_batches = run.spec->layout.micro_batches,
                        .validation = run.data.valid != nullptr || c.train.objective == TrainObjective::dpo,
                        .leaves = run.spec->layout.leaves};
  run.engine = std::make_unique<StepEngine>(*run.model, c, run.spec->types, run.spec->kernels, shape, nullptr, &run.ranks);
}

// The suggested variants leave this many bytes free: the memory of the program differs slightly between processes.
constexpr int64_t kSpare = int64_t{2} << 20;

// Checks that each rank has enough memory. All ranks throw the UserError of the first rank that lacks memory.
void refuse_without_memory(const OpenedRun& run) {
  const RunMemory& m = run.engine->memory();
  int64_t have = memory_for_run() / std::max(1, run.world ? run.world->local_size() : 1);
  auto text = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  std::string what, fix;
  if (m.total() > have) {
    what = fmt::format("the run needs {} of memory{}", text(m.total()),
                       run.ranks.size() > 1 ? fmt::format(" on rank {}", run.ranks.rank()) : "");
    bool fixed = !run.data.tokenizer;  // the sequence length of fixed batches cannot be changed
    Variants variants(run.config(), run.spec->backend, run.spec->types, *run.engine, !fixed);
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
  if (run.files) run.files->check(run.requested);
  const std::optional<RunRecord> was = look_at_folder(run);
  RunFacts facts = open_model(run, was, backend);
  run.spec = std::make_shared<const RunSpec>(resolve(run.requested, facts));
  const auto refuse_changes = [&] {
    if (was) refuse_other_options(*was, option_changes(*was, run.spec->record, run.weights), run.config());
  };
  const bool by_epochs = run.requested.train.epochs > 0;  // then the data decide the number of steps
  if (!by_epochs) refuse_changes();
  check_what_it_begins_from(run);
  run.data = open_run_data(run.config(), run.model->facts(), run.ranks, *run.folder, run.log);
  refuse_broken_sequences(run);
  facts.columns = run.data.train->columns();
  facts.samples = run.data.train->sample_count();
  run.spec = std::make_shared<const RunSpec>(resolve(run.requested, facts));
  if (by_epochs) refuse_changes();
  const Config& config = run.config();
  plan_step(run);
  refuse_without_memory(run);
  run.bytes = saved_bytes(config, *run.model, run.spec->types, run.weights.empty(), run.spec->layout.mesh.data);
  // If no earlier checkpoint exists that could be deleted, free disk space is checked before anything is written.
  std::error_code ignored;
  const bool fresh = run.ranks.first() && !fs::exists(checkpoints_of(config), ignored) &&
                     (!run.files || run.files->newest_step(config.train.output) < 0);
  if (!was && any(run.ranks.all(), fresh)) refuse_without_room(config, run.ranks, run.bytes, 0);
  return run;
}

}  // namespace ravine
