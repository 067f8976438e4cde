// Marks keys of MindFormers that apply only with other keys.
#include <fmt/format.h>

#include "dialects/mindformers_run.h"

namespace ravine {

void mark_idle_keys(Translation& t) {
  // Marks keys as inert if `is`. A key that ends with a dot is a section.
  const auto idle = [&](bool is, std::initializer_list<const char*> keys, const std::string& why) {
    if (!is) return;
    for (const std::string& given : t.given())
      for (const std::string key : keys)
        if (t.has(given) && (key.ends_with('.') ? given.starts_with(key) : given == key))
          t.becomes(given, KeyStatus::inert, why);
  };
  const auto with = [](const char* key) { return fmt::format("it counts with {} alone", key); };
  const auto clips = t.has("runner_wrapper.use_clip_grad") && !t.is_on("runner_wrapper.use_clip_grad");
  idle(clips, {"runner_wrapper.max_grad_norm"}, with("use_clip_grad"));
  idle(t.has("lr_schedule.learning_rate") || t.has("lr_schedule.base_lr"), {"optimizer.learning_rate"},
       "the rate of lr_schedule counts");
  idle(!t.is_on("do_eval"), {"eval_step_interval", "eval_epoch_interval"}, with("do_eval"));
  const std::string full = "recompute_config.recompute";
  idle(t.value(full).is_boolean() && t.is_on(full), {"recompute_config.select_recompute", "recompute_config.select_recompute."},
       "recompute is on, which makes whole layers again");
  idle(!t.is_on("lr_scale"), {"lr_scale_factor"}, with("lr_scale"));
  const Json& resume = t.value("resume_training");
  const bool goes_on = resume.is_string() || (resume.is_boolean() && resume.get<bool>());
  idle(!goes_on, {"data_skip_steps", "ignore_data_skip"}, with("resume_training"));
  idle(!t.is_on("use_parallel"), {"parallel_config.", "parallel."}, with("use_parallel"));
  idle(!t.is_on("parallel.enable_parallel_optimizer"), {"parallel.parallel_optimizer_config."},
       with("enable_parallel_optimizer"));
  idle(t.text("tensorboard.tensorboard_dir").empty(), {"tensorboard."}, with("tensorboard_dir"));
  const bool monitors = t.is_on("monitor_config.monitor_on");
  const bool skips = t.is_on("use_skip_data_by_global_norm");
  idle(!monitors,
       {"monitor_config.local_loss_format", "monitor_config.device_local_loss_format", "monitor_config.local_norm_format",
        "monitor_config.device_local_norm_format", "monitor_config.optimizer_state_format",
        "monitor_config.weight_state_format", "monitor_config.throughput_baseline", "monitor_config.step_interval",
        "monitor_config.target", "monitor_config.global_norm_spike_count_threshold"},
       with("monitor_on"));
  idle(!skips && !(monitors && t.is_on("monitor_config.check_for_global_norm")), {"monitor_config.global_norm_spike_threshold"},
       with("check_for_global_norm or use_skip_data_by_global_norm"));
  idle(t.has("model.model_config.intermediate_size"),
       {"model.model_config.multiple_of", "model.model_config.ffn_dim_multiplier"}, "intermediate_size counts");
  const std::string method = t.text("model.model_config.extend_method");
  idle(method.empty() || method == "None", {"model.model_config.scaling_factor", "model.model_config.scaling_factor."},
       with("extend_method"));
}

}  // namespace ravine
