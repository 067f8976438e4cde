// Arguments of the schedules that schedule.type takes from other programs under the names of their classes: those of DeepSpeed
// 0.19 (runtime/lr_schedules.py), of MindFormers 1.6 (core/lr/lr_schedule.py) and of Megatron-LM
// (optimizer_param_scheduler.py, which counts samples where steps are counted here), as these programs name them and with their
// defaults. What both and Ravine's own types have (warmup_steps, power, decay_steps, warmup_type) stands in ScheduleOptions.
#pragma once
#include <cstdint>
#include <optional>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/option.h"

namespace ravine {

struct ScheduleClasses {
  // MindFormers.
  double warmup_lr_init = 0, eta_min = 0, lr_scale = 1, lr_end1 = 0;
  std::optional<double> warmup_ratio, lr_end, num_cycles, decay_ratio, decay_start_ratio, lr_end2;
  int64_t total_steps = -1, keep_steps = 0, final_steps = 0, decay_start_steps = -1, t_max = 0, t_0 = 0, t_mult = 1;
  // DeepSpeed.
  double warmup_min_lr = 0, warmup_min_ratio = 0, cos_min_ratio = 1e-4;
  std::optional<double> warmup_max_lr, cycle_min_lr, cycle_max_lr;
  int64_t warmup_num_steps = 1000, total_num_steps = -1;
  int64_t cycle_first_step_size = 2000, cycle_second_step_size = 0, cycle_first_stair_count = 0, cycle_second_stair_count = -1;
  double decay_lr_rate = 0, decay_mom_rate = 0, cycle_min_mom = 0.8, cycle_max_mom = 0.9;
  int64_t decay_step_size = 0;
  bool cycle_momentum = true;
  double lr_range_test_min_lr = 1e-3, lr_range_test_step_rate = 1;
  int64_t lr_range_test_step_size = 2000;
  bool lr_range_test_staircase = false;
  // Megatron.
  DecayStyle lr_decay_style = DecayStyle::linear;
  double min_lr = 0, lr_warmup_init = 0, lr_warmup_steps = 0, lr_decay_steps = 0;

