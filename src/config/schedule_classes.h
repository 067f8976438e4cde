// Options of the schedules of other programs (schedule.type with the name of a class). Names and defaults are theirs:
// DeepSpeed 0.19 (runtime/lr_schedules.py), MindFormers 1.6 (core/lr/lr_schedule.py) and Megatron-LM
// (optimizer_param_scheduler.py, which counts samples where Ravine counts steps). Options that Ravine's own types have
// too (warmup_steps, power, decay_steps, warmup_type) are in ScheduleOptions.
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
    v("warmup_ratio", warmup_ratio, "warmup as a share of the schedule's length, instead of warmup_steps",
      share & detail("For types of Ravine's own the warmup is rounded up to whole steps."));
    v("warmup_lr_init", warmup_lr_init, "first learning rate of the warmup", rate);
    v("lr_end", lr_end, "last learning rate; default by type, see details",
      rate & no_value("none") &
          detail("0: CosineWithWarmUpLR, CosineWithRestartsAndWarmUpLR. 1e-7: PolynomialWithWarmUpLR, WarmUpStableDecayLR."));
    v("num_cycles", num_cycles, "waves or restarts of the schedule; default by type, see details",
      between(0, 1e6) & no_value("none") & fixed() &
          detail("CosineWithWarmUpLR and ConstantWithCoolDownLR: waves, 0.5. CosineWithRestartsAndWarmUpLR: restarts, 1."));
    v("decay_ratio", decay_ratio, "decay as a share of the schedule's length, instead of decay_steps", share);
    v("keep_steps", keep_steps, "steps at the full learning rate after the warmup", steps);
    v("lr_end1", lr_end1, "learning rate after the decay", rate);
    v("final_steps", final_steps, "steps at lr_end1", steps);
    v("lr_end2", lr_end2, "learning rate after final_steps; none or 0: lr_end1", rate & no_value("none"));
    v("decay_start_steps", decay_start_steps, "step at which the decay begins; -1: decay_start_ratio", length);
    v("decay_start_ratio", decay_start_ratio, "step at which the decay begins, as a share of the length", share);
    v("t_max", t_max, "steps of half a cosine wave", steps);
    v("t_0", t_0, "steps of the first cosine wave", steps);
    v("t_mult", t_mult, "length of each wave, as a multiple of the wave before", between(1, 1000) & fixed());
    v("eta_min", eta_min, "lowest learning rate", rate);
    v("lr_scale", lr_scale, "factor on the learning rate of every type (LearningRateWiseLayer of MindFormers)",
      between(0, 1e6) & fixed());

    v("total_num_steps", total_num_steps, "length of the schedule; -1: schedule.steps, or train.steps", length);
    v("warmup_num_steps", warmup_num_steps, "steps of the warmup, at least 2", between(1, kMostSteps) & fixed());
    v("warmup_min_lr", warmup_min_lr, "first learning rate of the warmup, last one of WarmupDecayLR", rate);
    v("warmup_max_lr", warmup_max_lr, "learning rate at the end of the warmup; none: optimizer.lr", rate & no_value("none"));
    v("warmup_min_ratio", warmup_min_ratio, "first learning rate, as a share of optimizer.lr", between(0, 1) & fixed());
    v("cos_min_ratio", cos_min_ratio, "last learning rate, as a share of optimizer.lr", between(0, 1) & fixed());
    v("cycle_min_lr", cycle_min_lr, "lowest learning rate of the cycle (OneCycle needs it)", rate & no_value("none"));
    v("cycle_max_lr", cycle_max_lr, "highest learning rate of the cycle (OneCycle needs it)", rate & no_value("none"));
    v("cycle_first_step_size", cycle_first_step_size, "steps in which the learning rate rises",
      between(1, kMostSteps) & fixed());
    v("cycle_second_step_size", cycle_second_step_size, "steps in which the learning rate falls again; 0: as many as it rises",
      steps);
    v("cycle_first_stair_count", cycle_first_stair_count, "stairs of the rise; 0: no stairs", steps);
    v("cycle_second_stair_count", cycle_second_stair_count, "stairs of the fall; -1: as many as of the rise",
      between(-1, kMostSteps) & fixed());
    v("decay_step_size", decay_step_size, "steps of a decay unit after the cycle; 0: no decay", steps);
    v("decay_lr_rate", decay_lr_rate, "decay per unit: the learning rate is divided by 1 + decay_lr_rate",
      between(0, 1e6) & fixed());
    v("cycle_momentum", cycle_momentum, "move the first beta from cycle_max_mom to cycle_min_mom and back; the second is 0.99",
      fixed() & detail("This applies to optimizers that have betas."));
    v("cycle_min_mom", cycle_min_mom, "lowest first beta", between(0, kMostMomentum) & fixed());
    v("cycle_max_mom", cycle_max_mom, "highest first beta", between(0, kMostMomentum) & fixed());
    v("decay_mom_rate", decay_mom_rate, "growth of the first beta per decay unit: factor 1 + decay_mom_rate",
      between(0, 1) & fixed());
    v("lr_range_test_min_lr", lr_range_test_min_lr, "first learning rate", rate);
    v("lr_range_test_step_size", lr_range_test_step_size, "steps of a unit of the learning rate test",
      between(1, kMostSteps) & fixed());
    v("lr_range_test_step_rate", lr_range_test_step_rate, "increase per unit, as a share of the first learning rate",
      between(0, 1e6) & fixed());
    v("lr_range_test_staircase", lr_range_test_staircase, "raise the learning rate at the end of a unit, not step by step",
      fixed());

    v("lr_decay_style", lr_decay_style, "decay style after the warmup", fixed());
    v("min_lr", min_lr, "lowest learning rate", rate);
    v("lr_warmup_init", lr_warmup_init, "first learning rate of the warmup", rate);
    v("lr_warmup_steps", lr_warmup_steps, "steps of the warmup; a fraction is allowed", between(0, kMostSteps) & fixed());
    v("lr_decay_steps", lr_decay_steps, "steps to the lowest learning rate, warmup included; 0: the length of the schedule",
      between(0, kMostSteps) & may_change());
  }
};

}  // namespace ravine
