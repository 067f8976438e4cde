// The options of a run. Sections with much to say have headers of their own (data, moe, offload, optimizer, probe), and so has what
// classes of other programs take of the section schedule (schedule_classes.h). A field and its line in `each` are the whole
// declaration of an option (docs/howto/add-an-option.md).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/data_options.h"
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
    v("path", path,
      "Hugging Face folder: config, weights, tokenizer; a resume needs the same weights, the folder may have moved",
      reads_folder() & fixed());
    v("config", config,
      "config.json of a model whose weights are initialised from train.seed (instead of model.path), or the map that would stand in it",
      reads() & or_map() & may_change());
    v("weights", weights,
      "weights that training begins from, of the model in model.config, in any layout that `ravine convert` reads; empty: drawn from train.seed",
      reads_folder() & may_change());
    v("tokenizer", tokenizer, "tokenizer folder or file; empty: the one in model.path", reads() & may_change());
    v("vocabulary", vocabulary,
      "rows of embedding and head, where those of model.path are to be more or fewer: the first keep their bits; 0: as stored; -1: what the tokenizer needs, and no fewer than stored",
      between(-1, 1 << 30) & may_change());
    v("new_rows", new_rows,
      "what rows beyond those of model.path begin with: the mean of the stored ones, or normal numbers as in a new model",
      fixed());
    v("tie", tie,
      "whether the head of model.path becomes the table of the embedding (tied), or begins as a copy of it (untied)",
      may_change());
  }
};

// model.config holds the fields of a config.json themselves, as JSON, and names no file.
bool is_inline(const std::string& model_config);
// What messages call the model of a run: its folder, its config.json, or the option.
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
    v("rank", rank, "rows of A; 0: the whole model is trained", between(0, 65536) & fixed());
    v("alpha", alpha, "B A counts alpha / rank times", between(1e-6, 1e9) & fixed());
    v("dropout", dropout, "probability that a value is dropped before A", at_least(0) & below(1) & fixed());
    v("targets", targets,
      "ends of names of the modules that get adapters, as the family's files or Megatron spell them, or all-linear: every linear layer but the head; empty: those of q and v",
      fixed());
    v("rslora", rslora, "alpha / sqrt(rank) instead (rank-stabilised)", fixed());
    v("rank_pattern", rank_pattern, "another rank by module: ends of names, or regular expressions, as PEFT has them",
      between(1, 65536) & fixed());
    v("alpha_pattern", alpha_pattern, "another alpha by module", between(1e-6, 1e9) & fixed());
    v("layers", layers, "layers that get adapters, from 0; empty: all", between(0, 1e9) & fixed());
    v("save", save,
      "ends of names of modules that are trained whole beside adapters, like [embed_tokens, lm_head, norm]; Megatron's word_embeddings and output_layer too",
      fixed());
    v("path", path,
      "folder of a PEFT adapter, or a checkpoint of ModelLink's LoRA, to go on from; what it says of itself need not be said again",
      reads_folder() & fixed());
    v("merge", merge, "at the end OUTPUT/model, with adapters merged into it, instead of OUTPUT/adapter", may_change());
    v("base", base,
      "how the frozen weights of linear layers are kept, all but the head: bf16, or nf4, blocks of 4 bits as bitsandbytes makes them for QLoRA; embedding and head are then in "
      "precision.compute alone; empty: as without adapters",
      no_value("") & fixed());
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
  bool find_nan = false;
  int64_t threads = 0;
  std::vector<std::string> freeze;
  template <class V>
  void each(V&& v) {
    v("steps", steps, "optimizer steps of the whole run", between(1, kMostSteps) & may_change());
    v("epochs", epochs,
      "passes over the data that the run takes, in place of train.steps, rounded up to whole steps; once the data are open a run counts steps; 0: train.steps",
      between(0, 1e6) & may_change());
    v("global_batch", global_batch, "sequences per optimizer step, over all ranks and micro batches",
      between(1, kMostSequences) & may_change());
    v("micro_batch", micro_batch, "sequences per forward and backward pass of a rank",
      between(1, kMostSequences) & other_bits());
    v("seed", seed, "seed of initialisation, data order and dropout", at_least(0) & fixed());
    v("output", output, "folder that the run writes", filled() & writes() & metavar("DIR") & may_change());
    v("objective", objective,
      "what is learned: causal, the next token of text and answers; dpo, to prefer the chosen of two answers (section dpo)",
      fixed());
    v("recompute", recompute,
      "what the backward pass rebuilds instead of keeping: cheap is the outputs of norms and activations; auto: as little as fits into train.memory_mb",
      may_change());
    v("recompute_layers", recompute_layers,
      "of each part of the pipeline, in order, how many layers full recomputes, from the first of the part on; the others are as under cheap; empty: all",
      between(0, 4096) & may_change());
    v("memory_mb", memory_mb, "memory of a rank in MB that train.recompute=auto keeps within", between(0, 1e9) & may_change());
    v("loss_average", loss_average,
      "the loss of a step: the mean over its labels, or, as Megatron and MindFormers take it, the mean of the means of its micro batches, 0 for one without labels; global-micro: a micro batch is that of all data ranks",
      fixed());
    v("dropout", dropout, "probability of dropping an activation while training",
      between(0, 0.99) & because("what stays is multiplied by 1 / (1 - dropout)") & fixed());
    v("attention_dropout", attention_dropout, "probability of dropping a probability of attention while training",
      between(0, 0.99) & because("what stays is multiplied by 1 / (1 - attention_dropout)") & fixed());
    v("valid_every", valid_every, "steps between validations; 0: never", between(0, kMostSteps) & may_change());
    v("valid_batches", valid_batches, "micro batches per validation; 0: all", between(0, kMostSteps) & may_change());
    v("exit_every", exit_every,
      "the run saves and ends, with exit status 0, behind each step that this divides; the same command goes on; 0: never",
      between(0, kMostSteps) & may_change());
    v("exit_minutes", exit_minutes,
      "the run saves and ends, with exit status 0, behind the step in which so many minutes since its start are over; 0: never",
      between(1e-6, 1e7) & or_zero() & may_change());
    v("find_nan", find_nan, "when the loss becomes NaN, name the first op that produced one", may_change());
    v("threads", threads, "threads for compute; 0: all cores of this process", between(0, 4096) & may_change());
    v("freeze", freeze, "glob patterns of parameters that are not trained", filled() & fixed());
  }
};

