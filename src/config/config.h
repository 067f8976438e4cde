// The options of a run. A field and its line in `each` declare an option completely (docs/howto/add-an-option.md). Long
// sections have their own headers (data, log, moe, offload, optimizer, probe). schedule_classes.h has the options of
// section schedule that come from other programs.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/data_options.h"
#include "config/log_options.h"
#include "config/model_choices.h"
#include "config/moe_options.h"
#include "config/offload_options.h"
#include "config/optimizer_options.h"
#include "config/option.h"
#include "config/probe_options.h"
#include "config/schedule_classes.h"

namespace ravine {

struct ModelOptions {
  std::string path, config, weights, tokenizer;
  int64_t vocabulary = 0;
  NewRows new_rows = NewRows::mean;
  Tie tie = Tie::stored;
  template <class V>
  void each(V&& v) {
    v("path", path, "folder of a Hugging Face model: config, weights, tokenizer",
      reads_folder() & fixed() & detail("A resume needs the same weights. The folder may have moved."));
    v("config", config, "config.json of a new model, instead of model.path",
      reads() & or_map() & may_change() & common() &
          detail(
              "The weights of a new model are drawn from train.seed, if model.weights is empty. A YAML file may hold the map itself."));
    v("weights", weights, "weights to begin training from, for the model in model.config; empty: drawn from train.seed",
      reads_folder() & may_change() & detail("Every layout that ravine convert reads is taken."));
    v("tokenizer", tokenizer, "tokenizer folder or file; empty: the one in model.path", reads() & may_change() & common());
    v("vocabulary", vocabulary,
      "rows of embedding and head; 0: as stored; -1: as stored, or more if the tokenizer has more ids",
      between(-1, 1 << 30) & may_change() &
          detail(
              "Rows that were stored keep their bits, and model.new_rows initialises the others. -1 never drops a stored row."));
    v("new_rows", new_rows, "initial value of new vocabulary rows: mean of the stored rows, or random normal numbers",
      fixed() & detail("Normal numbers are drawn as for a new model. Only rows beyond those of model.path are new."));
    v("tie", tie, "share embedding and head: tied, untied, or as the model is stored",
      may_change() &
          detail("tied: the head becomes the embedding's matrix. untied: the head begins as a copy of the embedding."));
  }
};

// True if model.config has the fields of a config.json as JSON, and is no path.
bool is_inline(const std::string& model_config);
// Returns the name of the run's model for messages: its folder, its config.json, or "model.config".
std::string model_place(const ModelOptions& model);

struct LoraOptions {
  int64_t rank = 0;
  double alpha = 16, dropout = 0;
  std::vector<std::string> targets;
  bool rslora = false;
  std::map<std::string, int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
  std::vector<int64_t> layers;
  std::vector<std::string> save;
  std::string path;
  bool merge = false;
  std::optional<BaseStorage> base;
  bool asked() const { return rank > 0 || !path.empty(); }
  template <class V>
  void each(V&& v) {
    v("rank", rank, "rank of the adapters (LoRA); 0: no adapters, the whole model is trained",
      between(0, 65536) & fixed() & common());
    v("alpha", alpha, "scale of the adapters: scale = alpha / rank", between(1e-6, 1e9) & fixed());
    v("dropout", dropout, "dropout probability of the input of an adapter", at_least(0) & below(1) & fixed());
    v("targets", targets, "modules that get adapters, by the ends of their names; empty: q and v projections",
      fixed() & common() &
          detail(
              "Names of the model's files and names of Megatron are known. all-linear stands for every linear layer but the head."));
    v("rslora", rslora, "rank-stabilised adapters: scale = alpha / sqrt(rank)", fixed());
    v("rank_pattern", rank_pattern, "rank of single modules, by the ends of names or by regular expressions, as in PEFT",
      between(1, 65536) & fixed());
    v("alpha_pattern", alpha_pattern, "alpha of single modules, by the same patterns as lora.rank_pattern",
      between(1e-6, 1e9) & fixed());
    v("layers", layers, "numbers of the layers that get adapters, from 0; empty: all layers", between(0, 1e9) & fixed());
    v("save", save, "modules to train in full, in addition to adapters, by the ends of their names",
      fixed() &
          detail("For example [embed_tokens, lm_head, norm]. Megatron's word_embeddings and output_layer are known too."));
    v("path", path, "folder of an adapter to continue training: of PEFT, or a LoRA checkpoint of ModelLink",
      reads_folder() & fixed() & detail("Rank, alpha and targets are read from the adapter and need not be set."));
    v("merge", merge, "merge the adapters at the end: write OUTPUT/model instead of OUTPUT/adapter", may_change());
    v("base", base, "number format of the frozen linear weights: bf16 or nf4; empty: as without adapters",
      no_value("") & fixed() &
          detail(
              "nf4 has blocks of 4 bits, as bitsandbytes makes them for QLoRA. The head keeps its format. With bf16 or nf4, embedding and head are in precision.compute."));
  }
};

struct TrainOptions {
  int64_t steps = 1000, global_batch = 8, micro_batch = 1, seed = 42;
  double epochs = 0;
  std::string output = "runs/default";
  TrainObjective objective = TrainObjective::causal;
  Recompute recompute = Recompute::cheap;
  std::vector<int64_t> recompute_layers;
  int64_t memory_mb = 0;
  LossAverage loss_average = LossAverage::tokens;
  double dropout = 0, attention_dropout = 0;
  int64_t valid_every = 0, valid_batches = 0;
  int64_t exit_every = 0;
  double exit_minutes = 0;
  int64_t stop_signal = 0;
  bool find_nan = false;
  int64_t threads = 0;
  std::vector<std::string> freeze;
  template <class V>
  void each(V&& v) {
    v("steps", steps, "optimizer steps of the whole run", between(1, kMostSteps) & may_change() & common());
    v("epochs", epochs, "epochs to train, instead of train.steps; 0: train.steps",
      between(0, 1e6) & may_change() & common() &
          detail("The number of epochs is rounded up to whole steps as soon as the size of the data is known."));
    v("global_batch", global_batch, "sequences per optimizer step, over all ranks and micro batches",
      between(1, kMostSequences) & may_change() & common());
    v("micro_batch", micro_batch, "sequences per forward and backward pass of a rank",
      between(1, kMostSequences) & other_bits() & common());
    v("seed", seed, "seed of initialisation, data order and dropout", at_least(0) & fixed() & common());
    v("output", output, "folder that the run writes", filled() & writes() & metavar("DIR") & may_change() & common());
    v("objective", objective, "what is learned: causal (the next token) or dpo (to prefer the chosen answer of a pair)",
      fixed() & common() & detail("Section dpo has the options of dpo."));
    v("recompute", recompute, "activations to recompute in the backward pass: none, cheap, full, or auto (train.memory_mb)",
      may_change() & common() &
          detail(
              "cheap recomputes outputs of norms and activation functions. auto recomputes as little as fits into train.memory_mb."));
    v("recompute_layers", recompute_layers, "layers that train.recompute=full recomputes, for each pipeline part; empty: all",
      between(0, 4096) & may_change() &
          detail("The first layers of a part are recomputed in full, the other layers as under cheap."));
    v("memory_mb", memory_mb, "memory limit of a rank for train.recompute=auto, in MB", between(0, 1e9) & may_change());
    v("loss_average", loss_average, "average of the loss over a step: per label, or mean of the means of micro batches",
      fixed() &
          detail(
              "Megatron and MindFormers take the mean of means. A micro batch without labels has mean 0. Under global-micro a micro batch spans all data ranks."));
    v("dropout", dropout, "dropout probability of activations, in training",
      between(0, 0.99) & because("what stays is multiplied by 1 / (1 - dropout)") & fixed());
    v("attention_dropout", attention_dropout, "dropout probability of attention probabilities, in training",
      between(0, 0.99) & because("what stays is multiplied by 1 / (1 - attention_dropout)") & fixed());
    v("valid_every", valid_every, "steps between validations; 0: never", between(0, kMostSteps) & may_change() & common());
    v("valid_batches", valid_batches, "micro batches per validation; 0: all", between(0, kMostSteps) & may_change());
    v("exit_every", exit_every, "save and end the run at each multiple of this number of steps; 0: never",
      between(0, kMostSteps) & may_change() & detail("The exit status is 0, and the same command goes on."));
    v("exit_minutes", exit_minutes, "save and end the run after so many minutes since its start; 0: never",
      between(1e-6, 1e7) & or_zero() & may_change() & detail("The step under way is finished. The exit status is 0."));
    v("stop_signal", stop_signal, "number of a further signal that stops the run as SIGTERM does; 0: none",
      between(1, 64) & or_zero() & may_change());
    v("find_nan", find_nan, "if the loss becomes NaN, name the first op that produced a NaN", may_change());
    v("threads", threads, "threads for compute; 0: all cores of this process", between(0, 4096) & may_change());
    v("freeze", freeze, "glob patterns of parameters that are not trained", filled() & fixed());
  }
};

// Options of direct preference optimization (train.objective=dpo).
struct DpoOptions {
  PreferenceLossType loss = PreferenceLossType::sigmoid;
  double beta = 0.1, label_smoothing = 0, ftx = 0;
  std::string reference;
  template <class V>
  void each(V&& v) {
    v("loss", loss, "loss of a pair: sigmoid, hinge or ipo",
      fixed() &
          detail(
              "sigmoid: Rafailov et al. 2023. hinge: Zhao et al. 2023. ipo: Azar et al. 2023, on log-probabilities per token."));
    v("beta", beta, "strength of the pull to the reference model (beta of DPO; tau of ipo)", between(1e-6, 1e6) & fixed());
    v("label_smoothing", label_smoothing, "assumed share of pairs with the wrong order (dpo.loss=sigmoid)",
      at_least(0) & below(0.5) & fixed());
    v("ftx", ftx, "weight of the cross-entropy of the chosen answer, added to the loss of a pair",
      between(0, 1e6) & fixed() & detail("The cross-entropy is the mean over the tokens of the answer."));
    v("reference", reference, "folder of the reference model; empty: the model at the start of the run",
      reads_folder() & fixed() &
          detail(
              "The reference has the shape of the model. With adapters, an empty value stands for the base model without adapters."));
  }
};

struct ScheduleOptions {
  ScheduleType type = ScheduleType::cosine;
  int64_t warmup_steps = 100;
  double min_lr_ratio = 0.1, cycles = 0, power = 1, end_lr = 1e-7;
  int64_t timescale = 0, stable_steps = -1, decay_steps = 0;
  std::optional<RateShape> warmup_type;
  RateShape decay_type = RateShape::cosine;
  double warmup_lr_ratio = 0;
  // Options of the types that follow the validation loss.
  double factor = 0, threshold = 0, lowest_lr = -1, highest_lr = 1;
  std::optional<ThresholdMode> threshold_mode;
  int64_t patience = 10, cooldown = 0, raise_cooldown = 0, smooth_window = 0, reset_after = 500;
  int64_t steps = 0;
  ScheduleClasses classes;
  template <class V>
  void each(V&& v) {
    v("type", type, "shape of the learning rate over the steps", fixed() & common());
    v("warmup_steps", warmup_steps, "steps of the warmup, in which the learning rate rises from 0",
      between(0, kMostSteps) & fixed() & common());
    v("min_lr_ratio", min_lr_ratio, "lowest learning rate, as a share of optimizer.lr", between(0, 1) & fixed() & common());
    v("cycles", cycles, "waves, or restarts of cosine_with_restarts; 0: 0.5 waves, 1 restart",
      between(1e-3, 1e6) & or_zero() & fixed());
    v("power", power, "exponent of the polynomial decay", between(0.01, 100) & fixed());
    v("end_lr", end_lr, "last learning rate; must be below optimizer.lr", between(0, kMostRate) & fixed());
    v("timescale", timescale, "time scale in steps; 0: warmup_steps, or 10000 without warmup",
      between(0, kMostSteps) & fixed());
    v("stable_steps", stable_steps, "steps at the full learning rate; -1: all steps between warmup and decay",
      between(-1, kMostSteps) & may_change());
    v("decay_steps", decay_steps, "steps of the decay; 0: to the end of the schedule (classes of other programs)",
      between(0, kMostSteps) & may_change());
    v("warmup_type", warmup_type, "shape of the warmup: auto, linear, log, cosine or 1-sqrt",
      no_value(kAuto) & fixed() &
          detail(
              "WarmupLR, WarmupDecayLR and WarmupCosineLR take log or linear. auto: log for these three types, else linear."));
    v("decay_type", decay_type, "shape of the decay",
      one_of<RateShape>({RateShape::cosine, RateShape::linear, RateShape::one_minus_sqrt}) & fixed());
    v("warmup_lr_ratio", warmup_lr_ratio, "first learning rate, as a share of optimizer.lr; 0: 1/warmup_steps",
      between(1e-12, 1) & or_zero() & fixed());
    v("factor", factor, "factor on the learning rate when the validation loss stops falling; 0: 0.1, greedy 0.95",
      between(1e-6, 0.999999) & or_zero() & fixed() &
          detail("greedy also divides the learning rate by this factor while the validation loss keeps falling."));
    v("patience", patience, "validations to wait before the learning rate changes",
      between(0, kMostSteps) & fixed() &
          detail(
              "Validations without a better loss are counted; under greedy also validations with a better loss. One more than this number changes the learning rate."));
    v("threshold", threshold, "least improvement of the validation loss that counts; 0: 1e-4, greedy 1e-6",
      between(1e-12, 1) & or_zero() & fixed());
    v("threshold_mode", threshold_mode,
      "unit of schedule.threshold: share of the best loss (rel) or nats (abs); auto: rel, greedy abs",
      no_value(kAuto) & fixed());
    v("cooldown", cooldown, "validations to ignore after the learning rate was lowered", between(0, kMostSteps) & fixed());
    v("raise_cooldown", raise_cooldown, "validations to ignore after the learning rate was raised",
      between(0, kMostSteps) & fixed());
    v("lowest_lr", lowest_lr, "lower limit of the learning rate; -1: 0, greedy 0.001", between(-1, kMostRate) & fixed());
    v("highest_lr", highest_lr, "upper limit of the learning rate", between(1e-12, kMostRate) & fixed());
    v("smooth_window", smooth_window, "validation losses to average before they are judged; 0: no average",
      between(0, 100000) & fixed());
    v("reset_after", reset_after, "reductions at the lowest learning rate before a restart at optimizer.lr",
      between(1, kMostSteps) & fixed());
    v("steps", steps, "length of the schedule in steps; the last learning rate is kept after it; 0: train.steps",
      between(0, kMostSteps) & may_change());
    classes.each(v);
  }
};

// True for reduce_lr_on_plateau and greedy: validation losses set their learning rate (optim/plateau.h), not the step.
bool follows_validation(const ScheduleOptions& schedule);
double lowest_lr(const ScheduleOptions& schedule);  // schedule.lowest_lr, or the default of the type if it is -1

struct RecipeOption {
  std::string path = "*", op = "*";
  std::optional<DType> compute, round;
  std::optional<Role> role;
  template <class V>
  void each(V&& v) {
    using enum DType;
    v("path", path, "glob pattern of the dotted path of a call, like model.layers.0.self_attn.*", filled());
    v("op", op, "glob pattern of the op's name, like rms_norm", filled());
    v("compute", compute, "number format of these calls; empty: precision.compute",
      one_of<DType>({std::nullopt, f32, bf16, f16, f64}));
    v("round", round, "type to round results to; empty: no rounding", one_of<DType>({std::nullopt, f32, bf16, f16}));
    v("role", role, "calls that the rule applies to: forward, dx, dw; empty: all",
      no_value("") & detail("dx computes gradients of inputs, dw gradients of weights."));
  }
};

struct PrecisionOptions {
  std::optional<DType> compute = DType::f32;  // nothing: auto
  std::optional<Bf16Products> bf16_products;
  std::vector<RecipeOption> recipes;
  std::vector<std::string> unfused;
  GradientType gradients = GradientType::f32;
  std::optional<double> loss_scale;  // nothing: auto
  ScaleRule scale_rule = ScaleRule::deepspeed;
  double scale_initial = 65536, scale_factor = 2, scale_min = 1;
  int64_t scale_window = 1000, scale_hysteresis = 2, scale_window_max = 1000, scale_window_min = 20;
  bool scale_consecutive_hysteresis = false;
  template <class V>
  void each(V&& v) {
    v("compute", compute, "number format of the arithmetic; auto: bf16 if this CPU multiplies it faster, else f32",
      one_of<DType>({DType::f32, DType::bf16, DType::f16, DType::f64, std::nullopt}, kAuto) & fixed() & common() &
          detail("Master weights are f32. f64 needs --backend ref, and then all is f64."));
    v("bf16_products", bf16_products, "bf16 multiplication: dot (instruction) or widen (to f32); auto: the faster one",
      one_of<Bf16Products>({std::nullopt, Bf16Products::dot, Bf16Products::widen}, kAuto) & other_bits() &
          detail("With auto a run that resumes keeps the choice of its checkpoint."));
    v("recipes", recipes, "exceptions by path and op: {path: GLOB, op: GLOB, compute: TYPE, round: TYPE}; last match applies",
      fixed());
    v("unfused", unfused, "ops to run by their unfused definition, like [attention, rope]",
      filled() & other_bits() &
          detail("Known are attention, add_rms_norm, add_layer_norm, loss_head, qkv, gate_up, rope, swiglu and geglu."));
    v("gradients", gradients, "number format of the gradients of matrices: f32, or the compute type",
      other_bits() &
          detail(
              "In the compute type, each micro batch and each sum over ranks is rounded. The update widens gradients to f32."));
    v("loss_scale", loss_scale, "factor on the loss before the backward pass; 0: dynamic; auto: 0 under f16, else none",
      between(1e-30, kMostScale) & or_zero() & no_value(kAuto) & other_bits() &
          detail(
              "Gradients are divided by the factor again. A dynamic scale falls at an overflow and grows without overflows."));
    v("scale_rule", scale_rule, "rule of a dynamic loss scale, named by the program that uses it", other_bits());
    v("scale_initial", scale_initial, "first value of a dynamic loss scale", between(1e-30, kMostScale) & other_bits());
    v("scale_window", scale_window, "steps without an overflow after which the loss scale grows",
      between(1, kMostSteps) & other_bits());
    v("scale_window_max", scale_window_max, "upper limit of the scale window, if the window itself moves",
      between(2, kMostSteps) & other_bits());
    v("scale_window_min", scale_window_min, "shortest window of the list of scale windows",
      between(1, kMostSteps) & other_bits());
    v("scale_hysteresis", scale_hysteresis, "overflows in a row before the loss scale falls",
      between(1, kMostSteps) & other_bits());
    v("scale_factor", scale_factor, "factor by which the loss scale falls and grows", above(1) & at_most(1e6) & other_bits());
    v("scale_min", scale_min, "smallest loss scale; an overflow there ends the run (mindformers: it stays)",
      between(1e-30, kMostScale) & other_bits());
    v("scale_consecutive_hysteresis", scale_consecutive_hysteresis,
      "restart the count of scale_hysteresis at each step without an overflow", other_bits());
  }
};

struct ParallelOptions {
  int64_t data = 0, tensor = 1, pipeline = 1, expert = 1;
  bool sequence = false;
  int64_t zero = 0, sum_leaves = 0, virtual_stages = 1;
  StageSplit split = StageSplit::even;
  std::vector<int64_t> stage_layers;
  int64_t zero_threshold = 10000;
  double patience = 20;
  std::string interface;
  // Returns the number of elements below which a buffer is not sharded: its message would cost more than sharding
  // saves.
  int64_t whole_below() const { return std::min<int64_t>(zero_threshold, 10000); }
  template <class V>
  void each(V&& v) {
    v("data", data, "data-parallel ranks; 0: the remaining ranks", between(0, kMostRanks) & may_change());
    v("tensor", tensor, "tensor-parallel ranks", between(1, kMostRanks) & other_bits() & common());
    v("pipeline", pipeline, "pipeline stages", between(1, kMostRanks) & may_change() & common());
    v("expert", expert, "expert-parallel ranks, a part of the data ranks",
      between(1, kMostRanks) & may_change() &
          detail(
              "So many neighbouring data ranks divide the experts of a layer. Tokens travel to the ranks of their experts and back."));
    v("sequence", sequence, "sequence parallelism: shard activations along the sequence over tensor ranks", other_bits());
    v("zero", zero, "ZeRO stage: 0 none, 1 shards optimizer states, 2 also gradients, 3 also weights",
      between(0, 3) & may_change() & common());
    v("sum_leaves", sum_leaves, "leaves of the tree that sums gradients; 0: the data ranks, or as in the checkpoint",
      between(0, kMostLeaves) & other_bits() & detail("Layouts with the same number of leaves agree bitwise."));
    v("virtual", virtual_stages, "model parts per pipeline stage (virtual stages); above 1: interleaved schedule",
      between(1, 4096) & may_change());
    v("split", split, "how layers are divided over pipeline stages: equal numbers, or equal cost",
      may_change() & detail("The cost counts FLOPs and bytes."));
    v("stage_layers", stage_layers, "layers of each pipeline part, in order; empty: divided as parallel.split says",
      between(0, 4096) & may_change());
    v("zero_threshold", zero_threshold, "zero=3: parameters of at most so many elements stay whole on each rank",
      between(0, 1e12) & may_change() &
          detail(
              "The limit applies to buffers in which every parameter is as small. Buffers of fewer elements in all (at most 10000, like norms and biases) are never sharded."));
    v("patience", patience, "seconds of silence after which a rank counts as lost and the job ends",
      between(2, 3600) & may_change());
    v("interface", interface, "network interface, address or network of the heartbeat; empty: chosen",
      metavar("NAME|ADDRESS|NETWORK") & may_change() &
          detail(
              "An example of a network is 10.0.0.0/16. If empty, the network is that which MPI was told to use, else one that all hosts share."));
  }
};

// Values of checkpoint.resume that are no path: the newest checkpoint if there is one, or no checkpoint.
inline constexpr const char *kResumeNewest = "auto", *kResumeNone = "none";
// Returns `path` as a value of checkpoint.resume: a folder named auto becomes ./auto.
std::string resume_path(const std::string& path);

struct CheckpointOptions {
  int64_t every = 200, keep = 3;
  std::string resume = kResumeNewest;
  std::optional<DType> model_dtype;
  int64_t shard_mb = 5000;
  bool verify = true, other_data = false;
  CheckpointLayout layout = CheckpointLayout::ravine;
  std::string prefix = "CKP";
  int64_t data_steps = -1;
  CheckpointFormat format = CheckpointFormat::safetensors;
  std::vector<std::string> copies;
  bool on_stop = true, optimizer = true;
  template <class V>
  void each(V&& v) {
    v("every", every, "steps between checkpoints; 0: only on stop", between(0, kMostSteps) & may_change() & common());
    v("keep", keep, "number of newest intact checkpoints to keep; 0: keep all", between(0, 1e6) & may_change() & common());
    v("resume", resume, "auto: the newest checkpoint in train.output, if any; none: start anew; or a checkpoint folder",
      filled() & reads() & or_words({kResumeNewest, kResumeNone}) & metavar("auto|none|DIR") & may_change() & common());
    v("model_dtype", model_dtype, "number format of the weights in train.output/model; auto: as in model.path",
      one_of<DType>({std::nullopt, DType::f32, DType::bf16, DType::f16}, kAuto) & may_change() &
          detail("auto takes the 16-bit type that all weights in model.path share, else f32, the type of training."));
    v("shard_mb", shard_mb, "largest size of one file of the exported model folder, in MB", between(1, 1e6) & may_change());
    v("verify", verify, "compare the checksums of a checkpoint when it is loaded", may_change());
    v("other_data", other_data, "resume although the data or the tokenizer differ from those of the checkpoint",
      may_change() & detail("Without it a resume refuses other data, another tokenizer and other options of section data."));
    v("layout", layout, "format of checkpoints: ravine, or mindformers, deepspeed, trainer or megatron",
      fixed() &
          detail(
              "mindformers: train.output/checkpoint/rank_R/PREFIX_rank_R-EPOCH_STEP, which replaces train.output/model too. deepspeed: train.output/checkpoint-N, as the Trainer writes it. trainer: the same without DeepSpeed, with optimizer.pt. megatron: train.output/iter_NNNNNNN and latest_checkpointed_iteration.txt. A run resumes from its own layout."));
    v("prefix", prefix, "prefix of checkpoint file names", filled() & may_change());
    v("format", format, "file format of the checkpoints", may_change());
    v("data_steps", data_steps, "steps of data to skip on resume; -1: the steps that the checkpoint has made",
      between(-1, kMostSteps) & may_change());
    v("copies", copies, "extra files next to checkpoints: network (weights alone), trainable (trained weights)",
      one_of({"network", "trainable"}) & may_change());
    v("on_stop", on_stop, "save a checkpoint when the run ends before its last step", may_change());
    v("optimizer", optimizer, "store the state of the optimizer; without it no run goes on from a checkpoint", may_change());
  }
};

struct Config {
  ModelOptions model;
  LoraOptions lora;
  MoeOptions moe;
  DataOptions data;
  TrainOptions train;
  DpoOptions dpo;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  PrecisionOptions precision;
  ParallelOptions parallel;
  OffloadOptions offload;
  CheckpointOptions checkpoint;
  LogOptions log;
  HealthOptions health;
  ProbeOptions probe;

