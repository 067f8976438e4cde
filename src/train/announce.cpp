// Trainer: what a run says of itself before its first step.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/parallel.h"
#include "kernels/backend.h"
#include "train/advice.h"
#include "train/estimate.h"
#include "train/machine.h"
#include "train/trainer.h"

namespace ravine {

// Which rank holds and sends what; and whether cores lie idle or are fought over.
void Trainer::announce_ranks() const {
  const RunMemory& m = engine_->memory();
  auto mib = [](int64_t b) { return human_bytes(static_cast<double>(b)); };
  std::vector<std::string> hosts = gather_texts(ranks_.all(), world_->host());
  std::vector<std::string> memory = gather_texts(
      ranks_.all(), fmt::format("weights {}, optimizer {}, arena {}", mib(m.weights), mib(m.optimizer), mib(m.arena.total)));
  const Communication& sent = engine_->communication();
  std::string mine;
  for (auto [axis, bytes] : {std::pair{Axis::data, sent.data}, {Axis::tensor, sent.tensor}, {Axis::pipeline, sent.pipeline}})
    if (ranks_.mesh().size(axis) > 1)
      mine += fmt::format("{}{:.1f} MB per step over {} ranks", mine.empty() ? "" : ", ", 1e-6 * static_cast<double>(bytes),
                          name(axis));
  std::vector<std::string> sends = gather_texts(ranks_.all(), mine);
  log_.line("ranks    {} on {}: {}{}, {} each, {}; {} each", ranks_.size(),
            counted(std::set(hosts.begin(), hosts.end()).size(), "host"), layout_.text(),
            config_.parallel.zero > 0 ? fmt::format(", ZeRO {}", config_.parallel.zero) : "",
            counted(layout_.micro_batches, "micro batch"),
            layout_.sum_leaves == 1 ? "1 leaf" : fmt::format("{} leaves", layout_.sum_leaves),
            counted(thread_count(), "thread"));
  for (const std::string& line : mesh_lines(config_, layout_, *model_, hosts)) log_.line("         {}", line);
  // Ranks that are alike are named together.
  auto each = [&](const char* what, const std::vector<std::string>& texts) {
    struct Told {
      std::string text;
      size_t rank, alike;
    };
    std::vector<Told> told;
    for (size_t r = 0; r < texts.size(); ++r) {
      auto it = std::find_if(told.begin(), told.end(), [&](const Told& t) { return t.text == texts[r]; });
      it == told.end() ? told.push_back({texts[r], r, 0}) : void(++it->alike);
    }
    for (size_t i = 0; i < std::min<size_t>(8, told.size()); ++i) {
      const Told& t = told[i];
      std::string who = told.size() == 1
                            ? "every rank"
                            : fmt::format("rank {}{}", t.rank, t.alike > 0 ? fmt::format(" and {} alike", t.alike) : "");
      log_.line("{:<8} {}: {}", what, who, t.text);
    }
  };
  each("memory", memory);
  each("sends", sends);
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), local = world_->local_size(), used = local * thread_count();
  if (used > cores)
    log_.warn("{} of {} on {} of this host take turns: expect them to wait for each other", counted(local, "rank"),
              counted(thread_count(), "thread"), counted(cores, "core"));
  else if (used * 2 <= cores)
    log_.warn(
        "{} ranks of {} leave {} of the {} cores of this host idle: mpirun may bind each rank to one core (--bind-to none, or --map-by slot:PE=N, lifts that)",
        local, counted(thread_count(), "thread"), cores - used, cores);
}

namespace {

// Seconds of a step of this layout, as `ravine plan` reckons them; of what was not measured here, a usual machine's.
double estimated_step(Model& model, const Config& config, const RunLayout& layout, const Types& types, const Kernels& kernels,
                      int64_t columns, int local) {
  Rates rates = known_rates(local);
  if (const auto products = known_machine_peaks(Peaks::arithmetic); products && !rates.measured)
    rates.flops_f32 = products->f32_product / local, rates.flops_bf16 = products->bf16_product / local;
  Config c = config;
  c.parallel.data = layout.mesh.data, c.parallel.tensor = layout.mesh.tensor, c.parallel.pipeline = layout.mesh.pipeline;
  return estimate_step(model, c, layout, types, columns, rates, block_costs(model, c, types, kernels, columns, rates)).seconds;
}

}  // namespace

void Trainer::announce() {
  if (ranks_.first()) {
    for (const std::string& line : likely_mistakes(config_, tokenizer_.get())) log_.warn("{}", line);
    for (const std::string& line : idle_options(config_, layout_.mesh)) log_.warn("{}", line);
    for (const std::string& line : scarce_data(config_, *train_data_)) log_.warn("{}", line);
  }
  const ModelFacts& f = model_->facts();
  const RunMemory& m = engine_->memory();
  auto mib = [](int64_t b) { return human_bytes(static_cast<double>(b)); };
  auto kind = [&](MemoryKind k) { return mib(m.arena.peak_kind[static_cast<size_t>(k)]); };
  int64_t step_tokens = config_.train.global_batch * train_data_->columns();
  log_.line("model    {}: {} parameters, {}, hidden {}, {} ({} key/value), vocabulary {}", f.family,
            human_count(static_cast<double>(model_->params().count())), counted(f.layers, "layer"), f.hidden,
            counted(f.heads, "head"), f.kv_heads, f.vocabulary);
  log_.line("compute  {} on {} ({}, {}), peak {:.0f} GFLOP/s (sol 1)", name(types_.compute), backend_, instructions_,
            counted(thread_count(), "thread"), peak_flops_ * 1e-9);
  if (!why_.empty()) log_.line("         {}", why_);
  if (ranks_.size() > 1) announce_ranks();
  log_.line(
      "memory   weights {}, optimizer {}, the step's arena {} (at its peak gradients {}, activations {}, workspace {}), batches {}, the program with its data {}: {:.1f} MiB in all, to which the process adds some 20 of its own as it runs",
      mib(m.weights), mib(m.optimizer), mib(m.arena.total), kind(MemoryKind::gradients), kind(MemoryKind::activations),
      kind(MemoryKind::workspace), mib(m.batches), mib(m.base), static_cast<double>(m.total()) / (1 << 20));
  log_.line("data     {} of {}{}", counted(train_data_->sample_count(), "sequence"), counted(train_data_->columns(), "token"),
            valid_data_ ? fmt::format(", {} {}for validation", valid_data_->sample_count(),
                                      config_.data.valid.empty() ? "held out " : "")
                        : "");
  for (const std::string& note : data_notes_) log_.line("         {}", note);
  for (const std::string& line : data_warnings_) log_.warn("{}", line);
  const Kernels kernels = backend_kernels(backend_, config_.precision.bf16_products.value_or(Bf16Products::widen));
  if (ranks_.first())
    step_seconds_ =
        estimated_step(*model_, config_, layout_, types_, kernels, train_data_->columns(), world_ ? world_->local_size() : 1);
  const double passes = passes_over(config_, *train_data_);
  log_.line("run      {} of {} ({} tokens each), {} tokens in all{}, {}", counted(config_.train.steps, "step"),
            counted(config_.train.global_batch, "sequence"), step_tokens,
            human_count(static_cast<double>(step_tokens) * static_cast<double>(config_.train.steps)),
            passes > 0 ? ", " + passes_text(passes) + " over the data" : "",
            roughly(step_seconds_ * static_cast<double>(config_.train.steps - done_)));
}

}  // namespace ravine