// Direct preference optimisation, of train.objective=dpo.
struct DpoOptions {
  PreferenceLossType loss = PreferenceLossType::sigmoid;
  double beta = 0.1, label_smoothing = 0, ftx = 0;
  std::string reference;
  template <class V>
  void each(V&& v) {
    v("loss", loss,
      "sigmoid (Rafailov et al. 2023); hinge (Zhao et al. 2023); ipo (Azar et al. 2023), of log-probabilities per token",
      fixed());
    v("beta", beta, "how strongly the model is held to the reference; with ipo its tau", between(1e-6, 1e6) & fixed());
    v("label_smoothing", label_smoothing, "share of the pairs whose order is taken to be wrong (dpo.loss=sigmoid)",
      at_least(0) & below(0.5) & fixed());
    v("ftx", ftx, "how much of the cross-entropy of the chosen answer, mean over its tokens, is added to the loss of a pair",
      between(0, 1e6) & fixed());
    v("reference", reference,
      "folder of the reference model, of the same shape; empty: the model as the run begins, of adapters the base without them",
      reads_folder() & fixed());
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
  // Of the types that follow the validation loss.
  double factor = 0, threshold = 0, lowest_lr = -1, highest_lr = 1;
  std::optional<ThresholdMode> threshold_mode;
  int64_t patience = 10, cooldown = 0, raise_cooldown = 0, smooth_window = 0, reset_after = 500;
  int64_t steps = 0;
  ScheduleClasses classes;
  template <class V>
  void each(V&& v) {
    v("type", type, "shape of the learning rate over the steps", fixed());
    v("warmup_steps", warmup_steps, "steps in which the rate rises, from 0 at the first one", between(0, kMostSteps) & fixed());
    v("min_lr_ratio", min_lr_ratio, "lowest rate as a share of optimizer.lr", between(0, 1) & fixed());
    v("cycles", cycles, "waves, or restarts of cosine_with_restarts; 0: 0.5 waves, 1 restart",
      between(1e-3, 1e6) & or_zero() & fixed());
    v("power", power, "exponent", between(0.01, 100) & fixed());
    v("end_lr", end_lr, "last rate; below optimizer.lr", between(0, kMostRate) & fixed());
    v("timescale", timescale, "time scale; 0: warmup_steps, or 10000 without warm-up", between(0, kMostSteps) & fixed());
    v("stable_steps", stable_steps, "steps at the full rate; -1: what warm-up and decay leave",
      between(-1, kMostSteps) & may_change());
    v("decay_steps", decay_steps, "steps of the decay; 0, of the classes of other programs: to the end",
      between(0, kMostSteps) & may_change());
    v("warmup_type", warmup_type,
      "shape of the warm-up; WarmupLR, WarmupDecayLR and WarmupCosineLR: log or linear; auto: linear, and log of these three",
      no_value(kAuto) & fixed());
    v("decay_type", decay_type, "shape of the decay",
      one_of<RateShape>({RateShape::cosine, RateShape::linear, RateShape::one_minus_sqrt}) & fixed());
    v("warmup_lr_ratio", warmup_lr_ratio, "first rate as a share of optimizer.lr; 0: 1/warmup_steps",
      between(1e-12, 1) & or_zero() & fixed());
    v("factor", factor,
      "the rate is multiplied by it when the validation loss no longer falls, and with greedy divided by it when it keeps falling; 0: 0.1, greedy 0.95",
      between(1e-6, 0.999999) & or_zero() & fixed());
    v("patience", patience,
      "validations without a better loss (greedy: or with one) that are waited for; one more changes the rate",
      between(0, kMostSteps) & fixed());
    v("threshold", threshold, "how much better counts as better; 0: 1e-4, greedy 1e-6",
      between(1e-12, 1) & or_zero() & fixed());
    v("threshold_mode", threshold_mode, "what threshold is: a share of the best loss, or nats; auto: rel, greedy abs",
      no_value(kAuto) & fixed());
    v("cooldown", cooldown, "validations after the rate was lowered that do not count", between(0, kMostSteps) & fixed());
    v("raise_cooldown", raise_cooldown, "validations after the rate was raised that do not count",
      between(0, kMostSteps) & fixed());
    v("lowest_lr", lowest_lr, "the rate is not lowered further; -1: 0, greedy 0.001", between(-1, kMostRate) & fixed());
    v("highest_lr", highest_lr, "the rate is not raised further", between(1e-12, kMostRate) & fixed());
    v("smooth_window", smooth_window, "the mean of so many validation losses is followed; 0: each by itself",
      between(0, 100000) & fixed());
    v("reset_after", reset_after, "times that a rate at its lowest would be lowered before all begins anew at optimizer.lr",
      between(1, kMostSteps) & fixed());
    v("steps", steps, "length of the schedule; behind it the rate stays at its last value; 0: train.steps",
      between(0, kMostSteps) & may_change());
    classes.each(v);
  }
};

// reduce_lr_on_plateau and greedy: the rate is made by validation losses (optim/plateau.h), not by steps.
bool follows_validation(const ScheduleOptions& schedule);
double lowest_lr(const ScheduleOptions& schedule);  // schedule.lowest_lr, or what -1 stands for

struct RecipeOption {
  std::string path = "*", op = "*";
  std::optional<DType> compute, round;
  std::optional<Role> role;
  template <class V>
  void each(V&& v) {
    using enum DType;
    v("path", path, "glob pattern of the dotted path of a call, like model.layers.0.self_attn.*", filled());
    v("op", op, "glob pattern of the op's name, like rms_norm", filled());
    v("compute", compute, "arithmetic of these calls; empty: as elsewhere", one_of<DType>({std::nullopt, f32, bf16, f16, f64}));
    v("round", round, "results are rounded to this type; empty: no rounding", one_of<DType>({std::nullopt, f32, bf16, f16}));
    v("role", role,
      "only calls that work out this: values of the forward pass, gradients of inputs (dx) or of weights (dw); empty: all",
      no_value(""));
  }
};

struct PrecisionOptions {
  std::optional<DType> compute = DType::f32;  // none: auto
  std::optional<Bf16Products> bf16_products;
  std::vector<RecipeOption> recipes;
  std::vector<std::string> unfused;
  GradientType gradients = GradientType::f32;
  std::optional<double> loss_scale;  // none: auto
  ScaleRule scale_rule = ScaleRule::deepspeed;
  double scale_initial = 65536, scale_factor = 2, scale_min = 1;
  int64_t scale_window = 1000, scale_hysteresis = 2, scale_window_max = 1000, scale_window_min = 20;
  bool scale_consecutive_hysteresis = false;
  template <class V>
  void each(V&& v) {
    v("compute", compute,
      "arithmetic; master weights are f32; f64 needs --backend ref; auto: bf16 on CPUs that are known to multiply it faster, else f32",
      one_of<DType>({DType::f32, DType::bf16, DType::f16, DType::f64, std::nullopt}, kAuto) & fixed());
    v("bf16_products", bf16_products,
      "how bf16 is multiplied: dot product instruction, or widened to f32; auto: what is faster on CPUs of this kind, or what a checkpoint was made with",
      one_of<Bf16Products>({std::nullopt, Bf16Products::dot, Bf16Products::widen}, kAuto) & other_bits());
    v("recipes", recipes,
      "exceptions by path and op: {path: GLOB, op: GLOB, compute: TYPE, round: TYPE}; the last match counts", fixed());
    v("unfused", unfused,
      "ops that run as their unfused definition: attention, add_rms_norm, add_layer_norm, loss_head, qkv, gate_up, rope, swiglu, geglu",
      filled() & other_bits());
    v("gradients", gradients,
      "type of the gradients of matrices: f32, or the compute type, in which each micro batch and each sum over ranks is rounded; the update widens them as it reads them",
      other_bits());
    v("loss_scale", loss_scale,
      "the loss is multiplied by it before backward, gradients are divided again; 0: a scale that falls with each overflow and grows without; auto: 0 with compute f16, else none",
      between(1e-30, kMostScale) & or_zero() & no_value(kAuto) & other_bits());
    v("scale_rule", scale_rule, "whose rule moves a loss scale that moves", other_bits());
    v("scale_initial", scale_initial, "first loss scale that moves", between(1e-30, kMostScale) & other_bits());
    v("scale_window", scale_window, "steps without an overflow after which the loss scale grows",
      between(1, kMostSteps) & other_bits());
    v("scale_window_max", scale_window_max, "longest window, where it moves", between(2, kMostSteps) & other_bits());
    v("scale_window_min", scale_window_min, "shortest window on its list", between(1, kMostSteps) & other_bits());
    v("scale_hysteresis", scale_hysteresis, "overflows before the loss scale falls", between(1, kMostSteps) & other_bits());
    v("scale_factor", scale_factor, "the loss scale falls and grows by it", above(1) & at_most(1e6) & other_bits());
    v("scale_min", scale_min, "smallest loss scale; an overflow there ends the run (mindformers: it stays)",
      between(1e-30, kMostScale) & other_bits());
    v("scale_consecutive_hysteresis", scale_consecutive_hysteresis,
      "each step without an overflow allows scale_hysteresis of them again", other_bits());
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
  // Buffers of fewer elements are not divided: a message of so little costs more than it saves.
  int64_t whole_below() const { return std::min<int64_t>(zero_threshold, 10000); }
  template <class V>
  void each(V&& v) {
    v("data", data, "data-parallel ranks; 0: the remaining ranks", between(0, kMostRanks) & may_change());
    v("tensor", tensor, "tensor-parallel ranks", between(1, kMostRanks) & other_bits());
    v("pipeline", pipeline, "pipeline stages", between(1, kMostRanks) & may_change());
    v("expert", expert,
      "expert-parallel ranks: so many neighbours among the data ranks divide the experts of a layer; tokens go to the ranks of their experts and back",
      between(1, kMostRanks) & may_change());
    v("sequence", sequence, "cut activations between tensor-parallel parts along the sequence", other_bits());
    v("zero", zero,
      "ZeRO stage: what data ranks keep only their part of: 0 nothing, 1 optimizer state, 2 also gradients, 3 also weights",
      between(0, 3) & may_change());
    v("sum_leaves", sum_leaves,
      "leaves of the tree that sums gradients; layouts with equal leaves agree bitwise; 0: the data ranks, or what a checkpoint was made with",
      between(0, kMostLeaves) & other_bits());
    v("virtual", virtual_stages, "parts of the model per pipeline stage; more than 1: the interleaved schedule",
      between(1, 4096) & may_change());
    v("split", split,
      "how layers are shared among the parts of a pipeline: even in number, or in cost, counted in FLOPs and bytes",
      may_change());
    v("stage_layers", stage_layers,
      "layers of each part of the pipeline, in order; empty: shared evenly, or by cost where a run asks for it",
      between(0, 4096) & may_change());
    v("zero_threshold", zero_threshold,
      "with zero=3 weights stay whole on each rank in buffers whose parameters have at most so many elements each; buffers of fewer in all "
      "(10000 at most: norms, biases) are not divided at any stage",
      between(0, 1e12) & may_change());
    v("patience", patience, "seconds of silence after which a rank counts as lost and the job ends",
      between(2, 3600) & may_change());
    v("interface", interface,
      "what the heartbeat listens on: a network interface, an address, or a network such as 10.0.0.0/16; empty: the one that MPI was told to use, "
      "else a network that all hosts share",
      metavar("NAME|ADDRESS|NETWORK") & may_change());
  }
};

// checkpoint.resume, if it is no folder: the newest checkpoint if there is any, or none.
inline constexpr const char *kResumeNewest = "auto", *kResumeNone = "none";
// `path` as a value of checkpoint.resume: ./auto of a folder that has the name of a word.
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
  template <class V>
  void each(V&& v) {
    v("every", every, "steps between checkpoints; 0: only on stop", between(0, kMostSteps) & may_change());
    v("keep", keep, "how many sound checkpoints of the run are kept, the newest; 0: all", between(0, 1e6) & may_change());
    v("resume", resume,
      "auto: continue from the newest one in train.output if there is any; none: start anew; or a checkpoint folder",
      filled() & reads() & or_words({kResumeNewest, kResumeNone}) & metavar("auto|none|DIR") & may_change());
    v("model_dtype", model_dtype,
      "type of the weights in train.output/model; auto: the 16-bit type of all weights in model.path, else f32, in which they are trained",
      one_of<DType>({std::nullopt, DType::f32, DType::bf16, DType::f16}, kAuto) & may_change());
    v("shard_mb", shard_mb, "largest size of one file of the exported model folder, in MB", between(1, 1e6) & may_change());
    v("verify", verify, "check checksums on load", may_change());
    v("other_data", other_data,
      "resume though data, tokenizer or other options of the data section are not those that the checkpoint was made with",
      may_change());
    v("layout", layout,
      "files of a checkpoint: Ravine's own, or those of another program, which it goes on from: of MindFormers, train.output/checkpoint/rank_R/PREFIX_rank_R-EPOCH_STEP, in the place of train.output/model too; of DeepSpeed, train.output/checkpoint-N as the Trainer has it; of the Trainer without DeepSpeed (trainer), the same with optimizer.pt; of Megatron, train.output/iter_NNNNNNN and latest_checkpointed_iteration.txt",
      fixed());
    v("prefix", prefix, "first part of their names", filled() & may_change());
    v("format", format, "kind of these files", may_change());
    v("data_steps", data_steps, "steps of data that a run which goes on leaves out; -1: as many as it has made",
      between(-1, kMostSteps) & may_change());
    v("copies", copies, "what is written beside them: network, the weights alone; trainable, those that are trained",
      one_of({"network", "trainable"}) & may_change());
  }
};

struct LogOptions {
  int64_t every = 1;
  bool tensorboard = true;
  std::string local_norms;
  LogStyle style = LogStyle::ravine;
  int64_t sink = 0;
  std::vector<std::string> monitor;
  int64_t monitor_every = 1;
  std::string monitor_target;
  double baseline = 0;
  std::string tensorboard_dir;
  int64_t tensorboard_every = 0;
  std::vector<std::string> figures;
  template <class V>
  void each(V&& v) {
    v("every", every, "steps between log lines; loss and speed of a line are means over the steps since the line before",
      between(1, kMostSteps) & may_change());
    v("tensorboard", tensorboard, "write TensorBoard event files", may_change());
    v("local_norms", local_norms,
      "glob pattern of the parameters whose gradients are measured on each rank, before data ranks add them up: sum of squares and its root; empty: none",
      metavar("GLOB") & may_change());
    v("style", style,
      "form of the lines of steps and names of TensorBoard scalars: Ravine's own, or those of MindFormers or Megatron",
      may_change());
    v("sink", sink,
      "steps that go to a device at once in that program, which decide the form of its lines and names of checkpoints; 0: none do",
      between(0, kMostSteps) & may_change());
    v("monitor", monitor, "what of each step has lines of its own",
      one_of({"local_loss", "device_local_loss", "local_norm", "device_local_norm", "optimizer_state", "weight_state",
              "throughput", "drop_rate"}) &
          may_change());
    v("monitor_every", monitor_every, "steps between these lines", between(1, kMostSteps) & may_change());
    v("monitor_target", monitor_target,
      "regular expression of the names, as that program has them, of parameters with lines of their own; empty: all",
      metavar("REGEX") & may_change());
    v("baseline", baseline, "samples per second and rank that throughput is measured by (log.monitor); 0: none",
      between(1e-9, 1e12) & or_zero() & may_change());
    v("tensorboard_dir", tensorboard_dir,
      "folder of event files; of MindFormers a folder rank_R in it for each rank that writes; empty: train.output/tensorboard",
      writes() & metavar("DIR") & may_change());
    v("tensorboard_every", tensorboard_every, "steps between points in event files; 0: log.every",
      between(0, kMostSteps) & may_change());
    v("figures", figures,
      "figures of a step that are worked out for lines and event files on request: the norm of all weights behind it, how many elements of its gradients are 0, 10^12 operations per second and rank",
      one_of({"weight_norm", "gradient_zeros", "tflops"}) & may_change());
  }
};

bool watches_norms(const LogOptions& log);            // local norms of gradients, for log.monitor
int64_t steps_between_points(const LogOptions& log);  // of event files

struct HealthOptions {
  double skip_norm = 0, stop_norm = 0, embedding_norm = 0;
  bool stop_not_finite = false;
  int64_t skip_count = 0;
  template <class V>
  void each(V&& v) {
    v("skip_norm", skip_norm,
      "a step whose gradient norm is larger, or not finite, is skipped: its data is used up, nothing is learned; 0: none",
      between(1e-12, 1e12) & or_zero() & may_change());
    v("stop_norm", stop_norm,
      "the run ends, with exit status 1, at the first step whose gradient norm is as large, before its update; train.output/abnormal_global_norm.json says at which, and a run that meets it again goes on; 0: none",
      between(1e-12, 1e12) & or_zero() & may_change());
    v("stop_not_finite", stop_not_finite,
      "a step whose loss or gradient norm is not finite ends the run where a loss scale or health.skip_norm would skip it",
      may_change());
    v("skip_count", skip_count, "the run ends, with exit status 1, when so many steps in a row were skipped; 0: never",
      between(0, kMostSteps) & may_change());
    v("embedding_norm", embedding_norm,
      "of several pipeline stages: a checkpoint is unhealthy if the sum of squares of the embedding's gradient on a rank of the first stage is larger, or not finite; "
      "health_ckpts.json keeps the verdicts, and a resume takes the newest healthy one; 0: not judged",
      between(1e-12, 1e18) & or_zero() & may_change());
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

  // Where a value that is not the default came from: "train.steps" -> "run.yaml:4" or "command line".
  std::map<std::string, std::string> sources;

  template <class V>
  void each_section(V&& v) {
    v("model", model, "what is trained or run");
    v("lora", lora, "adapters that are trained instead of the model");
    v("moe", moe, "how experts share the work");
    v("data", data, "what it reads");
    v("train", train, "the run");
    v("dpo", dpo, "learning from pairs of answers");
    v("optimizer", optimizer, "how parameters change");
    v("schedule", schedule, "the learning rate over the steps");
    v("precision", precision, "number formats");
    v("parallel", parallel, "how work is spread over ranks");
    v("offload", offload, "where a run keeps what it does not work on");
    v("checkpoint", checkpoint, "saving and resuming");
    v("log", log, "what one sees");
    v("health", health, "steps that are skipped and checkpoints that are not gone on from");
    v("probe", probe, "looking inside a run, and disturbing it");
  }
};

// True if log.figures names it and a line, or a point of event files, is due after this step.
bool figure_due(const Config& config, std::string_view figure, int64_t step);

struct Section {
  std::string name, help;
  std::vector<Option> options;
};
std::vector<Section> sections_of(Config& config);  // valid as long as `config`

void validate(const Config& config);        // rules between options
std::string to_yaml(const Config& config);  // complete; load_config of it gives the same values, bit for bit
std::string defaults_text();                // all keys with defaults and help, as commented YAML
std::string explain(const Config& config, const std::string& key);  // "section.key", or "section"
std::string options_markdown();                                     // docs/options.md

}  // namespace ravine