  template <class V>
  void each(V&& v) {
    const Rule length = between(-1, kMostSteps) & may_change(), steps = between(0, kMostSteps) & fixed();
    const Rule rate = between(0, kMostRate) & fixed(), share = between(0, 1) & no_value("none") & fixed();
    v("total_steps", total_steps, "length of the schedule; -1: schedule.steps, or train.steps", length);
    v("warmup_ratio", warmup_ratio,
      "warm-up as a share of the length, in place of warmup_steps; of Ravine's own types it becomes these steps, rounded up",
      share);
    v("warmup_lr_init", warmup_lr_init, "rate at which the warm-up begins", rate);
    v("lr_end", lr_end,
      "last rate (CosineWithWarmUpLR and CosineWithRestartsAndWarmUpLR: 0 unless given; PolynomialWithWarmUpLR and WarmUpStableDecayLR: 1e-7)",
      rate & no_value("none"));
    v("num_cycles", num_cycles,
      "waves (CosineWithWarmUpLR, ConstantWithCoolDownLR: 0.5 unless given) or restarts (CosineWithRestartsAndWarmUpLR: 1)",
      between(0, 1e6) & no_value("none") & fixed());
    v("decay_ratio", decay_ratio, "share of the length in place of decay_steps", share);
    v("keep_steps", keep_steps, "steps at the full rate behind the warm-up", steps);
    v("lr_end1", lr_end1, "rate behind the decay", rate);
    v("final_steps", final_steps, "steps at lr_end1", steps);
    v("lr_end2", lr_end2, "rate behind these; none or 0: lr_end1", rate & no_value("none"));
    v("decay_start_steps", decay_start_steps, "step at which the decay begins; -1: decay_start_ratio", length);
    v("decay_start_ratio", decay_start_ratio, "that as a share of the length", share);
    v("t_max", t_max, "steps of half a wave", steps);
    v("t_0", t_0, "steps of the first wave", steps);
    v("t_mult", t_mult, "how much longer each wave is than the one before", between(1, 1000) & fixed());
    v("eta_min", eta_min, "lowest rate", rate);
    v("lr_scale", lr_scale, "what the rate of any type is multiplied with (MindFormers' LearningRateWiseLayer)",
      between(0, 1e6) & fixed());

    v("total_num_steps", total_num_steps, "length of the schedule; -1: schedule.steps, or train.steps", length);
    v("warmup_num_steps", warmup_num_steps, "steps of the warm-up, at least 2", between(1, kMostSteps) & fixed());
    v("warmup_min_lr", warmup_min_lr, "rate at which the warm-up begins, and WarmupDecayLR ends", rate);
    v("warmup_max_lr", warmup_max_lr, "rate at its end; none: optimizer.lr", rate & no_value("none"));
    v("warmup_min_ratio", warmup_min_ratio, "first rate as a share of optimizer.lr", between(0, 1) & fixed());
    v("cos_min_ratio", cos_min_ratio, "last rate as a share of optimizer.lr", between(0, 1) & fixed());
    v("cycle_min_lr", cycle_min_lr, "lowest rate of the cycle (OneCycle, which needs it)", rate & no_value("none"));
    v("cycle_max_lr", cycle_max_lr, "highest rate of the cycle (OneCycle, which needs it)", rate & no_value("none"));
    v("cycle_first_step_size", cycle_first_step_size, "steps in which the rate rises", between(1, kMostSteps) & fixed());
    v("cycle_second_step_size", cycle_second_step_size, "steps in which it falls again; 0: as many", steps);
    v("cycle_first_stair_count", cycle_first_stair_count, "stairs of the rise; 0: none", steps);
    v("cycle_second_stair_count", cycle_second_stair_count, "stairs of the fall; -1: as many as of the rise",
      between(-1, kMostSteps) & fixed());
    v("decay_step_size", decay_step_size, "steps of a unit of the decay behind the cycle; 0: no decay", steps);
    v("decay_lr_rate", decay_lr_rate, "the rate is divided by 1 + decay_lr_rate per unit", between(0, 1e6) & fixed());
    v("cycle_momentum", cycle_momentum,
      "the first beta goes from cycle_max_mom to cycle_min_mom and back, the second is 0.99; of optimizers that have betas",
      fixed());
    v("cycle_min_mom", cycle_min_mom, "lowest first beta", between(0, kMostMomentum) & fixed());
    v("cycle_max_mom", cycle_max_mom, "highest first beta", between(0, kMostMomentum) & fixed());
    v("decay_mom_rate", decay_mom_rate, "behind the cycle the first beta is multiplied by 1 + decay_mom_rate per unit",
      between(0, 1) & fixed());
    v("lr_range_test_min_lr", lr_range_test_min_lr, "first rate", rate);
    v("lr_range_test_step_size", lr_range_test_step_size, "steps of a unit", between(1, kMostSteps) & fixed());
    v("lr_range_test_step_rate", lr_range_test_step_rate, "share of the first rate that a unit adds",
      between(0, 1e6) & fixed());
    v("lr_range_test_staircase", lr_range_test_staircase, "the rate rises at the end of a unit, not step by step", fixed());

    v("lr_decay_style", lr_decay_style, "how the rate falls behind the warm-up", fixed());
    v("min_lr", min_lr, "lowest rate", rate);
    v("lr_warmup_init", lr_warmup_init, "rate at which the warm-up begins", rate);
    v("lr_warmup_steps", lr_warmup_steps, "steps of the warm-up, of which there may be a fraction",
      between(0, kMostSteps) & fixed());
    v("lr_decay_steps", lr_decay_steps, "steps until the lowest rate, the warm-up among them; 0: the length of the schedule",
      between(0, kMostSteps) & may_change());
  }
};

}  // namespace ravine
