// The closed choices of options, with the names of their values. config.h says what a value does.
#pragma once
#include "config/choice.h"

namespace ravine {

inline constexpr const char* kAuto = "auto";  // the value of an option with which the program chooses

// ---- data ----

enum class RecordFormat : uint8_t { automatic, text, alpaca, sharegpt, messages };
constexpr auto names_of(RecordFormat) {
  using enum RecordFormat;
  return std::to_array<ValueName<RecordFormat>>(
      {{automatic, kAuto}, {text, "text"}, {alpaca, "alpaca"}, {sharegpt, "sharegpt"}, {messages, "messages"}});
}

enum class LossOn : uint8_t { answers, last, all };
constexpr auto names_of(LossOn) {
  using enum LossOn;
  return std::to_array<ValueName<LossOn>>({{answers, "answers"}, {last, "last"}, {all, "all"}});
}

enum class TooLong : uint8_t { cut, drop };
constexpr auto names_of(TooLong) {
  using enum TooLong;
  return std::to_array<ValueName<TooLong>>({{cut, "cut"}, {drop, "drop"}});
}

enum class SampleOrder : uint8_t { philox, megatron, megatron_2023, mindspore, mindspore_whole };
constexpr auto names_of(SampleOrder) {
  using enum SampleOrder;
  return std::to_array<ValueName<SampleOrder>>({{philox, "philox"},
                                                {megatron, "megatron"},
                                                {megatron_2023, "megatron-2023"},
                                                {mindspore, "mindspore"},
                                                {mindspore_whole, "mindspore-whole"}});
}

// ---- train ----

enum class Recompute : uint8_t { none, cheap, full, automatic };
constexpr auto names_of(Recompute) {
  using enum Recompute;
  return std::to_array<ValueName<Recompute>>({{none, "none"}, {cheap, "cheap"}, {full, "full"}, {automatic, kAuto}});
}

enum class TrainObjective : uint8_t { causal, dpo };
constexpr auto names_of(TrainObjective) {
  using enum TrainObjective;
  return std::to_array<ValueName<TrainObjective>>({{causal, "causal"}, {dpo, "dpo"}});
}

enum class PreferenceLossType : uint8_t { sigmoid, hinge, ipo };
constexpr auto names_of(PreferenceLossType) {
  using enum PreferenceLossType;
  return std::to_array<ValueName<PreferenceLossType>>({{sigmoid, "sigmoid"}, {hinge, "hinge"}, {ipo, "ipo"}});
}

enum class LossAverage : uint8_t { tokens, micro, global_micro };
constexpr auto names_of(LossAverage) {
  using enum LossAverage;
  return std::to_array<ValueName<LossAverage>>({{tokens, "tokens"}, {micro, "micro"}, {global_micro, "global-micro"}});
}

// ---- optimizer and schedule ----

// Muon's factor on the learning rate of a matrix.
enum class AdjustRate : uint8_t { original, match_rms_adamw };
constexpr auto names_of(AdjustRate) {
  using enum AdjustRate;
  return std::to_array<ValueName<AdjustRate>>({{original, "original"}, {match_rms_adamw, "match_rms_adamw"}});
}

// One value for each row of optimizers.def.
enum class OptimizerType : uint8_t {
#define OPTIMIZER(name, ...) name,
#include "config/optimizers.def"
#undef OPTIMIZER
};
constexpr auto names_of(OptimizerType) {
  return std::to_array<ValueName<OptimizerType>>({
#define OPTIMIZER(name, ...) {OptimizerType::name, #name},
#include "config/optimizers.def"
#undef OPTIMIZER
  });
}

enum class DecayOf : uint8_t { matrices, all };
constexpr auto names_of(DecayOf) {
  using enum DecayOf;
  return std::to_array<ValueName<DecayOf>>({{matrices, "matrices"}, {all, "all"}});
}

enum class ScheduleType : uint8_t {
  constant,
  linear,
  cosine,
  polynomial,
  cosine_with_restarts,
  inverse_sqrt,
  warmup_stable_decay,
  cosine_warmup_with_min_lr,
  reduce_lr_on_plateau,
  greedy,
  // Schedules of other programs, by the names of their classes (optim/class_schedules.h): DeepSpeed, MindFormers,
  // Megatron.
  LRRangeTest,
  OneCycle,
  WarmupLR,
  WarmupDecayLR,
  WarmupCosineLR,
  ConstantWarmUpLR,
  ConstantWithCoolDownLR,
  LinearWithWarmUpLR,
  CosineWithWarmUpLR,
  CosineWithRestartsAndWarmUpLR,
  PolynomialWithWarmUpLR,
  WarmUpStableDecayLR,
  CosineAnnealingLR,
  CosineAnnealingWarmRestarts,
  OptimizerParamScheduler  // Megatron's
};
constexpr auto names_of(ScheduleType) {
  using enum ScheduleType;
  return std::to_array<ValueName<ScheduleType>>({{constant, "constant"},
                                                 {linear, "linear"},
                                                 {cosine, "cosine"},
                                                 {polynomial, "polynomial"},
                                                 {cosine_with_restarts, "cosine_with_restarts"},
                                                 {inverse_sqrt, "inverse_sqrt"},
                                                 {warmup_stable_decay, "warmup_stable_decay"},
                                                 {cosine_warmup_with_min_lr, "cosine_warmup_with_min_lr"},
                                                 {reduce_lr_on_plateau, "reduce_lr_on_plateau"},
                                                 {greedy, "greedy"},
                                                 {LRRangeTest, "LRRangeTest"},
                                                 {OneCycle, "OneCycle"},
                                                 {WarmupLR, "WarmupLR"},
                                                 {WarmupDecayLR, "WarmupDecayLR"},
                                                 {WarmupCosineLR, "WarmupCosineLR"},
                                                 {ConstantWarmUpLR, "ConstantWarmUpLR"},
                                                 {ConstantWithCoolDownLR, "ConstantWithCoolDownLR"},
                                                 {LinearWithWarmUpLR, "LinearWithWarmUpLR"},
                                                 {CosineWithWarmUpLR, "CosineWithWarmUpLR"},
                                                 {CosineWithRestartsAndWarmUpLR, "CosineWithRestartsAndWarmUpLR"},
                                                 {PolynomialWithWarmUpLR, "PolynomialWithWarmUpLR"},
                                                 {WarmUpStableDecayLR, "WarmUpStableDecayLR"},
                                                 {CosineAnnealingLR, "CosineAnnealingLR"},
                                                 {CosineAnnealingWarmRestarts, "CosineAnnealingWarmRestarts"},
                                                 {OptimizerParamScheduler, "OptimizerParamScheduler"}});
}

// The decay of the learning rate of OptimizerParamScheduler after the warmup.
enum class DecayStyle : uint8_t { constant, linear, cosine, inverse_square_root };
constexpr auto names_of(DecayStyle) {
  using enum DecayStyle;
  return std::to_array<ValueName<DecayStyle>>(
      {{constant, "constant"}, {linear, "linear"}, {cosine, "cosine"}, {inverse_square_root, "inverse-square-root"}});
}

// The shape of a rise or fall of the learning rate.
enum class RateShape : uint8_t { linear, cosine, one_minus_sqrt, log };
constexpr auto names_of(RateShape) {
  using enum RateShape;
  return std::to_array<ValueName<RateShape>>(
      {{linear, "linear"}, {cosine, "cosine"}, {one_minus_sqrt, "1-sqrt"}, {log, "log"}});
}

enum class ThresholdMode : uint8_t { relative, absolute };
constexpr auto names_of(ThresholdMode) {
  using enum ThresholdMode;
  return std::to_array<ValueName<ThresholdMode>>({{relative, "rel"}, {absolute, "abs"}});
}

// ---- log ----

// The format of the log lines of steps.
enum class LogStyle : uint8_t { ravine, mindformers, megatron };
constexpr auto names_of(LogStyle) {
  using enum LogStyle;
  return std::to_array<ValueName<LogStyle>>({{ravine, "ravine"}, {mindformers, "mindformers"}, {megatron, "megatron"}});
}

// ---- checkpoints ----

// The layout of checkpoint files.
enum class CheckpointLayout : uint8_t { ravine, mindformers, deepspeed, megatron, trainer };
constexpr auto names_of(CheckpointLayout) {
  using enum CheckpointLayout;
  return std::to_array<ValueName<CheckpointLayout>>({{ravine, "ravine"},
                                                     {mindformers, "mindformers"},
                                                     {deepspeed, "deepspeed"},
                                                     {megatron, "megatron"},
                                                     {trainer, "trainer"}});
}

enum class CheckpointFormat : uint8_t { safetensors, ckpt };
constexpr auto names_of(CheckpointFormat) {
  using enum CheckpointFormat;
  return std::to_array<ValueName<CheckpointFormat>>({{safetensors, "safetensors"}, {ckpt, "ckpt"}});
}

// ---- layout ----

enum class StageSplit : uint8_t { even, cost };
constexpr auto names_of(StageSplit) {
  using enum StageSplit;
  return std::to_array<ValueName<StageSplit>>({{even, "even"}, {cost, "cost"}});
}

// ---- arithmetic ----

// The rule that changes a dynamic loss scale (step/loss_scale.h).
enum class ScaleRule : uint8_t { deepspeed, deepspeed_013, mindformers, mindformers_adaptive };
constexpr auto names_of(ScaleRule) {
  using enum ScaleRule;
  return std::to_array<ValueName<ScaleRule>>({{deepspeed, "deepspeed"},
                                              {deepspeed_013, "deepspeed-0.13"},
                                              {mindformers, "mindformers"},
                                              {mindformers_adaptive, "mindformers-adaptive"}});
}

// The type of matrix gradients between the micro batches and the update.
enum class GradientType : uint8_t { f32, compute };
constexpr auto names_of(GradientType) {
  using enum GradientType;
  return std::to_array<ValueName<GradientType>>({{f32, "f32"}, {compute, "compute"}});
}

// The storage of frozen weights under adapters: 16 bits, or blocks of 4 bits (kernels/nf4.h).
enum class BaseStorage : uint8_t { bf16, nf4 };
constexpr auto names_of(BaseStorage) {
  using enum BaseStorage;
  return std::to_array<ValueName<BaseStorage>>({{bf16, "bf16"}, {nf4, "nf4"}});
}

// The multiplication of bf16 on a CPU: widened to f32, or with the dot product instruction (kernels/kernels.h).
enum class Bf16Products : uint8_t { widen, dot };
constexpr auto names_of(Bf16Products) {
  using enum Bf16Products;
  return std::to_array<ValueName<Bf16Products>>({{widen, "widen"}, {dot, "dot"}});
}

// ---- kernel calls, as named by precision rules and injected faults (engine/observer.h) ----

enum class Phase : uint8_t { forward, recompute, backward, update };
constexpr auto names_of(Phase) {
  using enum Phase;
  return std::to_array<ValueName<Phase>>(
      {{forward, "forward"}, {recompute, "recompute"}, {backward, "backward"}, {update, "update"}});
}

// The result of a call: values of the forward pass (also when recomputed, and in the update), gradients of inputs, or
// gradients of parameters. A kernel that computes both kinds of gradients is dx.
enum class Role : uint8_t { forward, dx, dw };
constexpr auto names_of(Role) {
  using enum Role;
  return std::to_array<ValueName<Role>>({{forward, "forward"}, {dx, "dx"}, {dw, "dw"}});
}

enum class PlantedValue : uint8_t { nan, infinity, minus_infinity, bad_alloc };
constexpr auto names_of(PlantedValue) {
  using enum PlantedValue;
  return std::to_array<ValueName<PlantedValue>>(
      {{nan, "nan"}, {infinity, "inf"}, {minus_infinity, "-inf"}, {bad_alloc, "bad_alloc"}});
}

}  // namespace ravine
