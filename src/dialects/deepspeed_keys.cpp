#include "dialects/deepspeed_keys.h"

#include <array>

#include "config/option.h"

namespace ravine {
namespace {

constexpr std::string_view kBuckets =
    "gradients and weights lie in flat buffers of one block of the model each, which the plan lays out";
constexpr std::string_view kGather = "the weights of one block are gathered ahead of it and given back behind it";
constexpr std::string_view kF32Sums =
    "gradients are summed in f32 unless precision.gradients says otherwise, where the order of dividing loses nothing";
constexpr std::string_view kFlops = "the tables of the profiler, in the log or in output_file";
constexpr std::string_view kSumCounts =
    "it counts where a script prints the sums of its ranks; metrics.jsonl counts them, by axis";
constexpr std::string_view kSequenceRanks =
    "it counts with sequence ranks of --parallelism_config alone, which is refused here";
constexpr std::string_view kSpeedLines = "its lines come every steps_per_print steps, which accelerate sets to infinity";
constexpr std::string_view kOwnLog = "metrics.jsonl and the log have every figure; nothing is sent over the network";
constexpr std::string_view kCsvFiles = "a file for each tag of DeepSpeed's monitor, in output_path/job_name";
constexpr std::string_view kEventFiles = "event files with the tags of DeepSpeed's monitor, in output_path/job_name";
constexpr std::string_view kNoCuda = "it concerns CUDA";
constexpr std::string_view kHfSection =
    "models of Transformers do not look at this section, there --gradient_checkpointing decides; so it is here";
constexpr std::string_view kOffSection = "the section is not switched on";
constexpr std::string_view kMoves = "a block is read ahead of its update, and written behind it while the next is updated";

constexpr std::string_view kAmsgrad = "DeepSpeed's own Adam has no amsgrad either";
constexpr std::string_view kLambAmsgrad = "DeepSpeed's FusedLamb has no amsgrad either";
constexpr std::string_view kOneBackend = "the ranks are MPI's, and what is sent lies in the host's memory";

const std::vector<DeepSpeedParam> kAdamParams = {
    {"lr", "optimizer.lr"},
    {"betas", "optimizer.betas"},
    {"eps", "optimizer.eps"},
    {"weight_decay", "optimizer.weight_decay"},
    {"bias_correction", "optimizer.bias_correction"},
    {"amsgrad", "", kAmsgrad, true, "false"},
    {"torch_adam", "", "there is one Adam", false, "false"},
    {"fused", "", "there is one Adam", false, "false"},
    {"set_grad_none", "", "gradients are gone behind the update", false, "true"},
    {"fp32_optimizer_states", "", "states are kept in f32", true, "true"},
};

std::vector<DeepSpeedParam> with(std::vector<DeepSpeedParam> params, std::initializer_list<DeepSpeedParam> more) {
  params.insert(params.end(), more);
  return params;
}

}  // namespace

std::span<const DeepSpeedKey> deepspeed_keys() {
  using enum DeepSpeedValue;
  using enum DeepSpeedFate;
  static constexpr auto keys = std::to_array<DeepSpeedKey>({
      {"train_batch_size", whole, renamed, "train.global_batch", 1, 1 << 20},
      {"train_micro_batch_size_per_gpu", whole, renamed, "train.micro_batch", 1, 1 << 20},
      {"gradient_accumulation_steps", whole, by_value, "train.global_batch", 1, 1 << 16},
      {"gradient_clipping", number, renamed, "optimizer.clip_norm", 0, 1e12},
      {"steps_per_print", number, inert,
       "accelerate (utils/dataclasses.py) sets it to infinity; lines of the log come every --logging_steps", 0},
      {"prescale_gradients", flag, by_value, kF32Sums},
      {"gradient_predivide_factor", number, by_value, kF32Sums, 1e-6, 1e6},
      {"gradient_allreduce_op", text, inert, "gradients are means over the ranks", -1e300, 1e300, " mean "},
      {"sparse_gradients", flag, inert, "gradients of the embedding are summed whole"},
      {"communication_data_type", text, inert,
       "gradients are sent in f32, or as data_types.grad_accum_dtype says: a sum loses no more by it", -1e300, 1e300,
       " fp16 bf16 bfp16 fp32 "},
      {"seq_parallel_communication_data_type", text, inert, kSequenceRanks, -1e300, 1e300, " fp16 bf16 bfp16 fp32 "},
      {"seq_parallel_comm_data_type", text, inert, kSequenceRanks, -1e300, 1e300, " fp16 bf16 bfp16 fp32 "},
      {"disable_allgather", flag, inert, "it has no effect in DeepSpeed either"},
      {"dump_state", flag, inert,
       "config.yaml of a run has all its options, and --explain what each key came to, with it or without"},
      {"wall_clock_breakdown", flag, files, "two lines of times for each step in the log: forward, backward, sum, update"},
      {"memory_breakdown", flag, refused_if_on, "memory is in metrics.jsonl, of every step, and in `ravine plan`; remove it"},
      {"vocabulary_size", whole, inert, "DeepSpeed only warns of it; the model's files have the size", 1},
      {"dataloader_drop_last", flag, inert, "it is of DeepSpeed's own loader, which the Trainer does not use"},
      {"zero_allow_untested_optimizer", flag, inert,
       "it allows an optimizer that DeepSpeed has not tested with ZeRO; nothing else follows"},
      {"zero_force_ds_cpu_optimizer", flag, inert, "an update runs where its state lies, by the same code"},
      {"graph_harvesting", flag, inert, kNoCuda},
      {"managed_gradient_accumulation", flag, inert, "an update comes behind all micro batches of its step"},
      {"data_types.grad_accum_dtype", text, renamed, "precision.gradients", -1e300, 1e300, " fp32 fp16 bf16 "},
      {"data_types.param_dtype", text, inert, "it has to be the type of the arithmetic, which fp16 and bf16 choose", -1e300,
       1e300, " fp32 fp16 bf16 "},
      {"data_types.buffer_dtype", text, inert, "frequencies of positions are f32", -1e300, 1e300, " fp32 "},
      {"log_level", text, inert, "the log has one level, metrics.jsonl has every figure"},

      {"fp16.enabled", flag, by_value, "precision.compute"},
      {"fp16.auto_cast", flag, inert, "what a model reads are ids, which have no type to cast"},
      {"fp16.loss_scale", number, renamed, "precision.loss_scale", 0, 1e30},
      {"fp16.initial_scale_power", whole, by_value, "precision.scale_initial", 0, 99},
      {"fp16.loss_scale_window", whole, renamed, "precision.scale_window", 1, 1e9},
      {"fp16.hysteresis", whole, renamed, "precision.scale_hysteresis", 1, 1e9},
      {"fp16.consecutive_hysteresis", flag, renamed, "precision.scale_consecutive_hysteresis"},
      {"fp16.min_loss_scale", number, renamed, "precision.scale_min", 1e-30, 1e30},
      {"fp16.fp16_master_weights_and_grads", flag, refused_if_on, "weights that are trained are kept in f32"},
      {"bf16.enabled", flag, by_value, "precision.compute"},
      {"bf16.immediate_grad_update", flag, inert, "each micro batch is added to the sum as its gradients appear"},
      {"bf16.check_grad_overflow", flag, by_value, "health.skip_norm"},
      {"bf16.bf16_master_weights_and_grads", flag, refused_if_on, "weights that are trained are kept in f32"},
      {"bf16.bf16_optimizer_states", flag, refused_if_on, "states of the optimizer are kept in f32"},
      {"amp.enabled", flag, refused_if_on,
       "amp (apex) goes neither with ZeRO nor with fp16 or bf16 in DeepSpeed, and needs CUDA; use fp16 or bf16"},
      {"amp.*", any, inert, kOffSection},
      {"torch_autocast.enabled", flag, refused_if_on, "arithmetic is chosen by fp16 and bf16, exceptions by precision.recipes"},
      {"torch_autocast.*", any, inert, kOffSection},

      {"optimizer.type", text, renamed, "optimizer.type"},
      {"optimizer.legacy_fusion", flag, inert,
       "it chooses an older call of the fused Adam, in fp16 without ZeRO; the update is one pass in any case"},
      {"optimizer.params", any, inert, "it is empty: defaults count"},
      {"scheduler.type", text, renamed, "schedule.type"},
      {"scheduler.params", any, inert, "it is empty: defaults count"},

      {"zero_optimization", flag, by_value, "parallel.zero"},
      {"zero_optimization.stage", whole, renamed, "parallel.zero", 0, 3},
      {"zero_optimization.contiguous_gradients", flag, inert, kBuckets},
      {"zero_optimization.reduce_scatter", flag, by_value, "each rank gets the sum of its own part"},
      {"zero_optimization.reduce_bucket_size", size, inert, kBuckets, 1},
      {"zero_optimization.use_multi_rank_bucket_allreduce", flag, inert, "each rank gets the sum of its own part"},
      {"zero_optimization.allgather_partitions", flag, inert, kBuckets},
      {"zero_optimization.allgather_bucket_size", size, by_value, kBuckets, 1},
      {"zero_optimization.overlap_comm", flag, inert, "when sums run is decided by the schedule of the step"},
      {"zero_optimization.load_from_fp32_weights", flag, inert,
       "a run that goes on takes the f32 weights of its checkpoint, as DeepSpeed does by default"},
      {"zero_optimization.elastic_checkpoint", flag, inert,
       "checkpoints go on with any number of ranks; their files have the form without it"},
      {"zero_optimization.round_robin_gradients", flag, files, "the order of parameters in checkpoints of ZeRO 1 and 2"},
      {"zero_optimization.ignore_unused_parameters", flag, inert, "every parameter of a model that is trained gets a gradient"},
      {"zero_optimization.legacy_stage1", flag, refused_if_on, "legacy_stage1 was removed from DeepSpeed; leave it out"},
      {"zero_optimization.sub_group_size", size, files, "the groups of checkpoints of ZeRO 3", 1},
      {"zero_optimization.stage3_prefetch_bucket_size", size, inert, kGather, 0},
      {"zero_optimization.stage3_param_persistence_threshold", size, by_value, "parallel.zero_threshold", 0, 1e12},
      {"zero_optimization.stage3_model_persistence_threshold", size, inert,
       "all weights that parallel.zero_threshold names stay whole, however many they are; no number changes by it", 0},
      {"zero_optimization.stage3_max_live_parameters", size, inert, kGather, 0},
      {"zero_optimization.stage3_max_reuse_distance", size, inert, kGather, 0},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", flag, by_value, "checkpoint.model_dtype"},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save", flag, by_value, "checkpoint.model_dtype"},
      {"zero_optimization.stage3_module_granularity_threshold", size, inert, kGather, 0},
      {"zero_optimization.stage3_use_all_reduce_for_fetch_params", flag, inert, kGather},
      {"zero_optimization.stage3_allgather_sequential", flag, inert, kGather},
      {"zero_optimization.cpu_offload", flag, by_value, "offload.optimizer"},
      {"zero_optimization.cpu_offload_param", flag, by_value, "offload.params"},
      {"zero_optimization.cpu_offload_params", flag, by_value, "offload.params"},
      {"zero_optimization.cpu_offload_use_pin_memory", flag, by_value, "offload.pin"},
      {"zero_optimization.zero_hpz_partition_size", whole, inert, "weights are gathered from all ranks of the data axis", 1},
      {"zero_optimization.zero_quantized_weights", flag, refused_if_on,
       "weights are sent in the type in which they are multiplied"},
      {"zero_optimization.zero_quantized_nontrainable_weights", flag, refused_if_on,
       "lora.base=nf4 keeps frozen weights in 4 bits"},
      {"zero_optimization.zero_quantized_gradients", flag, refused_if_on,
       "gradients are sent in precision.gradients; onebit_adam sends momenta in one bit"},
      {"zero_optimization.zeropp_loco_param", any, refused, "it is of quantized gradients, which are not there"},
      {"zero_optimization.mics_shard_size", whole, inert, "parts are divided over all ranks of the data axis", -1},
      {"zero_optimization.mics_hierarchical_params_gather", flag, inert,
       "weights are gathered from all ranks of the data axis"},
      {"zero_optimization.memory_efficient_linear", flag, inert, "no product keeps gathered weights for its backward pass"},
      {"zero_optimization.pipeline_loading_checkpoint", flag, inert, "a rank reads the elements of its part and no others"},
      {"zero_optimization.override_module_apply", flag, inert, "there are no Python modules"},
      {"zero_optimization.log_trace_cache_warnings", flag, inert, "the order of blocks is known before the first step"},
      {"zero_optimization.enable_sanity_checks", flag, inert,
       "it has ranks compare in each step which parameters they send; `ravine check layouts` compares results of ranks"},
      {"zero_optimization.save_muon_momentum_buffer_in_memory", flag, inert, "states lie where offload.optimizer says"},
      {"zero_optimization.leaf_module.*", any, inert, "experts are gathered as their block is"},
      {"zero_optimization.zenflow.*", any, refused, "every gradient updates its weight in its own step"},

      {"zero_optimization.offload_optimizer.device", text, by_value, "offload.optimizer", -1e300, 1e300, " none cpu nvme "},
      {"zero_optimization.offload_optimizer.nvme_path", text, renamed, "offload.path"},
      {"zero_optimization.offload_optimizer.buffer_count", whole, by_value, "offload.buffers", 1, 1024},
      {"zero_optimization.offload_optimizer.pin_memory", flag, by_value, "offload.pin"},
      {"zero_optimization.offload_optimizer.pipeline_read", flag, inert, kMoves},
      {"zero_optimization.offload_optimizer.pipeline_write", flag, inert, kMoves},
      {"zero_optimization.offload_optimizer.fast_init", flag, inert,
       "states begin as zeros, weights as their files have them; either is written once"},
      {"zero_optimization.offload_optimizer.ratio", number, by_value, "offload.optimizer", 0, 1},
      {"zero_optimization.offload_optimizer.super_offload", flag, refused_if_on, "it is for Grace Hopper machines"},
      {"zero_optimization.offload_optimizer.cpuadam_cores_perc", number, inert, "train.threads says how many cores compute", 0,
       1},
      {"zero_optimization.offload_param.device", text, by_value, "offload.params", -1e300, 1e300, " none cpu nvme "},
      {"zero_optimization.offload_param.nvme_path", text, by_value, "offload.path"},
      {"zero_optimization.offload_param.buffer_count", whole, by_value, "offload.buffers", 1, 1024},
      {"zero_optimization.offload_param.buffer_size", size, inert, "the system moves pages, and decides how many at once", 0},
      {"zero_optimization.offload_param.max_in_cpu", size, inert,
       "what lies on disk is cached by the system, as far as memory allows", 0},
      {"zero_optimization.offload_param.pin_memory", flag, by_value, "offload.pin"},

      {"aio.block_size", whole, by_value, "offload.block_kb", 1024, 1 << 30},
      {"aio.queue_depth", whole, renamed, "offload.queue_depth", 1, 4096},
      {"aio.thread_count", whole, by_value, "offload.threads", 1, 256},
      {"aio.intra_op_parallelism", whole, by_value, "offload.threads", 1, 256},
      {"aio.single_submit", flag, inert, "requests are handed over as they come"},
      {"aio.overlap_events", flag, inert, "a request that is done makes room for the next at once"},
      {"aio.use_gds", flag, refused_if_on, "GPUDirect Storage is of CUDA"},

      {"activation_checkpointing.partition_activations", flag, inert, kHfSection},
      {"activation_checkpointing.partitioned_activations", flag, inert, kHfSection},
      {"activation_checkpointing.cpu_checkpointing", flag, inert, kHfSection},
      {"activation_checkpointing.contiguous_memory_optimization", flag, inert, kHfSection},
      {"activation_checkpointing.number_checkpoints", whole, inert, kHfSection, 0},
      {"activation_checkpointing.synchronize_checkpoint_boundary", flag, inert, kHfSection},
      {"activation_checkpointing.profile", flag, inert, kHfSection},

      {"tensorboard.enabled", flag, renamed, "log.tensorboard"},
      {"tensorboard.output_path", text, files, kEventFiles},
      {"tensorboard.job_name", text, files, kEventFiles},
      {"csv_monitor.enabled", flag, files, kCsvFiles},
      {"csv_monitor.output_path", text, files, kCsvFiles},
      {"csv_monitor.job_name", text, files, kCsvFiles},
      {"wandb.*", any, inert, kOwnLog},
      {"comet.*", any, inert, kOwnLog},
      {"flops_profiler.enabled", flag, files, kFlops},
      {"flops_profiler.recompute_fwd_factor", number, files, kFlops, 0},
      {"flops_profiler.profile_step", whole, files, kFlops, 0},
      {"flops_profiler.module_depth", whole, files, kFlops, -1},
      {"flops_profiler.top_modules", whole, files, kFlops, 1},
      {"flops_profiler.detailed", flag, files, kFlops},
      {"flops_profiler.output_file", text, files, kFlops},
      {"comms_logger.enabled", flag, inert, kSumCounts},
      {"comms_logger.verbose", flag, refused_if_on,
       "sums of ranks are counted, not logged one by one: metrics.jsonl has them, by axis; remove it"},
      {"comms_logger.prof_all", flag, inert, kSumCounts},
      {"comms_logger.debug", flag, inert, kSumCounts},
      {"comms_logger.prof_ops", any, inert, kSumCounts},
      {"timers.throughput.enabled", flag, inert, kSpeedLines},
      {"timers.throughput.synchronized", flag, inert, kSpeedLines},

      {"checkpoint.tag_validation", text, inert, "all ranks write the same step: there is one tag", -1e300, 1e300,
       " ignore warn fail "},
      {"checkpoint.load_universal", flag, inert,
       "a universal folder is known by its contents, and gone on from without this key"},
      {"checkpoint.use_node_local_storage", flag, refused_if_on,
       "checkpoints lie in one folder: remove it, and name an --output_dir that all nodes see"},
      {"checkpoint.parallel_write.pipeline_stage", flag, inert,
       "it counts with DeepSpeed's pipelines alone, which the Trainer does not use"},
      {"checkpoint.writer.*", any, inert, "a checkpoint is written in the background, past the page cache where it is large"},
      {"checkpoint.checkpoint_serialization", flag, inert,
       "files have the zip form of torch.save; torch.load reads it and the older one alike"},

      {"elasticity.enabled", flag, refused_if_on,
       "the batch is what train_batch_size says; any number of ranks that divides it goes on"},
      {"elasticity.*", any, inert, kOffSection},
      {"curriculum_learning.enabled", flag, refused_if_on, "sequences have one length through a run"},
      {"curriculum_learning.*", any, inert, kOffSection},
      {"data_efficiency.enabled", flag, refused_if_on, "sequences have one length, and every layer sees every token"},
      {"data_efficiency.*", any, inert, kOffSection},
      {"progressive_layer_drop.enabled", flag, refused_if_on, "every layer runs in every step"},
      {"progressive_layer_drop.*", any, inert, kOffSection},
      {"eigenvalue.enabled", flag, refused_if_on, "it serves quantized training, which is not there"},
      {"eigenvalue.*", any, inert, kOffSection},
      {"autotuning.enabled", flag, refused_if_on, "`ravine plan` finds what fits, before a run"},
      {"autotuning.*", any, inert, kOffSection},
      {"hybrid_engine.enabled", flag, refused_if_on, "training and generation are commands of their own"},
      {"hybrid_engine.*", any, inert, kOffSection},
      {"compile.*", any, inert, "nothing is compiled while a run goes on"},
      {"compression_training.*", any, refused, "a run trains the weights as they are"},
      {"sparse_attention.*", any, refused, "attention is that of the model"},
      {"tensor_parallel.*", any, refused,
       "tensor ranks are those of parallel.tensor; run `ravine train` with the config that --print-config prints"},
      {"expert_parallel.*", any, refused,
       "expert ranks are those of parallel.expert; run `ravine train` with the config that --print-config prints"},
      {"pipeline.*", any, refused,
       "stages are those of parallel.pipeline; run `ravine train` with the config that --print-config prints"},
  });
  return keys;
}

