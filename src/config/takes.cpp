#include "config/takes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "config/optimizer_types.h"

namespace ravine {
namespace {

struct SettingsOf {
  ScheduleType type;
  std::string_view keys;  // separated by blanks
};

constexpr SettingsOf kSettings[] = {
    {ScheduleType::constant, " warmup_steps warmup_ratio "},
    {ScheduleType::linear, " warmup_steps warmup_ratio "},
    {ScheduleType::cosine, " warmup_steps warmup_ratio min_lr_ratio cycles "},
    {ScheduleType::polynomial, " warmup_steps warmup_ratio power end_lr "},
    {ScheduleType::cosine_with_restarts, " warmup_steps warmup_ratio cycles "},
    {ScheduleType::inverse_sqrt, " warmup_steps warmup_ratio timescale "},
    {ScheduleType::warmup_stable_decay,
     " warmup_steps warmup_ratio min_lr_ratio cycles stable_steps decay_steps warmup_type decay_type "},
    {ScheduleType::cosine_warmup_with_min_lr, " warmup_steps warmup_ratio min_lr_ratio cycles warmup_lr_ratio "},
    {ScheduleType::reduce_lr_on_plateau, " factor patience threshold threshold_mode cooldown lowest_lr "},
    {ScheduleType::greedy,
     " factor patience threshold threshold_mode cooldown raise_cooldown lowest_lr highest_lr smooth_window reset_after "},
    {ScheduleType::LRRangeTest,
     " lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase "},
    {ScheduleType::OneCycle,
     " cycle_min_lr cycle_max_lr cycle_first_step_size cycle_second_step_size cycle_first_stair_count cycle_second_stair_count decay_step_size decay_lr_rate cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate "},
    {ScheduleType::WarmupLR, " warmup_min_lr warmup_max_lr warmup_num_steps warmup_type "},
    {ScheduleType::WarmupDecayLR, " warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps "},
    {ScheduleType::WarmupCosineLR, " warmup_num_steps warmup_type total_num_steps warmup_min_ratio cos_min_ratio "},
    {ScheduleType::ConstantWarmUpLR, " warmup_steps warmup_ratio warmup_lr_init total_steps "},
    {ScheduleType::ConstantWithCoolDownLR,
     " warmup_steps warmup_ratio warmup_lr_init total_steps keep_steps decay_steps decay_ratio num_cycles lr_end1 final_steps lr_end2 "},
    {ScheduleType::LinearWithWarmUpLR, " warmup_steps warmup_ratio warmup_lr_init total_steps "},
    {ScheduleType::CosineWithWarmUpLR,
     " warmup_steps warmup_ratio warmup_lr_init total_steps lr_end num_cycles decay_steps decay_ratio "},
    {ScheduleType::CosineWithRestartsAndWarmUpLR,
     " warmup_steps warmup_ratio warmup_lr_init total_steps lr_end num_cycles decay_steps decay_ratio "},
    {ScheduleType::PolynomialWithWarmUpLR,
     " warmup_steps warmup_ratio warmup_lr_init total_steps lr_end power decay_steps decay_ratio "},
    {ScheduleType::WarmUpStableDecayLR,
     " warmup_steps warmup_ratio warmup_lr_init total_steps lr_end decay_start_steps decay_start_ratio "},
    {ScheduleType::CosineAnnealingLR, " t_max eta_min "},
    {ScheduleType::CosineAnnealingWarmRestarts, " t_0 t_mult eta_min "},
    {ScheduleType::OptimizerParamScheduler, " lr_decay_style min_lr lr_warmup_init lr_warmup_steps lr_decay_steps "},
};

// Options of the other selectors.
constexpr struct {
  const char *selector, *values, *options;  // separated by blanks; "dpo." is the whole section
  bool harmless;
} kRows[] = {
    {"train.objective", "dpo", "dpo.", false},
    {"moe.load_balance", "bias", "moe.bias_update_rate", false},
    {"precision.scale_rule", "mindformers-adaptive", "precision.scale_window_max precision.scale_window_min", true},
    {"precision.scale_rule", "deepspeed deepspeed-0.13", "precision.scale_hysteresis precision.scale_consecutive_hysteresis",
     true},
    {"log.style", "mindformers",
     "log.sink log.monitor log.monitor_every log.monitor_target log.baseline log.tensorboard_monitor", true},
    {"log.style", "mindformers megatron", "log.tensorboard_dir log.tensorboard_omit", true},
    {"checkpoint.layout", "mindformers", "checkpoint.prefix checkpoint.format checkpoint.copies", true},
    {"checkpoint.layout", "mindformers deepspeed megatron trainer", "checkpoint.data_steps", true},
    {"checkpoint.layout", "megatron", "checkpoint.optimizer", true},
    {"data.order", "mindspore mindspore-whole", "data.pad data.labels", true},
    {"data.order", "mindspore mindspore-whole megatron megatron-2023", "data.samples", true},
    {"data.order", "megatron megatron-2023", "data.split", false},
    {"train.recompute", "full", "train.recompute_layers", true},
};

bool holds(std::string_view keys, std::string_view key) { return keys.find(" " + std::string(key) + " ") != keys.npos; }

bool has_row(ScheduleType type) {
  return std::any_of(std::begin(kSettings), std::end(kSettings), [&](const SettingsOf& s) { return s.type == type; });
}

// Builds the map from the tables. A name in the tables that does not exist is an Error.
std::map<std::string, Taken> read_tables() {
  std::map<std::string, Taken> out;
  Config config;
  std::map<std::string, std::vector<std::string>> options;  // values of options that have choices
  config.each_section([&](const char* section, auto& of, const char*) {
    for (const Option& o : options_of(of, section)) options[o.name()] = o.rule.choices;
  });
  auto add = [&](const std::string& option, const std::string& selector, const std::string& value, bool harmless) {
    require(options.contains(option) && options.contains(selector), "{}={} takes '{}', which is no option", selector, value,
            option);
    const std::vector<std::string>& all = options[selector];
    require(std::find(all.begin(), all.end(), value) != all.end(), "{} has no value '{}'", selector, value);
    Taken& t = out[option];
    require(t.values.empty() || t.selector == selector, "{} belongs to {} and to {}", option, t.selector, selector);
    t.selector = selector, t.harmless = harmless;
    t.values.push_back(value);
  };
  for (const OptimizerTraits& t : optimizer_traits())
    for (const std::string& key : t.takes) add("optimizer." + key, "optimizer.type", std::string(name(t.type)), false);
  for (const SettingsOf& s : kSettings)
    for (const std::string& key : split(std::string(s.keys), ' '))
      if (!key.empty()) add("schedule." + key, "schedule.type", std::string(name(s.type)), false);
  for (const auto& row : kRows)
    for (const std::string& value : split(row.values, ' '))
      for (const std::string& word : split(row.options, ' ')) {
        if (!word.ends_with('.')) add(word, row.selector, value, row.harmless);
        for (const auto& [option, choices] : options)
          if (word.ends_with('.') && option.starts_with(word)) add(option, row.selector, value, row.harmless);
      }
  for (const auto& row : names_of(ScheduleType{}))
    require(has_row(row.value), "schedule.type={} has no row of settings", row.name);
  return out;
}

}  // namespace

const Taken* taken_by(const std::string& option) {
  static const std::map<std::string, Taken> table = read_tables();
  const auto it = table.find(option);
  return it == table.end() ? nullptr : &it->second;
}

std::string taken_text(const std::string& option) {
  const Taken* t = taken_by(option);
  return t ? fmt::format(" ({} {})", t->selector, fmt::join(t->values, ", ")) : "";
}

std::string selected_text(const Taken& t) { return fmt::format("{}={}", t.selector, fmt::join(t.values, " or ")); }

bool takes_setting(ScheduleType type, std::string_view key) {
  return holds(" type steps lr_scale ", key) ||
         std::any_of(std::begin(kSettings), std::end(kSettings),
                     [&](const SettingsOf& s) { return s.type == type && holds(s.keys, key); });
}

bool makes_steps_of_ratio(ScheduleType type) {
  return takes_setting(type, "warmup_ratio") && !takes_setting(type, "warmup_lr_init");
}

bool may_say(const ScheduleOptions& s, std::string_view key) {
  return takes_setting(s.type, key) || (key == "warmup_steps" && s.warmup_steps == 0) ||
         (key == "min_lr_ratio" && s.min_lr_ratio == 0);
}

}  // namespace ravine
