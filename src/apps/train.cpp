#include "apps/commands.h"
#include "apps/rank_job.h"
#include "apps/stop_signals.h"
#include "apps/training.h"
#include "probe/capture.h"
#include "runs/run_places.h"
#include "styles/deepspeed_files.h"
#include "styles/deepspeed_monitors.h"
#include "styles/flops_profile.h"
#include "styles/step_clock.h"
#include "styles/styles.h"
#include "styles/trainer_files.h"
#include "styles/trainer_record.h"
#include "styles/trainer_results.h"
#include "train/trainer.h"

namespace ravine {
namespace {

struct TrainFlags {
  ModelFlag model;
  CommonFlags common;
  template <class V>
  void each(V&& v) {
    model.each(v);
    common.each(v);
  }
};

int run_train(TrainFlags& flags, Config& config) { return run_training(config, flags.common.backend); }

}  // namespace

int run_training(Config& config, Backend backend, const TrainerOutputs& outputs, const std::vector<std::string>& said) {
  refuse_config_of_other_run(config);
  if (!config.lora.path.empty()) config.lora.path = adapter_meant_by(config.lora.path, "lora.path");
  RankJob job(config.parallel, config.train.threads);
  Log log;
  for (const std::string& line : said) log.note(line);
  std::vector<std::unique_ptr<Capture>> dumps;  // they outlive the trainer, which calls them
  FlopsProfile flops(outputs.flops);
  std::unique_ptr<Trainer> trainer;
  return job.run([&](World* world) {
    for (const DumpOption& option : config.probe.dump) dumps.push_back(std::make_unique<Capture>(option));
    RunStyle style = style_of(config);
    if (outputs.results) style.more.emplace_back([&] { return trainer_results_hook(outputs.tokens_per_second); });
    style.valid_rows = outputs.valid_rows;
    style.best = best_model_of(outputs);
    style.first_line = outputs.first_line;
    if (!outputs.bar) style.console = lines_hook;
    if (config.checkpoint.layout == CheckpointLayout::deepspeed) style.files = deepspeed_files(outputs);
    if (config.checkpoint.layout == CheckpointLayout::trainer) style.files = trainer_files(outputs);
    if (!outputs.logging_dir.empty())
      style.tensorboard = [&](int64_t every) { return tensorboard_hook_in(outputs.logging_dir, every); };
    if (!outputs.csv.empty() || !outputs.event_files.empty())
      style.more.emplace_back([&] { return deepspeed_monitors_hook(outputs); });
    if (outputs.wall_clock || outputs.flops.enabled)
      style.more.emplace_back([&] { return step_clock_hook(outputs.wall_clock); });
    trainer = std::make_unique<Trainer>(config, backend, log, world, std::move(style));
    for (const auto& dump : dumps) trainer->watch(*dump);
    if (outputs.flops.enabled) trainer->watch(flops);
    StopSignals signals(config.train.stop_signal);
    trainer->run(signals);
    trainer.reset();
  });
}

Command train_command() {
  return command<TrainFlags>(
      {.name = "train",
       .summary = "train a model: pretraining, continued pretraining and fine-tuning",
       .example =
           "ravine train model.config=configs/llama-demo.json model.tokenizer=tok/tokenizer.model data.train=[book.txt] train.output=runs/book",
       .about =
           "Trains the model in model.path, or a new one from model.config, on the text or conversations in data.train. train.output gets the log, metrics, checkpoints and, at the end, the model. The same command resumes a run that was stopped.",
       .sections = {"model", "lora", "moe", "data", "train", "dpo", "optimizer", "schedule", "precision", "parallel", "offload",
                    "checkpoint", "log", "health", "probe"},
       .lasting = true,
       .stoppable = true},
      "Train", run_train);
}

}  // namespace ravine
