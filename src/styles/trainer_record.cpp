#include "styles/trainer_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "config/takes.h"
#include "files/compressed.h"
#include "io/run_files.h"
#include "optim/schedule.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns log_history of the Trainer, from the rows of metrics.jsonl up to `step`. Each log line is an entry with the
// mean loss since the previous line and the learning rate of the next update. Each validation is a separate entry.
Json history_of(const std::string& metrics, int64_t step, const Config& c, double steps_of_pass,
                const TrainerOutputs& outputs) {
  Json out = Json::array();
  std::error_code error;
  if (!fs::is_regular_file(metrics, error)) return out;
  LineReader lines(metrics, kMetricsLine);
  double sum = 0;
  int64_t count = 0, before = 0;
  while (const auto line = lines.next()) {
    const Json row = Json::parse(*line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    const auto at = row["step"].get<int64_t>();
    if (at > step) continue;
    const auto number = [&](const char* key) { return row.contains(key) && row[key].is_number(); };
    Json base_entry = {{"step", at}, {"epoch", static_cast<double>(at) / steps_of_pass}};
    if (outputs.counts_tokens && number("tokens")) base_entry["num_input_tokens_seen"] = row["tokens"];
    // A row covers the steps since the previous row; a validation's row may be between two log lines.
    for (const char* key : {"mean_loss", "loss"})
      if (number(key)) {
        sum += row[key].get<double>() * static_cast<double>(at - before), count += at - before;
        break;
      }
    before = at;
    if (at % c.log.every == 0 || (at == 1 && outputs.first_line)) {
      Json entry = base_entry;
      entry["learning_rate"] = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, at).lr;
      if (number("grad_norm")) entry["grad_norm"] = row["grad_norm"];
      if (count > 0) entry["loss"] = sum / static_cast<double>(count);
      sum = 0, count = 0;
      out.push_back(entry);
    }
    if (number("valid_loss")) {
      out.push_back(base_entry);
      out.back()["eval_loss"] = row["valid_loss"];
    }
  }
  return out;
}

int64_t warmup_of(const ScheduleOptions& s) {
  return takes_setting(s.type, "warmup_steps")       ? s.warmup_steps
         : takes_setting(s.type, "warmup_num_steps") ? static_cast<int64_t>(s.classes.warmup_num_steps)
                                                     : 0;
}

}  // namespace

std::optional<BestModel> best_model_of(const TrainerOutputs& outputs) {
  if (!outputs.names_best) return {};
  return BestModel{.loads = outputs.loads_best, .greater = outputs.greater_is_better};
}

TrainerRecord::TrainerRecord(const OpenedRun& run, const TrainerOutputs& outputs)
    : config_(run.config()),
      outputs_(outputs),
      best_(best_model_of(outputs)),
      metrics_(run.path("metrics.jsonl")),
      steps_of_pass_(std::max(1.0, std::ceil(static_cast<double>(run.data.train->sample_count()) /
                                             static_cast<double>(config_.train.global_batch)))) {}

Json TrainerRecord::state(int64_t step, const std::string& before, int64_t& stays) const {
  const Config& c = config_;
  Json out = {{"epoch", static_cast<double>(step) / steps_of_pass_},
              {"max_steps", c.train.steps},
              {"num_train_epochs", static_cast<int64_t>(std::ceil(static_cast<double>(c.train.steps) / steps_of_pass_))},
              {"train_batch_size", c.train.micro_batch},
              {"logging_steps", c.log.every},
              {"save_steps", c.checkpoint.every},
              {"eval_steps", c.train.valid_every},
              {"log_history", history_of(metrics_, step, c, steps_of_pass_, outputs_)}};
  const auto found = best_ ? best_step(metrics_, c, step, *best_) : std::optional<BestStep>{};
  stays = 0;
  if (found) {
    if (best_->loads) stays = found->step;
    out["best_metric"] = found->loss;
    out["best_model_checkpoint"] = fmt::format("{}/{}{}", c.train.output, before, found->step);
  }
  return out;
}

Json TrainerRecord::arguments() const {
  const Config& c = config_;
  const int64_t ranks = std::max<int64_t>(1, c.parallel.data);
  return {{"output_dir", c.train.output},
          {"max_steps", c.train.steps},
          {"per_device_train_batch_size", c.train.micro_batch},
          {"gradient_accumulation_steps", std::max<int64_t>(1, c.train.global_batch / c.train.micro_batch / ranks)},
          {"learning_rate", c.optimizer.lr},
          {"weight_decay", c.optimizer.weight_decay},
          {"max_grad_norm", c.optimizer.clip_norm},
          {"warmup_steps", warmup_of(c.schedule)},
          {"logging_steps", c.log.every},
          {"save_steps", c.checkpoint.every},
          {"save_total_limit", c.checkpoint.keep > 0 ? Json(c.checkpoint.keep) : Json()},
          {"seed", c.train.seed},
          {"bf16", c.precision.compute == DType::bf16},
          {"fp16", c.precision.compute == DType::f16},
          {"gradient_checkpointing", c.train.recompute == Recompute::full}};
}

}  // namespace ravine