  // The source of each value that was set: "train.steps" -> "run.yaml:4" or "command line".
  std::map<std::string, std::string> sources;

  template <class V>
  void each_section(V&& v) {
    v("model", model, "the model to train or to run");
    v("lora", lora, "adapters (LoRA) to train instead of the whole model");
    v("moe", moe, "mixture of experts: routing, load balance, capacity");
    v("data", data, "training and validation data");
    v("train", train, "length, batch size, memory and outputs of the run");
    v("dpo", dpo, "direct preference optimization: learning from pairs of answers");
    v("optimizer", optimizer, "update rule of the parameters");
    v("schedule", schedule, "learning rate over the steps");
    v("precision", precision, "number formats");
    v("parallel", parallel, "distribution over ranks: data, tensor, pipeline, experts, ZeRO");
    v("offload", offload, "offload of optimizer states and weights to memory or disk");
    v("checkpoint", checkpoint, "saving and resuming");
    v("log", log, "log lines, TensorBoard events, monitors");
    v("health", health, "rules for steps to skip, runs to end and checkpoints to distrust");
    v("probe", probe, "dumps of a run's calls, and injected faults");
  }
};

// True if log.figures has `figure`, and a log line or a point of the event files is due after `step`.
bool figure_due(const Config& config, std::string_view figure, int64_t step);

struct Section {
  std::string name, help;
  std::vector<Option> options;
};
std::vector<Section> sections_of(Config& config);  // valid as long as `config`

void validate(const Config& config);        // checks the rules between options
std::string to_yaml(const Config& config);  // all options; load_config reads back the same values bit for bit
std::string defaults_text();                // all keys with defaults and help, as commented YAML
// Returns the text of `ravine config --explain KEY`; `key` is "section.key", or "section".
std::string explain(const Config& config, const std::string& key);
std::string options_markdown();  // returns the text of docs/options.md

}  // namespace ravine
