// Translates run_mode eval: the loss and the perplexity of eval_dataset, as a validation of Ravine
// (Translation::evaluates).
#include <fmt/format.h>

#include <algorithm>

#include "dialects/mindformers_run.h"

namespace ravine {

void hold_mindformers_metric(Translation& t) {
  const std::string metric = t.text("metric.type");
  if (!metric.empty() && metric != "PerplexityMetric")
    t.refuse("metric.type", fmt::format("metric.type is {}", metric), "an evaluation gives loss and perplexity",
             "write PerplexityMetric, or use `ravine eval` for benchmarks");
}

void set_mindformers_evaluation(Translation& t, const MindFormersSizes& s, const MindFormersFacts& facts) {
  t.evaluates = true;
  const std::string loader = "eval_dataset.data_loader.";
  if (t.text(loader + "type") == "BlendedMegatronDatasetDataLoader")
    t.refuse(loader + "type", "run_mode is eval, of token files", "rows of MindRecord files are evaluated alone",
             "set do_eval: True in run_mode train, which evaluates token files too");
  hold_mindformers_metric(t);
  const Json sources = mindformers_sources(t, "eval_dataset", facts.runs);
  if (sources.is_array())
    for (const char* option : {"data.train", "data.valid"}) t.set(option, sources, mindformers_paths(t, "eval_dataset").second);
  t.set("data.order", "mindspore", loader + "type");
  t.set("data.shuffle", false, loader + "shuffle");
  set_mindformers_columns(t, "eval_dataset");
  // A row has seq_length ids, of which all but the first are predicted. A row of training has one more.
  const std::string length = "model.model_config.seq_length";
  if (s.ids > s.sequence + 1)
    t.refuse(length, fmt::format("seq_length is {}, and rows have {} ids", s.sequence, s.ids),
             "a row that is evaluated has seq_length ids, or one more", "set it to the length of the rows");
  t.set("data.sequence_length", std::max<int64_t>(1, (s.ids > 0 ? s.ids : s.sequence) - 1), length);
  t.set("train.steps", 1, "run_mode");
  t.set("train.micro_batch", s.micro, "runner_config.batch_size");
  t.set("train.global_batch", s.micro * s.data, "runner_config.batch_size");
  t.set("train.output", t.text("output_dir"), "output_dir");
  if (s.steps_per_epoch > 0) t.set("train.valid_batches", s.steps_per_epoch * s.data, loader + "num_samples");
  set_mindformers_ranks(t, s);
  t.set("checkpoint.resume", "none", "run_mode");
  t.set("log.style", "mindformers", "run_mode");
  const std::string own = "model.model_config.checkpoint_name_or_path";
  const std::string key = t.text("load_checkpoint").empty() && !t.text(own).empty() ? own : "load_checkpoint";
  if (t.text(key).empty())
    t.refuse("load_checkpoint", "run_mode is eval, and load_checkpoint empty", "weights are evaluated", "name them");
  else if (has_mindformers_weights(t, key, facts.runs))
    t.set("model.weights", t.text(key), key);
  for (const std::string& given : t.given()) {
    for (const char* section : {"train_dataset",
                                "optimizer",
                                "lr_schedule",
                                "runner_wrapper",
                                "callbacks",
                                "monitor_config",
                                "recompute_config",
                                "swap_config",
                                "tensorboard",
                                "runner_config.epochs",
                                "runner_config.sink",
                                "runner_config.gradient_accumulation_steps",
                                "resume_training",
                                "do_eval",
                                "eval_step_interval",
                                "eval_epoch_interval",
                                "seed",
                                "use_skip_data_by_global_norm",
                                "use_checkpoint_health_monitor",
                                "check_for_nan_in_loss_and_grad",
                                "lr_scale",
                                "output_dir"})
      if (given.starts_with(section)) t.becomes(given, KeyStatus::inert, "run_mode eval trains and writes nothing");
  }
}

}  // namespace ravine
