#include "config/config.h"

#include <fmt/format.h>

#include <algorithm>

namespace ravine {

bool monitors(const LogOptions& log, std::string_view what) {
  const auto has = [&](const std::vector<std::string>& all) { return std::find(all.begin(), all.end(), what) != all.end(); };
  return has(log.monitor) || has(log.tensorboard_monitor);
}

bool watches_norms(const LogOptions& log) { return monitors(log, "local_norm") || monitors(log, "device_local_norm"); }

int64_t steps_between_points(const LogOptions& log) { return log.tensorboard_every > 0 ? log.tensorboard_every : log.every; }

bool figure_due(const Config& c, std::string_view figure, int64_t step) {
  if (std::find(c.log.figures.begin(), c.log.figures.end(), figure) == c.log.figures.end()) return false;
  return step % c.log.every == 0 || step == c.train.steps || (c.log.tensorboard && step % steps_between_points(c.log) == 0);
}

bool is_inline(const std::string& model_config) { return model_config.starts_with('{'); }

std::string model_place(const ModelOptions& model) {
  if (!model.path.empty()) return model.path;
  return is_inline(model.config) ? "model.config" : model.config;
}

bool follows_validation(const ScheduleOptions& s) {
  return s.type == ScheduleType::reduce_lr_on_plateau || s.type == ScheduleType::greedy;
}

double lowest_lr(const ScheduleOptions& s) {
  return s.lowest_lr >= 0 ? s.lowest_lr : s.type == ScheduleType::greedy ? 1e-3 : 0;
}

std::string to_yaml(const Config& config) {
  Config copy = config;
  std::string text;
  for (const Section& s : sections_of(copy)) {
    text += s.name + ":\n";
    for (const Option& o : s.options) text += fmt::format("  {}: {}\n", o.key, o.yaml());
  }
  return text;
}

}  // namespace ravine
