// Trainer: what a run says of itself before its first step.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/parallel.h"
#include "train/advice.h"
#include "train/trainer.h"

namespace ravine {

// Which rank holds and sends what; and whether cores lie idle or are fought over.
void Trainer::announce_ranks() const {
  const RunMemory& m = engine_->memory();
  auto mib = [](int64_t b) { return human_bytes(static_cast<double>(b)); };
  std::vector<std::string> hosts = gather_texts(ranks_.all(), world_->host());
  std::vector<std::string> memory = gather_texts(ranks_.all(), fmt::format("weights {}, optimizer {}, arena {}", mib(m.weights), mib(m.optimizer), mib(m.arena.total)));
  Communication sent = communication_of(config_, layout_, *model_, types_.compute, train_data_->columns(), ranks_.at().pipeline);
  std::string mine;
  for (auto [axis, bytes] : {std::pair{Axis::data, sent.data}, {Axis::tensor, sent.tensor}, {Axis::pipeline, sent.pipeline}})
    if (ranks_.mesh().size(axis) > 1) mine += fmt::format("{}{:.1f} MB per step over {} ranks", mine.empty() ? "" : ", ", 1e-6 * bytes, name(axis));
  std::vector<std::string> sends = gather_texts(ranks_.all(), mine);
  log_.line("ranks    {} on {}: {}{}, {} each, {}; {} each", ranks_.size(), counted(std::set(hosts.begin(), hosts.end()).size(), "host"), layout_.text(), config_.parallel.zero > 0 ? fmt::format(", ZeRO {}", config_.parallel.zero) : "",
            counted(layout_.micro_batches, "micro batch"), layout_.sum_leaves == 1 ? "1 leaf" : fmt::format("{} leaves", layout_.sum_leaves), counted(thread_count(), "thread"));
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
      std::string who = told.size() == 1 ? "every rank" : fmt::format("rank {}{}", t.rank, t.alike > 0 ? fmt::format(" and {} alike", t.alike) : "");
      log_.line("{:<8} {}: {}", what, who, t.text);
    }
  };
  each("memory", memory);
  each("sends", sends);
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), local = world_->local_size(), used = local * thread_count();
  if (used > cores)
    log_.warn("{} of {} on {} of this host take turns: expect them to wait for each other", counted(local, "rank"), counted(thread_count(), "thread"), counted(cores, "core"));
  else if (used * 2 <= cores)
    log_.warn("{} ranks of {} leave {} of the {} cores of this host idle: mpirun may bind each rank to one core (--bind-to none, or --map-by slot:PE=N, lifts that)", local,
              counted(thread_count(), "thread"), cores - used, cores);
}

void Trainer::announce() const {
  if (ranks_.first())
    for (const std::string& line : likely_mistakes(config_, tokenizer_.get())) log_.warn("{}", line);
  const ModelFacts& f = model_->facts();
  const RunMemory& m = engine_->memory();
  auto mib = [](int64_t b) { return human_bytes(static_cast<double>(b)); };
  auto kind = [&](MemoryKind k) { return mib(m.arena.peak_kind[static_cast<size_t>(k)]); };
  double per_token = model_->training_flops_per_token(train_data_->columns());
  int64_t step_tokens = config_.train.global_batch * train_data_->columns();
  log_.line("model    {}: {} parameters, {}, hidden {}, {} ({} key/value), vocabulary {}", f.family,
            human_count(static_cast<double>(model_->params().count())), counted(f.layers, "layer"), f.hidden, counted(f.heads, "head"), f.kv_heads, f.vocabulary);
  log_.line("compute  {} on {} ({}, {}), peak {:.0f} GFLOP/s", name(types_.compute), backend_, instructions_, counted(thread_count(), "thread"),
            peak_flops_ * 1e-9);
  if (!why_.empty()) log_.line("         {}", why_);
  if (ranks_.size() > 1) announce_ranks();
  log_.line("memory   weights {}, optimizer {}, and at the peak of a step gradients {}, activations {}, workspace {} (arena {}): {:.1f} MiB in all, to which the process adds some 20 of its own as it runs",
            mib(m.weights), mib(m.optimizer), kind(MemoryKind::gradients), kind(MemoryKind::activations), kind(MemoryKind::workspace),
            mib(m.arena.total), static_cast<double>(m.total()) / (1 << 20));
  log_.line("data     {} of {}{}", counted(train_data_->sample_count(), "sequence"), counted(train_data_->columns(), "token"),
            valid_data_ ? fmt::format(", {} held out for validation", valid_data_->sample_count()) : "");
  for (const std::string& note : data_notes_) log_.line("         {}", note);
  for (const std::string& line : data_warnings_) log_.warn("{}", line);
  log_.line("run      {} of {} ({} tokens each), {} tokens in all, about {} at sol 0.7", counted(config_.train.steps, "step"), counted(config_.train.global_batch, "sequence"),
            step_tokens, human_count(static_cast<double>(step_tokens) * static_cast<double>(config_.train.steps)),
            human_time(static_cast<double>(step_tokens) * static_cast<double>(config_.train.steps - done_) * per_token / (0.7 * peak_flops_)));
}

}  // namespace ravine
