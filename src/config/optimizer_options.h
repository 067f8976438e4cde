// Section optimizer. optimizer_types.h says which type takes which option.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/option.h"

namespace ravine {

struct ParamGroup {
  std::string match;
  double lr_mult = 1, wd_mult = 1;
  int64_t from_step = 1;
  template <class V>
  void each(V&& v) {
    v("match", match, "glob pattern of parameter names", filled());
    v("lr_mult", lr_mult, "factor on the learning rate of these parameters", between(1e-6, 1e6) & or_zero());
    v("wd_mult", wd_mult, "factor on the weight decay of these parameters", between(1e-6, 1e6) & or_zero());
    v("from_step", from_step, "first update of these parameters; they are frozen before it", between(1, kMostSteps));
  }
};

// The options of section optimizer: first the options of all types, then the options of single types
// (config/optimizer_types.h).
struct OptimizerOptions {
  OptimizerType type = OptimizerType::adamw;
  DecayOf decay = DecayOf::matrices;
  double lr = 3e-4;
  std::vector<double> betas = {0.9, 0.95}, eps = {1e-8};
  double weight_decay = 0.1, clip_norm = 1, momentum = 0.9;
  bool nesterov = false;
  double dampening = 0;
  double lr_decay = 0, initial_accumulator_value = 0;
  double beta1 = 0.9, beta3 = 0.99, clip_threshold = 1, decay_rate = -0.8;
  bool scale_parameter = true, relative_step = true, warmup_init = false;
  bool bias_correction = true;
  double max_coeff = 10, min_coeff = 0.01;
  std::vector<double> ns_coefficients = {3.4445, -4.775, 2.0315};
  int64_t ns_steps = 5;
  AdjustRate adjust_lr_fn = AdjustRate::original;
  int64_t freeze_step = 100000, var_freeze_step = 100000, var_update_scaler = 16, local_step_scaler = 32678,
          local_step_clipper = 16;
  double coeff_beta = 0.9, factor_max = 4, factor_min = 0.5, factor_threshold = 0.1;
  std::vector<ParamGroup> groups;
  template <class V>
  void each(V&& v) {
    v("type", type, "update rule; docs/howto/optimizers.md lists the options and defaults of each rule", fixed() & common());
    v("lr", lr, "peak learning rate", between(1e-12, 1e30) & or_zero() & fixed() & common());
    v("betas", betas, "decay rates of the first and second moment of the gradients",
      between(0, kMostMomentum) & length(2) & fixed());
    v("eps", eps, "term added to the denominator of the update",
      between(0, 1) & lone() & fixed() &
          detail(
              "adafactor: [term of the squared gradients, least size of a parameter]. came: the same, and [term of the squared instability]."));
    v("weight_decay", weight_decay, "weight decay of the parameters that optimizer.decay names",
      between(1e-12, 1e4) & or_zero() & fixed() & common());
    v("decay", decay, "parameters with weight decay: matrices, or all",
      fixed() & detail("all includes norms and biases, as PyTorch and DeepSpeed do without parameter groups."));
    v("clip_norm", clip_norm, "limit of the global gradient norm (clipping); 0: no clipping",
      between(1e-8, 1e12) & or_zero() & fixed() & common());
    v("momentum", momentum, "momentum", between(0, kMostMomentum) & fixed());
    v("nesterov", nesterov, "Nesterov momentum", fixed());
    v("dampening", dampening, "dampening of the momentum", between(0, 1) & fixed());
    v("lr_decay", lr_decay, "step t takes lr / (1 + (t - 1) lr_decay)", between(1e-12, 1e6) & or_zero() & fixed());
    v("initial_accumulator_value", initial_accumulator_value, "initial value of the sums of squares",
      between(1e-30, 1e12) & or_zero() & fixed());
    v("beta1", beta1, "decay rate of the first moment; adafactor: 0 for no first moment", between(0, kMostMomentum) & fixed());
    v("beta3", beta3, "decay rate of the instability (came)", between(0, kMostMomentum) & fixed());
    v("clip_threshold", clip_threshold, "limit of an update's root mean square, before the learning rate",
      between(1e-6, 1e6) & fixed());
    v("decay_rate", decay_rate, "decay of squared gradients at step t: 1 - t^-|decay_rate|", between(-1, 1) & fixed());
    v("scale_parameter", scale_parameter, "multiply the learning rate by the parameter's root mean square", fixed());
    v("relative_step", relative_step, "set the learning rate of step t to min(0.01, 1 / sqrt(t)); optimizer.lr is ignored",
      fixed());
    v("warmup_init", warmup_init, "with relative_step: learning rate 1e-6 t instead of 0.01", fixed());
    v("bias_correction", bias_correction, "bias correction of moments, which begin at zero", fixed());
    v("max_coeff", max_coeff, "largest trust ratio", between(1e-12, 1e12) & fixed());
    v("min_coeff", min_coeff, "least trust ratio", between(1e-12, 1e12) & or_zero() & fixed());
    v("ns_coefficients", ns_coefficients, "[a, b, c] of the Newton-Schulz iteration: X = a X + (b A + c A A) X, A = X X^T",
      between(-100, 100) & length(3) & fixed());
    v("ns_steps", ns_steps, "Newton-Schulz iterations", between(1, 99) & fixed());
    v("adjust_lr_fn", adjust_lr_fn, "factor on the learning rate of a matrix, by its shape",
      fixed() &
          detail(
              "original: sqrt(max(1, rows / columns)). match_rms_adamw: 0.2 sqrt(max(rows, columns)), for learning rates of adamw."));
    v("freeze_step", freeze_step, "last step with uncompressed gradients and a moving second moment",
      between(2, kMostSteps) & fixed());
    v("var_freeze_step", var_freeze_step, "the second moment is updated up to step var_freeze_step + 1, and frozen then",
      between(2, kMostSteps) & fixed());
    v("var_update_scaler", var_update_scaler, "updates of the second moment until the interval between them doubles",
      between(1, kMostSteps) & fixed());
    v("local_step_scaler", local_step_scaler, "steps after var_freeze_step until the interval between exchanges doubles",
      between(1, kMostSteps) & fixed());
    v("local_step_clipper", local_step_clipper, "longest interval between exchanges", between(1, kMostSteps) & fixed());
    v("coeff_beta", coeff_beta, "decay rate of the mean trust ratio, which is frozen later",
      between(0, kMostMomentum) & fixed());
    v("factor_max", factor_max, "largest factor on the frozen trust ratio", between(1e-6, 1e6) & fixed());
    v("factor_min", factor_min, "least factor on the frozen trust ratio", between(1e-6, 1e6) & fixed());
    v("factor_threshold", factor_threshold, "largest relative change of the factor in a step", between(1e-6, 1) & fixed());
    v("groups", groups, "settings for parameters by name; the first match applies: {match: GLOB, lr_mult: 1, wd_mult: 1}",
      fixed() &
          detail(
              "lr_mult and wd_mult are factors on learning rate and weight decay. from_step is the first update of these parameters (docs/howto/finetune.md)."));
  }
};

}  // namespace ravine
