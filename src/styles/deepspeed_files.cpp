#include "styles/deepspeed_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "config/takes.h"
#include "dialects/reverse.h"
#include "files/compressed.h"
#include "io/checkpoint_health.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/held_options.h"
#include "io/run_files.h"
#include "optim/schedule.h"
#include "styles/step_folders.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

const StepNames kCheckpoints{.before = "checkpoint-"};

// What the Trainer's log_history has: of each line of the log the mean since the line before and the rate of the next update, of
// each validation an entry of its own.
Json history_of(const std::string& metrics, int64_t step, const Config& c, double steps_of_pass) {
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
    const Json place = {{"step", at}, {"epoch", static_cast<double>(at) / steps_of_pass}};
    const auto number = [&](const char* key) { return row.contains(key) && row[key].is_number(); };
    // A row is of the steps since the row before; one of a validation may lie between two lines.
    for (const char* key : {"mean_loss", "loss"})
      if (number(key)) {
        sum += row[key].get<double>() * static_cast<double>(at - before), count += at - before;
        break;
      }
    before = at;
    if (at % c.log.every == 0) {
      Json entry = place;
      entry["learning_rate"] = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, at).lr;
      if (number("grad_norm")) entry["grad_norm"] = row["grad_norm"];
      if (count > 0) entry["loss"] = sum / static_cast<double>(count);
      sum = 0, count = 0;
      out.push_back(entry);
    }
    if (number("valid_loss")) {
      out.push_back(place);
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

// The Trainer's arguments, by its names, as far as a run has them.
Json arguments_of(const Config& c) {
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

class DeepSpeedFiles : public CheckpointFiles {
 public:
  explicit DeepSpeedFiles(std::optional<BestModel> best) : best_(best) {}
  void check_folder(const Config& c, const std::string& run) const override {
    const std::string from = to_resume(c);
    const std::map<int64_t, std::string> whole = deepspeed_checkpoints(c.train.output);
    const auto refuse = [](const std::string& there) {
      throw UserError("a folder that this run would write", there,
                      "it, or a file in it, is not this run's own, and is not replaced",
                      "choose another train.output (--output_dir), or move it away");
    };
    for (const auto& [step, there] : deepspeed_checkpoints(c.train.output, false))
      if (!is_of_run(there, run) && there != from && !whole.contains(step)) refuse(there);
    if (const std::string there = foreign_ahead(c, kCheckpoints, run, from); !there.empty()) refuse(there);
  }
  void check(const Config& c) const override {
    static const OptimizerType kFiled[] = {OptimizerType::adamw, OptimizerType::adam, OptimizerType::lion};
    if (std::find(std::begin(kFiled), std::end(kFiled), c.optimizer.type) == std::end(kFiled))
      throw UserError(fmt::format("checkpoint.layout is deepspeed, optimizer.type {}", name(c.optimizer.type)),
                      "checkpoint.layout", "its files keep the states of adamw, adam and lion",
                      "use one of these, or set checkpoint.layout=ravine, whose files DeepSpeed does not read");
    if (c.parallel.tensor > 1 || c.parallel.pipeline > 1 || c.lora.asked())
      throw UserError("checkpoint.layout is deepspeed with tensor ranks, pipeline stages or an adapter", "checkpoint.layout",
                      "its files are those of data ranks that train a whole model", "set checkpoint.layout=ravine");
  }
  std::string to_resume(const Config& c) const override;
  ForeignState open(const OpenedRun& run, const std::string& path) const override {
    const Config& c = run.config();
    ForeignState state =
        open_deepspeed_state(path, run.model->config(), model_place(c.model), c.train.global_batch, c.checkpoint.data_steps);
    state.scalars["options"] = deepspeed_held(path).recorded();
    return state;
  }
  Publisher publisher(const OpenedRun& run) const override;
  std::string folder(const Config& c) const override { return c.train.output; }
  std::string how_to_go_on(const Config& c) const override {
    return c.checkpoint.resume == kResumeNewest
               ? std::string("the same command")
               : "the same command with checkpoint.resume=auto (--resume_from_checkpoint True)";
  }
  int64_t newest_step(const std::string& output) const override {
    const std::map<int64_t, std::string> whole = deepspeed_checkpoints(output);
    return whole.empty() ? -1 : whole.rbegin()->first;
  }
  std::string pattern() const override { return kCheckpoints.before + "*"; }
  bool beside_model() const override { return true; }

 private:
  std::optional<BestModel> best_;
};

std::string DeepSpeedFiles::to_resume(const Config& c) const {
  const std::string& asked = c.checkpoint.resume;
  if (asked == kResumeNone) return "";
  if (asked == kResumeNewest) {
    const std::map<int64_t, std::string> whole = deepspeed_checkpoints(c.train.output);
    return whole.empty() ? "" : whole.rbegin()->second;
  }
  std::error_code error;
  if (!fs::is_directory(asked, error))
    throw UserError("no such folder", "checkpoint.resume=" + asked,
                    "it is checkpoint-N, a folder with the file latest, or global_stepN", "correct the path");
  if (fs::exists(asked + "/manifest.json", error))
    throw UserError("a checkpoint of Ravine's own", asked, "checkpoint.layout=deepspeed goes on from DeepSpeed's files",
                    "set checkpoint.layout=ravine, or convert it: ravine convert --to deepspeed");
  return asked;
}

Publisher DeepSpeedFiles::publisher(const OpenedRun& run) const {
  const Config& c = run.config();
  const std::string output = c.train.output, id = run.folder->run();
  check_deepspeed_order(run.model->config(), model_place(c.model));
  DeepSpeedState s{.stage = c.parallel.zero,
                   .ranks = run.spec->layout.mesh.data,
                   .compute = run.spec->types.compute,
                   .optimizer = c.optimizer,
                   .dynamic_scale = run.spec->types.compute == DType::f16 && c.precision.loss_scale.value_or(0) == 0,
                   .scale_window = c.precision.scale_window,
                   .scale_hysteresis = c.precision.scale_hysteresis,
                   .scale_min = c.precision.scale_min,
                   .scale_consecutive = c.precision.scale_consecutive_hysteresis,
                   .arguments = arguments_of(c),
                   .ds_config = Json::parse(deepspeed_form(c, nullptr).text, nullptr, false)};
  const double steps_of_pass =
      std::max(1.0, std::ceil(static_cast<double>(run.data.train->sample_count()) / static_cast<double>(c.train.global_batch)));
  return [s, c, id, output, steps_of_pass, best = best_, model = run.model->config(), metrics = run.path("metrics.jsonl")](
             const std::string& folder, int64_t step, const Json& scalars) mutable {
    const auto made = scalars.find("optimizer_steps");
    const int64_t updates = made != scalars.end() && made->is_number_integer() ? made->get<int64_t>() : step;
    s.lr = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, updates).lr;
    s.trainer_state = {
        {"epoch", static_cast<double>(step) / steps_of_pass},
        {"max_steps", c.train.steps},
        {"num_train_epochs", static_cast<int64_t>(std::ceil(static_cast<double>(c.train.steps) / steps_of_pass))},
        {"train_batch_size", c.train.micro_batch},
        {"logging_steps", c.log.every},
        {"save_steps", c.checkpoint.every},
        {"eval_steps", c.train.valid_every},
        {"log_history", history_of(metrics, step, c, steps_of_pass)}};
    const auto found = best ? best_step(metrics, c, step, *best) : std::optional<BestStep>{};
    int64_t stays = 0;
    if (found) {
      if (best->loads) stays = found->step;
      s.trainer_state["best_metric"] = found->loss;
      s.trainer_state["best_model_checkpoint"] = output + "/" + kCheckpoints.name(found->step);
    }
    const std::string name = kCheckpoints.name(step), path = output + "/" + name;
    TargetFolder target(path, fmt::format("{} {}", id, step), replaces_own(id));
    write_deepspeed_state(target, folder, model, model_place(c.model), s, [](int64_t) {});
    mark_as_made(target.folder(), id, name);
    target.commit();
    record_verdict(path, name, scalars);
    keep_newest(output, kCheckpoints, id, step, c.checkpoint.keep, stays);
    return path;
  };
}

}  // namespace

std::shared_ptr<const CheckpointFiles> deepspeed_files(std::optional<BestModel> best) {
  return std::make_shared<DeepSpeedFiles>(best);
}

}  // namespace ravine
