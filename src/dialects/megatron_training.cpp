// Megatron's flags of training: batches, steps, rates, optimizer, precision, adapters.
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;

DialectTable megatron_step_rows() {
  return {
      copied("--micro-batch-size", whole, "train.micro_batch"),
      renamed("--global-batch-size", whole, "train.global_batch"),
      inert("--rampup-batch-size", wholes,
            "a run begins with --ignore-ramp alone: every batch has --global-batch-size sequences, and the curve is another"),
      used("--ignore-ramp", on, "--rampup-batch-size, without which the run begins"),
      renamed("--train-iters", whole, "train.steps"),
      used("--train-samples", whole, "train.steps"),
      refused("--train-tokens", whole, "a run ends after steps or samples", "write --train-samples"),
      renamed("--lr", number, "optimizer.lr"),
      used("--min-lr", number, "schedule.min_lr", 0.0),
      used("--lr-decay-style", text, "schedule.lr_decay_style", "linear",
           {"constant", "linear", "cosine", "inverse-square-root"}),
      used("--lr-decay-iters", whole, "schedule.lr_decay_steps"),
      used("--lr-decay-samples", whole, "schedule.lr_decay_steps"),
      refused("--lr-decay-tokens", whole, "schedules are counted in steps or samples", "write --lr-decay-samples"),
      used("--lr-warmup-fraction", number, "schedule.lr_warmup_steps"),
      used("--lr-warmup-iters", whole, "schedule.lr_warmup_steps", 0),
      used("--lr-warmup-samples", whole, "schedule.lr_warmup_steps", 0),
      refused("--lr-warmup-tokens", whole, "schedules are counted in steps or samples", "write --lr-warmup-samples"),
      renamed("--lr-warmup-init", number, "schedule.lr_warmup_init", 0.0),
      used("--override-opt_param-scheduler", on, "schedule.type"),
      used("--override-lr-scheduler", on, "schedule.type"),
      used("--use-checkpoint-opt_param-scheduler", on, "schedule.type"),
      used("--use-checkpoint-lr-scheduler", on, "schedule.type"),
      renamed("--log-interval", whole, "log.every", 100),
      renamed("--exit-interval", whole, "train.exit_every"),
      renamed("--exit-duration-in-mins", whole, "train.exit_minutes"),
      inert("--exit-signal-handler", on, "SIGTERM always saves and stops"),
      copied("--seed", whole, "train.seed", 1234),
      inert("--data-parallel-random-init", on, "there too the weights of the first data rank go to all of them"),
      refused("--batch-size", whole, "Megatron's own name is another by now", "write --micro-batch-size"),
      refused("--warmup", number, "Megatron's own name is another by now", "write --lr-warmup-fraction"),
      refused("--model-parallel-size", whole, "Megatron's own name is another by now", "write --tensor-model-parallel-size"),
      refused("--skip-train", on, "this command trains", "use `ravine eval`, or validate with --eval-interval"),
  };
}

DialectTable megatron_optimizer_rows(MegatronAge age) {
  const double dropout = age == MegatronAge::classic ? 0.0 : 0.1;
  return {
      renamed("--attention-dropout", number, "train.attention_dropout", dropout),
      renamed("--hidden-dropout", number, "train.dropout", dropout),
      renamed("--weight-decay", number, "optimizer.weight_decay", 0.01),
      used("--start-weight-decay", number, "optimizer.weight_decay"),
      used("--end-weight-decay", number, "optimizer.weight_decay"),
      used("--weight-decay-incr-style", text, "optimizer.weight_decay", "constant", {"constant", "linear", "cosine"}),
      copied("--clip-grad", number, "optimizer.clip_norm", 1.0),
      used("--adam-beta1", number, "optimizer.betas", 0.9),
      used("--adam-beta2", number, "optimizer.betas", 0.999),
      renamed("--adam-eps", number, "optimizer.eps", 1e-8),
      renamed("--sgd-momentum", number, "optimizer.momentum", 0.9),
      used("--optimizer", text, "optimizer.type", "adam", {"adam", "sgd", "fused_adam", "cadam"}),
      used("--release-fp32-grad", on, "precision.gradients"),
      inert("--cpu-optimizer", on, "all memory is the CPU's"),
      inert("--cpu_torch_adam", on, "both kinds of Adam compute the same; all memory is the CPU's"),
      used("--no-load-optim", on, "model.weights"),
      inert("--no-load-rng", on, "no state of random numbers is loaded: they follow from seed and step"),
      used("--no-load-lr-state", on, "refused where --load is an iteration to go on from"),
      inert("--no-save-rng", on, "no state of random numbers is saved: they follow from seed and step"),
      used("--no-save-optim", on, "checkpoint.optimizer"),
      used("--fp16", on, "precision.compute"),
      used("--bf16", on, "precision.compute"),
      renamed("--loss-scale", number, "precision.loss_scale"),
      renamed("--initial-loss-scale", number, "precision.scale_initial", 4294967296.0),
      renamed("--min-loss-scale", number, "precision.scale_min", 1.0),
      renamed("--loss-scale-window", whole, "precision.scale_window", 1000),
      renamed("--hysteresis", whole, "precision.scale_hysteresis", 2),
  };
}

DialectTable megatron_adapter_rows() {
  return {
      renamed("--lora-target-modules", texts, "lora.targets"),
      renamed("--lora-load", text, "lora.path"),
      renamed("--lora-r", whole, "lora.rank", 16),
      renamed("--lora-alpha", number, "lora.alpha", 32),
      renamed("--lora-modules-to-save", texts, "lora.save"),
      inert("--lora-register-forward-hook", texts, "gradients reach every adapter without hooks"),
      inert("--lora-adapter-name", text, "a run trains one adapter, whose name decides no number"),
  };
}

}  // namespace

DialectTable megatron_training_rows(MegatronAge age) {
  return joined({megatron_step_rows(), megatron_optimizer_rows(age), megatron_adapter_rows()});
}

}  // namespace ravine