const DeepSpeedKey* find_deepspeed_key(std::string_view key) {
  for (const DeepSpeedKey& k : deepspeed_keys())
    if (k.key == key) return &k;
  for (const DeepSpeedKey& k : deepspeed_keys())
    if (k.key.ends_with(".*") &&
        (key.starts_with(k.key.substr(0, k.key.size() - 1)) || key == k.key.substr(0, k.key.size() - 2)))
      return &k;
  return nullptr;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string nearest_deepspeed_key(const std::string& key) {
  std::vector<std::string> all;
  for (const DeepSpeedKey& k : deepspeed_keys()) {
    const std::string name(k.key);
    all.push_back(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (all.end()[-1] != name.substr(0, dot)) all.push_back(name.substr(0, dot));
  }
  return did_you_mean(key, all, "remove it");
}

std::span<const DeepSpeedClass> deepspeed_optimizers() {
  static const std::vector<DeepSpeedClass> classes = {
      {.name = "AdamW",
       .ours = "adamw",
       .params = with(kAdamParams, {{"adam_w_mode", "", "AdamW is always decoupled", false, "true"}}),
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"}, {"weight_decay", "0"}}},
      {.name = "Adam",
       .ours = "adamw",  // unless adam_w_mode is false
       .params = with(kAdamParams, {{"adam_w_mode", "optimizer.type"}}),
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"}, {"weight_decay", "0"}}},
      {.name = "Adagrad",
       .ours = "adagrad",
       .params = {{"lr", "optimizer.lr"},
                  {"eps", "optimizer.eps"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"lr_decay", "optimizer.lr_decay"},
                  {"initial_accumulator_value", "optimizer.initial_accumulator_value"}},
       .settings = {{"lr", "1e-2"}, {"eps", "1e-10"}, {"weight_decay", "0"}}},
      {.name = "Lion",
       .ours = "lion",
       .params = {{"lr", "optimizer.lr"},
                  {"betas", "optimizer.betas"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"fp32_optimizer_states", "", "states are kept in f32", true, "true"}},
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"weight_decay", "0"}}},
      {.name = "Lamb",
       .ours = "lamb",
       .zero_tested = false,
       .zero_promised = true,
       .params = {{"lr", "optimizer.lr"},
                  {"betas", "optimizer.betas"},
                  {"eps", "optimizer.eps"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"bias_correction", "optimizer.bias_correction"},
                  {"max_coeff", "optimizer.max_coeff"},
                  {"min_coeff", "optimizer.min_coeff"},
                  {"max_grad_norm", "", "use gradient_clipping", true, "0"},
                  {"eps_inside_sqrt", "", "eps is added behind the root", true, "false"},
                  {"amsgrad", "", kLambAmsgrad, true, "false"}},
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"}, {"weight_decay", "0"}}},
      {.name = "SGD",
       .ours = "sgd",
       .zero_tested = false,
       .params = {{"lr", "optimizer.lr"},
                  {"momentum", "optimizer.momentum"},
                  {"dampening", "optimizer.dampening"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"nesterov", "optimizer.nesterov"}},
       .settings = {{"lr", "1e-3"}, {"momentum", "0"}, {"weight_decay", "0"}}},
      {.name = "Muon",
       .ours = "muon",
       .params = {{"lr", "optimizer.lr"},
                  {"momentum", "optimizer.momentum"},
                  {"betas", "optimizer.betas"},
                  {"eps", "optimizer.eps"},
                  {"weight_decay", "optimizer.weight_decay"}},
       .settings = {{"lr", "1e-3"}, {"momentum", "0.95"}, {"weight_decay", "0"}}},
      {.name = "OneBitAdam",
       .ours = "onebit_adam",
       .zero_promised = true,
       .one_bit = true,
       .params = {{"lr", "optimizer.lr"},
                  {"betas", "optimizer.betas"},
                  {"eps", "optimizer.eps"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"freeze_step", "optimizer.freeze_step"},
                  {"bias_correction", "", "it has no correction, upstream ignores the key too", false, "true"},
                  {"amsgrad", "", kAmsgrad, true, "false"},
                  {"cuda_aware", "", kOneBackend, false, "false"},
                  {"comm_backend_name", "", kOneBackend, false, "\"nccl\""}},
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"}, {"weight_decay", "0"}}},
      {.name = "ZeroOneAdam",
       .ours = "zeroone_adam",
       .one_bit = true,
       .params = {{"lr", "optimizer.lr"},
                  {"betas", "optimizer.betas"},
                  {"eps", "optimizer.eps"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"var_freeze_step", "optimizer.var_freeze_step"},
                  {"var_update_scaler", "optimizer.var_update_scaler"},
                  {"local_step_scaler", "optimizer.local_step_scaler"},
                  {"local_step_clipper", "optimizer.local_step_clipper"},
                  {"bias_correction", "", "it has no correction, upstream ignores the key too", false, "true"},
                  {"amsgrad", "", kAmsgrad, true, "false"},
                  {"cuda_aware", "", kOneBackend, false, "false"},
                  {"comm_backend_name", "", kOneBackend, false, "\"nccl\""}},
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"}, {"weight_decay", "0"}}},
      {.name = "OneBitLamb",
       .ours = "onebit_lamb",
       .one_bit = true,
       .params = {{"lr", "optimizer.lr"},
                  {"betas", "optimizer.betas"},
                  {"eps", "optimizer.eps"},
                  {"weight_decay", "optimizer.weight_decay"},
                  {"freeze_step", "optimizer.freeze_step"},
                  {"max_coeff", "optimizer.max_coeff"},
                  {"min_coeff", "optimizer.min_coeff"},
                  {"coeff_beta", "optimizer.coeff_beta"},
                  {"factor_max", "optimizer.factor_max"},
                  {"factor_min", "optimizer.factor_min"},
                  {"factor_threshold", "optimizer.factor_threshold"},
                  {"bias_correction", "", "it has no correction, upstream ignores the key too", false, "true"},
                  {"amsgrad", "", kLambAmsgrad, true, "false"},
                  {"cuda_aware", "", kOneBackend, false, "false"},
                  {"comm_backend_name", "", kOneBackend, false, "\"nccl\""}},
       .settings = {{"lr", "1e-3"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"}, {"weight_decay", "0"}}},
  };
  return classes;
}

std::span<const DeepSpeedClass> deepspeed_schedulers() {
  const auto own = [](std::initializer_list<const char*> names) {
    std::vector<DeepSpeedParam> params;
    for (const char* name : names) params.push_back({name, std::string("schedule.") + name});
    params.push_back({"last_batch_iteration", "", "a run that goes on knows its step", true, "-1"});
    return params;
  };
  static const std::vector<DeepSpeedClass> classes = {
      {.name = "WarmupLR",
       .ours = "WarmupLR",
       .params = own({"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type"})},
      {.name = "WarmupDecayLR",
       .ours = "WarmupDecayLR",
       .params = own({"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type", "total_num_steps"}),
       .settings = {{"warmup_max_lr", "0.001"}}},
      {.name = "WarmupCosineLR",
       .ours = "WarmupCosineLR",
       .params = own({"warmup_num_steps", "warmup_type", "total_num_steps", "warmup_min_ratio", "cos_min_ratio"})},
      {.name = "OneCycle",
       .ours = "OneCycle",
       .params = own({"cycle_min_lr", "cycle_max_lr", "cycle_first_step_size", "cycle_second_step_size",
                      "cycle_first_stair_count", "cycle_second_stair_count", "decay_step_size", "decay_lr_rate",
                      "cycle_momentum", "cycle_min_mom", "cycle_max_mom", "decay_mom_rate"})},
      {.name = "LRRangeTest",
       .ours = "LRRangeTest",
       .params =
           own({"lr_range_test_min_lr", "lr_range_test_step_size", "lr_range_test_step_rate", "lr_range_test_staircase"})},
  };
  return classes;
}

}  // namespace ravine
