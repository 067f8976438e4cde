#include "config/schedule_takes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace ravine {
namespace {

struct SettingsOf {
  ScheduleType type;
  std::string_view keys;  // between blanks
};

constexpr SettingsOf kSettings[] = {
    {ScheduleType::constant, " warmup_steps "},
    {ScheduleType::linear, " warmup_steps "},
    {ScheduleType::cosine, " warmup_steps min_lr_ratio cycles "},
    {ScheduleType::polynomial, " warmup_steps power end_lr "},
    {ScheduleType::cosine_with_restarts, " warmup_steps cycles "},
    {ScheduleType::inverse_sqrt, " warmup_steps timescale "},
    {ScheduleType::warmup_stable_decay, " warmup_steps min_lr_ratio stable_steps decay_steps warmup_type decay_type "},
    {ScheduleType::cosine_warmup_with_min_lr, " warmup_steps min_lr_ratio cycles warmup_lr_ratio "},
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

// A word of the table that is no option would make one that nobody can give.
bool names_options() {
  ScheduleOptions options;
  const std::vector<Option> all = options_of(options, "schedule");
  for (const SettingsOf& s : kSettings)
    for (const std::string& word : split(std::string(s.keys), ' '))
      require(word.empty() || std::any_of(all.begin(), all.end(), [&](const Option& o) { return o.key == word; }),
              "schedule.type={} takes '{}', which is no option", name(s.type), word);
  return true;
}

bool holds(std::string_view keys, std::string_view key) { return keys.find(" " + std::string(key) + " ") != keys.npos; }

}  // namespace

bool takes_setting(ScheduleType type, std::string_view key) {
  static const bool checked = names_options();
  static_cast<void>(checked);
  return holds(" type steps lr_scale ", key) ||
         std::any_of(std::begin(kSettings), std::end(kSettings),
                     [&](const SettingsOf& s) { return s.type == type && holds(s.keys, key); });
}

bool may_say(const ScheduleOptions& s, std::string_view key) {
  return takes_setting(s.type, key) || (key == "warmup_steps" && s.warmup_steps == 0) ||
         (key == "min_lr_ratio" && s.min_lr_ratio == 0);
}

}  // namespace ravine
