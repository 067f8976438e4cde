// Rows of the checklist on updates: batch, optimizer, the decayed set, learning rates, initial weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "checks/checklist.h"
#include "optim/schedule.h"

namespace ravine {
namespace {

std::string of_optimizer(const char* key) { return std::string("optimizer.") + key; }
std::string of_params(const char* key) { return std::string("optimizer.params.") + key; }  // of DeepSpeed
std::string of_rates(const char* key) { return std::string("lr_schedule.") + key; }

void add_batches(Checklist& rows) {
  rows.begin_group("batch");
  rows.add(
      "global_batch_size", "Gradients are means over another number of sequences, so every step differs.", [](const Side& s) {
        return Cell{std::to_string(s.config.train.global_batch),
                    s.where("train.global_batch",
                            {"--global-batch-size", "--micro-batch-size", "train_batch_size", "train_micro_batch_size_per_gpu",
                             "--gradient_accumulation_steps", "--per_device_train_batch_size", "runner_config.batch_size",
                             "parallel_config.micro_batch_num"})};
      });
  rows.add("seq_length", "A sample has other tokens.", [](const Side& s) {
    return Cell{std::to_string(s.config.data.sequence_length),
                s.where("data.sequence_length", {"--seq-length", "--block_size", "model.model_config.seq_length"})};
  });
  rows.add("tokens_per_step", "A step learns from another number of tokens: learning rate and steps no longer fit.",
           [](const Side& s) {
             return Cell{std::to_string(s.config.train.global_batch * s.config.data.sequence_length), "derived"};
           });
  rows.add("steps", "Schedules that end with the run have other learning rates.", [](const Side& s) -> Cell {
    if (!s.steps_known) return {};
    return {std::to_string(s.config.train.steps), s.where("train.steps", {"--train-iters", "--train-samples", "--max_steps",
                                                                          "--num_train_epochs", "runner_config.epochs"})};
  });
  rows.add("loss_average", "Micro batches with fewer labels count more on one side.", [](const Side& s) {
    return Cell{std::string(name(s.config.train.loss_average)),
                s.where("train.loss_average",
                        {"calculate_per_token_loss", "runner_wrapper.calculate_per_token_loss", "--transformers_version"})};
  });
}

// The rule as which two optimizers compute the same updates.
std::string rule_of(const Side& s) {
  const OptimizerOptions& o = s.config.optimizer;
  if (o.type == OptimizerType::adam && o.weight_decay == 0) return "adamw";
  return std::string(name(o.type));
}

bool takes_betas(const OptimizerOptions& o) {
  return o.type == OptimizerType::adamw || o.type == OptimizerType::adam || o.type == OptimizerType::lamb;
}

void add_optimizer(Checklist& rows) {
  rows.begin_group("optimizer");
  const std::vector<std::string> type = {"--optimizer", "--optim", "optimizer.type"};
  rows.add("optimizer", "Another rule makes another update of the same gradient. AdamW is Megatron's adam.",
           [&](const Side& s) {
             return Cell{rule_of(s), s.where("optimizer.type", type)};
           });
  const auto beta = [&](const char* name, size_t i, const std::vector<std::string>& keys) {
    rows.add(name,
             i == 0 ? "The mean of gradients forgets at another speed." : "The scale of each update forgets at another speed.",
             [&, i](const Side& s) -> Cell {
               if (!takes_betas(s.config.optimizer)) return {"not used", s.where("optimizer.type", type)};
               return {shortest_text(s.config.optimizer.betas.at(i)), s.where("optimizer.betas", keys)};
             });
  };
  beta("beta1", 0, {"--adam-beta1", "--adam_beta1", of_optimizer("betas"), of_optimizer("beta1"), of_params("betas")});
  beta("beta2", 1, {"--adam-beta2", "--adam_beta2", of_optimizer("betas"), of_optimizer("beta2"), of_params("betas")});
  rows.add("eps", "Updates of parameters with small gradients differ. The guide recommends 1e-8.", [](const Side& s) {
    return Cell{fmt::format("{}", fmt::join(s.config.optimizer.eps, ", ")),
                s.where("optimizer.eps", {"--adam-eps", "--adam_epsilon", of_optimizer("eps"), of_params("eps")})};
  });
  rows.add("bias_correction", "Updates of the first steps are smaller without it.", [&](const Side& s) -> Cell {
    if (!takes_betas(s.config.optimizer)) return {"not used", s.where("optimizer.type", type)};
    return {switch_text(s.config.optimizer.bias_correction),
            s.where("optimizer.bias_correction", {of_params("bias_correction"), "optimizer.type"})};
  });
  rows.add("weight_decay", "Weights shrink at another speed; losses part late.", [](const Side& s) {
    return Cell{shortest_text(s.config.optimizer.weight_decay),
                s.where("optimizer.weight_decay",
                        {"--weight-decay", "--weight_decay", of_optimizer("weight_decay"), of_params("weight_decay")})};
  });
  rows.add("clip_grad", "Large gradients are scaled down on one side alone.", [](const Side& s) {
    return Cell{shortest_text(s.config.optimizer.clip_norm),
                s.where("optimizer.clip_norm", {"--clip-grad", "--max_grad_norm", "gradient_clipping",
                                                "runner_wrapper.max_grad_norm", "runner_wrapper.use_clip_grad"})};
  });
}

// Returns the name of a parameter with * for the numbers of layers and experts.
std::string pattern_of(const std::string& name) {
  static const std::regex kNumber("\\.[0-9]+\\.");
  return std::regex_replace(name, kNumber, ".*.");
}

// Returns the patterns of the parameters that decay, and of those that do not.
std::pair<std::set<std::string>, std::set<std::string>> decay_of(const Side& s) {
  std::set<std::string> decayed, spared;
  for (const Param& p : s.built->params().params()) {
    if (!p.policy.trainable || p.tied) continue;
    const bool decays =
        s.config.optimizer.weight_decay > 0 && p.policy.wd_mult > 0 && (s.config.optimizer.decay == DecayOf::all || p.decay);
    (decays ? decayed : spared).insert(pattern_of(p.name));
  }
  return {decayed, spared};
}

void add_decayed_set(Checklist& rows) {
  CheckRow row{.name = "decayed",
               .effect = "Norms, biases or embeddings shrink on one side alone: losses part late, in the guide's case by 0.1.",
               .advice = ""};
  const auto location = [](const Side& s) {
    return s.where("optimizer.decay",
                   {"--weight-decay", of_optimizer("weight_decay"), of_params("weight_decay"), "--weight_decay"});
  };
  const Side &a = rows.a(), &b = rows.b();
  row.a.where = location(a), row.b.where = location(b);
  if (!a.built || !b.built) {
    row.a.text = std::string(name(a.config.optimizer.decay)), row.b.text = std::string(name(b.config.optimizer.decay));
    row.verdict = row.a.text == row.b.text ? RowVerdict::unknown : RowVerdict::different;
    return rows.add(std::move(row));
  }
  const auto sa = decay_of(a), sb = decay_of(b);
  const auto text = [](const auto& sets, const auto& other) {
    std::set<std::string> only;
    for (const std::string& p : sets.first)
      if (other.second.contains(p)) only.insert(p);
    const std::string all = sets.first.empty() ? "none" : sets.second.empty() ? "all" : "matrices";
    return only.empty() ? all : fmt::format("{}; here alone {}", all, fmt::join(only, ", "));
  };
  row.a.text = text(sa, sb), row.b.text = text(sb, sa);
  bool differs = false;
  for (const auto& [x, y] : {std::pair{sa, sb}, {sb, sa}})
    for (const std::string& p : x.first) differs = differs || y.second.contains(p);
  row.verdict = differs ? RowVerdict::different : RowVerdict::equal;
  if (!differs) row.b.text = row.a.text;
  rows.add(std::move(row));
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

// The last step of the warmup, from 1: the first with the highest rate; 0 if the rate never rises.
size_t last_of_warmup(const std::vector<double>& rates) {
  const auto highest = std::max_element(rates.begin(), rates.end(), [](double a, double b) { return a < b && !near(a, b); });
  return highest == rates.begin() ? 0 : static_cast<size_t>(highest - rates.begin());
}

void add_rates(Checklist& rows) {
  rows.begin_group("learning rate");
  const std::vector<std::string> peak = {"--lr",
                                         "--learning_rate",
                                         of_rates("learning_rate"),
                                         of_rates("base_lr"),
                                         of_optimizer("learning_rate"),
                                         of_params("lr"),
                                         "scheduler.params.warmup_max_lr"};
  rows.add("lr", "Every update has another size.", [&](const Side& s) {
    return Cell{shortest_text(s.config.optimizer.lr), s.where("optimizer.lr", peak)};
  });
  const std::vector<double> a = learning_rates(rows.a()), b = learning_rates(rows.b());
  const bool known = !a.empty() && !b.empty();
  const std::vector<std::string> shape = {"--lr-decay-style", "--lr_scheduler_type", of_rates("type"), "scheduler.type"};
  const std::vector<std::string> warmup = {"--lr-warmup-fraction",
                                           "--lr-warmup-iters",
                                           "--warmup_steps",
                                           "--warmup_ratio",
                                           of_rates("warmup_ratio"),
                                           of_rates("warmup_steps"),
                                           "scheduler.params.warmup_num_steps"};
  const auto rate = [&](const char* name, const char* effect, const std::vector<std::string>& keys, const char* option,
                        auto index) {
    CheckRow row{.name = name, .effect = effect, .advice = ""};
    row.a.where = rows.a().where(option, keys), row.b.where = rows.b().where(option, keys);
    const auto text = [](const std::vector<double>& rates, size_t i) {
      return fmt::format("{:.7g} at step {}", rates[i], i + 1);
    };
    if (!a.empty()) row.a.text = text(a, index(a));
    if (!b.empty()) row.b.text = text(b, index(b));
    if (known) row.verdict = near(a[index(a)], b[index(b)]) && index(a) == index(b) ? RowVerdict::equal : RowVerdict::different;
    rows.add(std::move(row));
  };
  const auto last = [](const std::vector<double>& rates) { return rates.size() - 1; };
  rate("lr_first", "The first update has another size: some programs begin at 0, others one step ahead.", warmup,
       "schedule.type", [](const std::vector<double>&) { return size_t{0}; });
  rate("lr_second", "The second update has another size.", warmup, "schedule.type",
       [](const std::vector<double>& rates) { return std::min<size_t>(1, rates.size() - 1); });
  rate("warmup", "The warmup ends at another step, or at another rate.", warmup, "schedule.type", last_of_warmup);
  rate("lr_last", "The last updates have another size: losses part late.", shape, "schedule.type", last);
  CheckRow row{
      .name = "lr_schedule", .effect = "Updates of single steps have another size. --svg draws both curves.", .advice = ""};
  row.a.where = rows.a().where("schedule.type", shape), row.b.where = rows.b().where("schedule.type", shape);
  if (!a.empty()) row.a.text = std::string(name(rows.a().config.schedule.type));
  if (!b.empty()) row.b.text = std::string(name(rows.b().config.schedule.type));
  if (known) {
    size_t worst = 0;
    double most = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (const double gap = std::abs(a[i] - b[i]) / std::max({std::abs(a[i]), std::abs(b[i]), 1e-300});
          !near(a[i], b[i]) && gap > most)
        most = gap, worst = i;
    row.verdict = most > 0 || a.size() != b.size() ? RowVerdict::different : RowVerdict::equal;
    if (most > 0) {
      row.a.text += fmt::format(": {:.7g} at step {}", a[worst], worst + 1);
      row.b.text += fmt::format(": {:.7g} at step {}", b[worst], worst + 1);
    } else {
      row.a.text = row.b.text = fmt::format("the same in {} steps", std::min(a.size(), b.size()));
      if (a.size() != b.size()) row.a.text = fmt::format("{} steps", a.size()), row.b.text = fmt::format("{} steps", b.size());
    }
  }
  rows.add(std::move(row));
}

bool reads_weights(const Side& s) {
  const std::string& resume = s.config.checkpoint.resume;
  const bool resumes = !resume.empty() && resume != kResumeNewest && resume != kResumeNone;
  return resumes || !s.config.model.weights.empty() || !s.config.model.path.empty();
}

void add_weights(Checklist& rows) {
  rows.begin_group("weights");
  rows.add("parameters", "One side has parameters that the other lacks, or the vocabulary is padded to another size.",
           [](const Side& s) -> Cell {
             if (!s.built || !s.rows_known) return {};
             return {std::to_string(s.built->params().count()), "derived"};
           });
  const std::vector<std::string> from = {"--load", "--model_name_or_path", "--config_name", "load_checkpoint",
                                         "pretrained_model_dir"};
  rows.add("initial_weights", "The first losses differ: give both sides the same weights.", [&](const Side& s) -> Cell {
    namespace fs = std::filesystem;
    const ModelOptions& m = s.config.model;
    const bool drawn = m.weights.empty() && m.path.empty();
    if (drawn) return {fmt::format("drawn by {}", name(s.program)), s.where("model.weights", from), true};
    const fs::path path = m.weights.empty() ? m.path : m.weights;
    // The same weights have other names in another program's layout.
    return {"read: " + (path.filename().empty() ? path.parent_path() : path).filename().string(),
            s.where(m.weights.empty() ? "model.path" : "model.weights", from), true};
  });
  if (reads_weights(rows.a()) != reads_weights(rows.b())) {
    CheckRow both{.name = "weights_from",
                  .verdict = RowVerdict::different,
                  .effect = "One side begins with stored weights, the other with random ones.",
                  .advice = ""};
    both.a = {reads_weights(rows.a()) ? "stored" : "random", rows.a().where("model.weights", from)};
    both.b = {reads_weights(rows.b()) ? "stored" : "random", rows.b().where("model.weights", from)};
    rows.add(std::move(both));
  } else {
    rows.add("weights_from", "One side begins with stored weights, the other with random ones.", [&](const Side& s) {
      return Cell{reads_weights(s) ? "stored" : "random", s.where("model.weights", from)};
    });
  }
  rows.add("init_method_std", "Random weights have another width, so the first losses differ.", [](const Side& s) -> Cell {
    if (reads_weights(s)) return {"not used: weights are read", s.where("model.weights", {})};
    if (!s.spec()) return {};
    const std::string key = "model.model_config.initializer_range";
    return {shortest_text(s.spec()->attention.init_std),
            s.where("model.config", {"--init-method-std", key}, "initializer_range")};
  });
}

}  // namespace

std::vector<double> learning_rates(const Side& side) {
  const Config& c = side.config;
  if (!side.steps_known || follows_validation(c.schedule)) return {};
  constexpr int64_t kMost = 200000;
  std::vector<double> rates;
  for (int64_t i = 0; i < std::min(c.train.steps, kMost); ++i)
    rates.push_back(learning_rate(c.schedule, c.optimizer.lr, c.train.steps, i));
  return rates;
}

void add_update_rows(Checklist& rows) {
  add_batches(rows);
  add_optimizer(rows);
  add_decayed_set(rows);
  add_rates(rows);
  add_weights(rows);
}

}  // namespace ravine
