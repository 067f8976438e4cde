#include "config/schedule_takes.h"

#include <algorithm>

#include "config/config.h"

namespace ravine {
namespace {

struct ArgumentsOf {
  ScheduleType type;
  std::string_view keys;  // between blanks
};

constexpr ArgumentsOf kArguments[] = {
    {ScheduleType::LRRangeTest,
     " lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase "},
    {ScheduleType::OneCycle,
     " cycle_min_lr cycle_max_lr cycle_first_step_size cycle_second_step_size cycle_first_stair_count cycle_second_stair_count decay_step_size decay_lr_rate cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate "},
    {ScheduleType::WarmupLR, " warmup_min_lr warmup_max_lr warmup_num_steps "},
    {ScheduleType::WarmupDecayLR, " warmup_min_lr warmup_max_lr warmup_num_steps total_num_steps "},
    {ScheduleType::WarmupCosineLR, " warmup_num_steps total_num_steps warmup_min_ratio cos_min_ratio "},
    {ScheduleType::ConstantWarmUpLR, " total_steps warmup_ratio warmup_lr_init "},
    {ScheduleType::ConstantWithCoolDownLR,
     " total_steps warmup_ratio warmup_lr_init keep_steps decay_ratio num_cycles lr_end1 final_steps lr_end2 "},
    {ScheduleType::LinearWithWarmUpLR, " total_steps warmup_ratio warmup_lr_init "},
    {ScheduleType::CosineWithWarmUpLR, " total_steps warmup_ratio warmup_lr_init lr_end num_cycles decay_ratio "},
    {ScheduleType::CosineWithRestartsAndWarmUpLR, " total_steps warmup_ratio warmup_lr_init lr_end num_cycles decay_ratio "},
    {ScheduleType::PolynomialWithWarmUpLR, " total_steps warmup_ratio warmup_lr_init lr_end decay_ratio "},
    {ScheduleType::WarmUpStableDecayLR, " total_steps warmup_ratio warmup_lr_init lr_end decay_start_steps decay_start_ratio "},
    {ScheduleType::CosineAnnealingLR, " t_max eta_min "},
    {ScheduleType::CosineAnnealingWarmRestarts, " t_0 t_mult eta_min "},
};

bool holds(std::string_view keys, std::string_view key) { return keys.find(" " + std::string(key) + " ") != keys.npos; }

}  // namespace

bool is_class_argument(std::string_view key) {
  return std::any_of(std::begin(kArguments), std::end(kArguments), [&](const ArgumentsOf& a) { return holds(a.keys, key); });
}

bool takes_argument(ScheduleType type, std::string_view key) {
  return std::any_of(std::begin(kArguments), std::end(kArguments),
                     [&](const ArgumentsOf& a) { return a.type == type && holds(a.keys, key); });
}

}  // namespace ravine
