#include "train/announce.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/parallel.h"
#include "base/text.h"
#include "model/vocabulary.h"
#include "plan/estimate.h"
#include "plan/machine.h"
#include "runs/adapter.h"
#include "train/advice.h"

namespace ravine {
namespace {

std::string size_text(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// Logs one line per text. Ranks with the same text share a line.
void log_by_rank(Log& log, const char* what, const std::vector<std::string>& texts) {
  struct SameText {
    std::string text;
    size_t rank, alike;
  };
  std::vector<SameText> groups;
  for (size_t r = 0; r < texts.size(); ++r) {
    auto it = std::find_if(groups.begin(), groups.end(), [&](const SameText& t) { return t.text == texts[r]; });
    it == groups.end() ? groups.push_back({texts[r], r, 0}) : void(++it->alike);
  }
  for (size_t i = 0; i < std::min<size_t>(8, groups.size()); ++i) {
    const SameText& t = groups[i];
    std::string who = groups.size() == 1
                          ? "every rank"
                          : fmt::format("rank {}{}", t.rank, t.alike > 0 ? fmt::format(" and {} alike", t.alike) : "");
    log.line("{:<8} {}: {}", what, who, t.text);
  }
}

// Warns of more threads than cores on this host, or of idle cores.
void warn_of_cores(const OpenedRun& run) {
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), local = run.world->local_size(), used = local * thread_count();
  if (used > cores)
    run.log.warn("{} of {} on {} of this host take turns: expect them to wait for each other", counted(local, "rank"),
                 counted(thread_count(), "thread"), counted(cores, "core"));
  else if (used * 2 <= cores)
    run.log.warn(
        "{} ranks of {} leave {} of the {} cores of this host idle: mpirun may bind each rank to one core (--bind-to none, or --map-by slot:PE=N, lifts that)",
        local, counted(thread_count(), "thread"), cores - used, cores);
}

// Logs the memory and the traffic of each rank.
void announce_ranks(const OpenedRun& run) {
  const RunLayout& layout = run.spec->layout;
  const Group& all = run.ranks.all();
  const RunMemory& m = run.engine->memory();
  std::vector<std::string> hosts = gather_texts(all, run.world->host());
  std::vector<std::string> memory = gather_texts(all, fmt::format("weights {}, optimizer {}, arena {}", size_text(m.weights),
                                                                  size_text(m.optimizer), size_text(m.arena.total)));
  const Communication& sent = run.engine->communication();
  std::string mine;
  for (auto [axis, bytes] : {std::pair{Axis::data, sent.data},
                             {Axis::tensor, sent.tensor},
                             {Axis::pipeline, sent.pipeline},
                             {Axis::expert, sent.expert}})
    if (run.ranks.mesh().size(axis) > 1)
      mine += fmt::format("{}{:.1f} MB per step over {} ranks", mine.empty() ? "" : ", ", 1e-6 * static_cast<double>(bytes),
                          name(axis));
  std::vector<std::string> sends = gather_texts(all, mine);
  run.log.line("ranks    {} on {}: {}{}, {} each, {}; {} each", run.ranks.size(),
               counted(std::set(hosts.begin(), hosts.end()).size(), "host"), layout.text(),
               run.config().parallel.zero > 0 ? fmt::format(", ZeRO {}", run.config().parallel.zero) : "",
               counted(layout.micro_batches, "micro batch"),
               layout.sum_leaves == 1 ? "1 leaf" : fmt::format("{} leaves", layout.sum_leaves),
               counted(thread_count(), "thread"));
  for (const std::string& line : mesh_lines(run.config(), layout, *run.model, hosts)) run.log.line("         {}", line);
  log_by_rank(run.log, "memory", memory);
  log_by_rank(run.log, "sends", sends);
  warn_of_cores(run);
}

// Returns the seconds of a step, estimated as by `ravine plan`. Rates that were not measured here are typical values.
double estimated_step(const OpenedRun& run) {
  const int local = run.world ? run.world->local_size() : 1;
  const Types& types = run.spec->types;
  const int64_t columns = run.data.train->columns();
  Rates rates = known_rates(local);
  if (const auto products = known_machine_peaks(Peaks::arithmetic); products && !rates.measured)
    rates.flops_f32 = products->f32_product / local, rates.flops_bf16 = products->bf16_product / local;
  Config c = run.config();
  const Mesh& mesh = run.spec->layout.mesh;
  c.parallel.data = mesh.data, c.parallel.tensor = mesh.tensor, c.parallel.pipeline = mesh.pipeline;
  c.parallel.expert = mesh.expert;
  const BlockCosts costs = block_costs(*run.model, c, types, run.spec->kernels, columns, rates);
  return estimate_step(*run.model, c, run.spec->layout, types, columns, rates, costs).seconds;
}

void announce_memory(const OpenedRun& run) {
  const RunMemory& m = run.engine->memory();
  auto kind = [&](MemoryKind k) { return size_text(m.arena.peak_kind[static_cast<size_t>(k)]); };
  run.log.line(
      "memory   weights {}, optimizer {}, the step's arena {} (at its peak gradients {}, activations {}, workspace {}), batches {}, the program with its data {}: {:.1f} MiB in all, to which the process adds some 20 of its own as it runs",
      size_text(m.weights), size_text(m.optimizer), size_text(m.arena.total), kind(MemoryKind::gradients),
      kind(MemoryKind::activations), kind(MemoryKind::workspace), size_text(m.batches), size_text(m.base),
      static_cast<double>(m.total()) / (1 << 20));
  if (m.disk > 0) run.log.line("disk     {} of them in {}", size_text(m.disk), escaped(run.config().offload.path));
}

// Warns of precision rules that match no call of a step. A pipeline stage has only its own calls, so pipelines are not
// checked.
void warn_of_idle_rules(const OpenedRun& run) {
  if (run.spec->layout.mesh.pipeline > 1) return;
  const std::vector<RecipeOption>& rules = run.config().precision.recipes;
  for (size_t i : run.engine->recipe().unmatched())
    run.log.warn(
        "precision.recipes[{}] changes nothing: no call of a step has op '{}' at a path '{}'{}; paths are like model.layers.0.self_attn",
        i, rules.at(i).op, rules[i].path, rules[i].role ? fmt::format(" in the role {}", name(*rules[i].role)) : "");
}

}  // namespace

double announce(const OpenedRun& run, int64_t done, double peak_flops) {
  const Config& config = run.config();
  const RunData& data = run.data;
  Log& log = run.log;
  if (run.ranks.first()) {
    for (const std::string& line : likely_mistakes(config, data.tokenizer.get())) log.warn("{}", line);
    for (const std::string& line : idle_options(config, run.spec->layout.mesh)) log.warn("{}", line);
    for (const std::string& line : scarce_data(config, *data.train)) log.warn("{}", line);
    warn_of_idle_rules(run);
  }
  const ModelFacts& f = run.model->facts();
  log.line("model    {}: {} parameters, {}, hidden {}, {} ({} key/value), vocabulary {}", f.family,
           human_count(static_cast<double>(run.model->params().count())), counted(f.layers, "layer"), f.hidden,
           counted(f.heads, "head"), f.kv_heads, f.vocabulary);
  if (const std::string text = experts_text(*run.model); !text.empty()) log.line("         {}", text);
  if (const std::string text = vocabulary_text(*run.model); !text.empty()) log.line("         {}", text);
  if (run.lora) log.line("adapter  {}", adapter_text(*run.lora, *run.model));
  if (const std::string text = base_text(*run.model); !text.empty()) log.line("         {}", text);
  const Kernels& kernels = run.spec->kernels;
  log.line("compute  {} on {} ({}, {}), peak {:.0f} GFLOP/s (sol 1)", name(run.spec->types.compute), kernels.backend,
           kernels.instructions, counted(thread_count(), "thread"), peak_flops * 1e-9);
  if (const auto peaks = known_machine_peaks(Peaks::arithmetic); peaks && !peaks->sure) log.line("         {}", peaks->doubt());
  if (!run.spec->why.empty()) log.line("         {}", run.spec->why);
  if (run.ranks.size() > 1) announce_ranks(run);
  announce_memory(run);
  log.line("data     {} of {}{}", counted(data.train->sample_count(), "sequence"), counted(data.train->columns(), "token"),
           data.valid
               ? fmt::format(", {} {}for validation", data.valid->sample_count(), config.data.valid.empty() ? "held out " : "")
               : "");
  for (const std::string& note : data.notes) log.line("         {}", note);
  for (const std::string& line : data.warnings) log.warn("{}", line);
  const double seconds = run.ranks.first() ? estimated_step(run) : 0;
  const double passes = passes_over(config, *data.train);
  const int64_t steps = config.train.steps, step_tokens = config.train.global_batch * data.train->columns();
  log.line("run      {} of {} ({} tokens each), {} tokens in all{}, {}", counted(steps, "step"),
           counted(config.train.global_batch, "sequence"), step_tokens,
           human_count(static_cast<double>(step_tokens) * static_cast<double>(steps)),
           passes > 0 ? ", " + passes_text(passes) + " over the data" : "",
           roughly(seconds * static_cast<double>(steps - done)));
  return seconds;
}

}  // namespace ravine
