#include "dialects/trainer_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "config/option.h"

namespace ravine {
namespace {

constexpr std::string_view kHub = "nothing is fetched from or sent to a hub; model and data are folders and files";
constexpr std::string_view kOneProcess = "a run is one program: it needs no workers, no pinned copies and no pickles for them";
constexpr std::string_view kDdp = "sums over ranks follow parallel.*, they have no settings of DDP";
constexpr std::string_view kCompile = "nothing is compiled while a run goes on";
constexpr std::string_view kLogOwn = "the log has one level, metrics.jsonl has every figure";
constexpr std::string_view kEvalBatch = "the loss of a validation does not depend on its batches, of train.micro_batch rows";
constexpr std::string_view kEvalLoss = "a validation works out the loss alone, for which no predictions are kept";
constexpr std::string_view kFsdp = "it counts with --fsdp alone";
constexpr std::string_view kTpu = "there are no TPUs here";
constexpr std::string_view kCpuHere = "the CPU computes unless --backend says otherwise";

// Names of flags in other versions.
constexpr std::pair<std::string_view, std::string_view> kOtherSpellings[] = {
    {"eval_strategy", "evaluation_strategy"},
    {"fp16_backend", "half_precision_backend"},
    {"activation_checkpointing", "gradient_checkpointing"},
    {"activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"},
};

constexpr std::string_view kYes[] = {"yes", "true", "t", "y", "1"}, kNo[] = {"no", "false", "f", "n", "0"};

bool one_of_words(std::string word, std::span<const std::string_view> words) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_trainer_flag(const std::string& word) { return word.starts_with("--") && word.size() > 2; }

// Returns the value of a flag; null if the words do not fit its type, and then sets `rule` to the expected type.
YamlNode::Ptr trainer_value(const TrainerFlag& f, const std::vector<std::string>& words, std::string& rule) {
  auto node = std::make_shared<YamlNode>();
  if (f.type == DeepSpeedValue::words) {
    node->kind = YamlNode::Kind::list;
    for (const std::string& w : words) {
      auto item = std::make_shared<YamlNode>();
      item->kind = YamlNode::Kind::text, item->text = w;
      node->items.push_back(std::move(item));
    }
    return node;
  }
  const std::string& word = words.front();
  node->text = word;
  if (f.type == DeepSpeedValue::flag) {
    node->kind = YamlNode::Kind::boolean;
    node->boolean = one_of_words(word, kYes);
    rule = "true or false";
    return node->boolean || one_of_words(word, kNo) ? node : nullptr;
  }
  if (f.type == DeepSpeedValue::text) return node->kind = YamlNode::Kind::text, node;
  *node = resolve_scalar(word);
  const bool whole_number = node->kind == YamlNode::Kind::integer;
  if (f.type == DeepSpeedValue::whole && !whole_number) return rule = "a whole number", nullptr;
  if (!whole_number && node->kind != YamlNode::Kind::real) return rule = "a number", nullptr;
  if (!(node->real >= f.min && node->real <= f.max)) {
    rule = f.max >= 1e300 ? fmt::format("at least {}", f.min) : fmt::format("between {} and {}", f.min, f.max);
    return nullptr;
  }
  return node;
}

}  // namespace

std::span<const TrainerFlag> trainer_flags() {
  using enum DeepSpeedValue;
  using enum DeepSpeedFate;
  static constexpr auto flags = std::to_array<TrainerFlag>({
      // Model.
      {"model_name_or_path", text, "", renamed, "model.path"},
      {"config_name", text, "", by_value, "model.config"},
      {"tokenizer_name", text, "", renamed, "model.tokenizer"},
      {"model_type", text, "", by_value, "the model, with --model_name_or_path or --config_name"},
      {"config_overrides", text, "", refused_if_on,
       "values of the shape are in a config.json; write them into that of --config_name, and leave it out"},
      {"cache_dir", text, "", inert, kHub},
      {"model_revision", text, "main", inert, kHub},
      {"use_fast_tokenizer", flag, "true", inert,
       "tokenizers give the ids of the fast ones, which slow ones are meant to give too"},
      {"token", text, "", inert, kHub},
      {"use_auth_token", text, "", inert, kHub},
      {"trust_remote_code", flag, "false", inert, "no code of a model folder is ever run"},
      {"torch_dtype", text, "", by_value, "precision.compute"},
      {"dtype", text, "", by_value, "precision.compute"},
      {"low_cpu_mem_usage", flag, "false", inert, "a rank reads the elements of its part and no others"},
      {"attn_implementation", text, "", inert, "there is one attention, which keeps no matrix of scores"},
      // Data.
      {"dataset_name", text, "", by_value, "data.train"},
      {"dataset_config_name", text, "", refused_if_on, "it chooses among sets of a hub; name the files by --train_file"},
      {"train_file", text, "", renamed, "data.train"},
      {"validation_file", text, "", renamed, "data.valid"},
      {"max_train_samples", whole, "", refused_if_on, "cut the file, or set --max_steps", 1},
      {"max_eval_samples", whole, "", by_value, "train.valid_batches", 1},
      {"streaming", flag, "false", by_value, "data.shuffle"},
      {"block_size", whole, "", renamed, "data.sequence_length", 2, 1 << 24},
      {"overwrite_cache", flag, "false", by_value, "data.cache"},
      {"validation_split_percentage", number, "5", by_value, "data.valid_fraction", 0, 99},
      {"preprocessing_num_workers", whole, "", inert,
       "all threads tokenize, and blocks run on over all texts; run_clm.py drops a rest of each 1000 texts of a worker"},
      {"keep_linebreaks", flag, "true", refused_if_on, "line ends are part of the text"},
      // Output and actions.
      {"output_dir", text, "", renamed, "train.output"},
      {"overwrite_output_dir", flag, "false", by_value, "checkpoint.resume"},
      {"do_train", flag, "false", by_value, "train.steps"},
      {"do_eval", flag, "false", by_value, "train.valid_every"},
      {"do_predict", flag, "false", refused_if_on, "predictions are made by `ravine generate` and `ravine eval`"},
      {"resume_from_checkpoint", text, "", renamed, "checkpoint.resume"},
      {"ignore_data_skip", flag, "false", by_value, "checkpoint.data_steps"},
      // Batch and length.
      {"per_device_train_batch_size", whole, "8", renamed, "train.micro_batch", 1, 1 << 20},
      {"per_device_eval_batch_size", whole, "8", inert, kEvalBatch, 1},
      {"per_gpu_train_batch_size", whole, "", refused_if_on, "it is an old name; write --per_device_train_batch_size"},
      {"per_gpu_eval_batch_size", whole, "", inert, kEvalBatch},
      {"gradient_accumulation_steps", whole, "1", by_value, "train.global_batch", 1, 1 << 16},
      {"eval_accumulation_steps", whole, "", inert, kEvalLoss},
      {"auto_find_batch_size", flag, "false", refused_if_on,
       "memory is planned before the first step: `ravine plan` says what fits"},
      {"num_train_epochs", number, "3.0", by_value, "train.steps", 1e-9, 1e9},
      {"max_steps", whole, "-1", renamed, "train.steps", -1, 1e9},
      // Optimizer and schedule.
      {"optim", text, "adamw_torch", renamed, "optimizer.type"},
      {"optim_args", text, "", refused_if_on,
       "arguments of an optimizer are flags of their own; write --adam_beta1 and its like"},
      {"optim_target_modules", words, "", refused_if_on, "it is of GaLore and APOLLO, which are not there; leave it out"},
      {"adafactor", flag, "false", by_value, "optimizer.type"},
      {"learning_rate", number, "5e-5", renamed, "optimizer.lr", 0, 10},
      {"weight_decay", number, "0.0", renamed, "optimizer.weight_decay", 0, 1e4},
      {"adam_beta1", number, "0.9", by_value, "optimizer.betas", 0, 0.999999},
      {"adam_beta2", number, "0.999", by_value, "optimizer.betas", 0, 0.999999},
      {"adam_epsilon", number, "1e-8", renamed, "optimizer.eps", 0, 1},
      {"max_grad_norm", number, "1.0", renamed, "optimizer.clip_norm", 0, 1e12},
      {"lr_scheduler_type", text, "linear", renamed, "schedule.type"},
      {"lr_scheduler_kwargs", text, "", by_value, "schedule.*"},
      {"warmup_ratio", number, "0.0", by_value, "schedule.warmup_steps", 0, 1},
      {"warmup_steps", number, "0", renamed, "schedule.warmup_steps", 0, 1e9},
      // Evaluation.
      {"evaluation_strategy", text, "no", by_value, "train.valid_every"},
      {"eval_steps", number, "", renamed, "train.valid_every", 0, 1e9},
      {"eval_delay", number, "0", refused_if_on,
       "validations come every --eval_steps, counted from the first step; leave it out"},
      {"eval_on_start", flag, "false", refused_if_on,
       "validations come every --eval_steps, counted from the first step; leave it out"},
      {"eval_do_concat_batches", flag, "true", inert, kEvalLoss},
      {"use_legacy_prediction_loop", flag, "false", inert, kEvalLoss},
      {"eval_use_gather_object", flag, "false", inert, kEvalLoss},
      {"batch_eval_metrics", flag, "false", inert, kEvalLoss},
      {"prediction_loss_only", flag, "false", inert,
       "a validation gives loss and perplexity, as with it on; there is no eval_accuracy"},
      {"include_inputs_for_metrics", flag, "false", inert, kEvalLoss},
      {"include_for_metrics", words, "", inert, kEvalLoss},
      {"jit_mode_eval", flag, "false", inert, kCompile},
      {"label_names", words, "", refused_if_on, "labels are the ids themselves, or those that the file has; leave it out"},
      {"past_index", whole, "-1", refused_if_on, "it is of models that return a state, which are not there; leave it out"},
      {"load_best_model_at_end", flag, "false", files, "train.output/model, of the checkpoint whose validation is best"},
      {"metric_for_best_model", text, "", files, "trainer_state.json, which names the best checkpoint"},
      {"greater_is_better", flag, "", files, "the checkpoint that counts as the best"},
      // Logging.
      {"logging_dir", text, "", files, "event files, where --report_to asks for them"},
      {"logging_strategy", text, "steps", by_value, "log.every"},
      {"logging_steps", number, "500", renamed, "log.every", 0, 1e9},
      {"logging_first_step", flag, "false", files, "a line of the first step, in the log and in the files"},
      {"logging_nan_inf_filter", flag, "true", inert, "a loss that is not finite ends the run"},
      {"log_level", text, "passive", inert, kLogOwn},
      {"log_level_replica", text, "warning", inert, kLogOwn},
      {"log_on_each_node", flag, "true", inert, "the first rank speaks for all"},
      {"disable_tqdm", flag, "", files, "the bar, which terminals alone show"},
      {"report_to", words, "all", renamed, "log.tensorboard"},
      {"run_name", text, "", inert, "it names the run to services on the network, which get nothing"},
      {"project", text, "", inert, kHub},
      {"trackio_space_id", text, "", inert, kHub},
      {"trackio_bucket_id", text, "", inert, kHub},
      {"trackio_static_space_id", text, "", inert, kHub},
      {"skip_memory_metrics", flag, "true", refused_if_on, "memory is in metrics.jsonl, of every step; leave it out"},
      {"include_tokens_per_second", flag, "false", files, "train_tokens_per_second of train_results.json, of a rank"},
      {"include_num_input_tokens_seen", text, "false", files,
       "num_input_tokens_seen of the entries of log_history in trainer_state.json"},
      // Saving.
      {"save_strategy", text, "steps", by_value, "checkpoint.every"},
      {"save_steps", number, "500", renamed, "checkpoint.every", 0, 1e9},
      {"save_total_limit", whole, "", renamed, "checkpoint.keep", 0, 1e6},
      {"save_safetensors", flag, "true", refused_if_on,
       "weights are written as safetensors; `ravine convert` makes other files of them"},
      {"save_on_each_node", flag, "false", inert, "checkpoints lie in one folder, which all ranks see"},
      {"save_only_model", flag, "false", refused_if_on,
       "a checkpoint holds what a run needs to go on; leave it out, the model alone is train.output/model"},
      {"restore_callback_states_from_checkpoint", flag, "false", inert, "there are no callbacks"},
      {"enable_jit_checkpoint", flag, "false", inert, "SIGTERM asks a run to save and stop, always"},
      // Precision.
      {"bf16", flag, "false", by_value, "precision.compute"},
      {"fp16", flag, "false", by_value, "precision.compute"},
      {"bf16_full_eval", flag, "false", by_value, "precision.compute"},
      {"fp16_full_eval", flag, "false", by_value, "precision.compute"},
      {"half_precision_backend", text, "auto", by_value, "precision.compute"},
      {"fp16_opt_level", text, "O1", inert, "it counts with --half_precision_backend apex alone"},
      {"tf32", flag, "", inert, "f32 is multiplied in f32"},
      // Memory and speed.
      {"gradient_checkpointing", flag, "false", by_value, "train.recompute"},
      {"gradient_checkpointing_kwargs", text, "", inert, "a block is computed again from its input"},
      {"torch_compile", flag, "false", inert, kCompile},
      {"torch_compile_backend", text, "", inert, kCompile},
      {"torch_compile_mode", text, "", inert, kCompile},
      {"torchdynamo", text, "", inert, kCompile},
      {"use_ipex", flag, "false", inert, "kernels are Ravine's own; those of Intel's extension have no part in a run"},
      {"use_liger_kernel", flag, "false", inert, "kernels are fused where that changes no result"},
      {"liger_kernel_config", text, "", inert, "kernels are fused where that changes no result"},
      {"torch_empty_cache_steps", whole, "", inert, "memory is planned before the first step"},
      {"use_cache", flag, "false", inert, "training keeps no cache"},
      // Data loading.
      {"dataloader_drop_last", flag, "false", by_value, "data.pass_end"},
      {"dataloader_num_workers", whole, "0", inert, kOneProcess},
      {"dataloader_pin_memory", flag, "true", inert, kOneProcess},
      {"dataloader_persistent_workers", flag, "false", inert, kOneProcess},
      {"dataloader_prefetch_factor", whole, "", inert, "data.prefetch micro batches are ready ahead"},
      {"dispatch_batches", flag, "", inert, "rows are dealt out as without it, which differs at the end of a pass alone"},
      {"split_batches", flag, "false", by_value, "refused on several ranks if it is true: batch sizes are those of a rank"},
      {"accelerator_config", text, "", by_value, "refused unless its fields have their defaults"},
      {"parallelism_config", text, "", refused_if_on,
       "ranks are data ranks; leave it out, or train with `ravine train` and parallel.*"},
      {"group_by_length", flag, "false", refused_if_on, "samples come in the order that the seed draws; leave it out"},
      {"train_sampling_strategy", text, "random", by_value, "data.shuffle"},
      {"dataloader_in_order", flag, "true", inert, kOneProcess},
      {"dataloader_multiprocessing_context", text, "", inert, kOneProcess},
      {"length_column_name", text, "length", inert, "samples are not grouped by length"},
      {"remove_unused_columns", flag, "true", inert, "fields that are not the text are not looked at"},
      // Repeating.
      {"seed", whole, "42", renamed, "train.seed", 0},
      {"data_seed", whole, "", renamed, "train.seed", 0},
      {"full_determinism", flag, "false", inert, "a run gives the same bits whenever it is run, for any number of threads"},
      // Ranks.
      {"deepspeed", text, "", by_value, "parallel.zero"},
      {"transformers_version", text, "4.37", by_value, "train.loss_average"},
      {"local_rank", whole, "-1", inert, "ranks are started by mpirun or srun"},
      {"ddp_backend", text, "", inert, "ranks are started by mpirun or srun, and speak MPI"},
      {"ddp_find_unused_parameters", flag, "", inert, kDdp},
      {"ddp_bucket_cap_mb", whole, "", inert, kDdp},
      {"ddp_broadcast_buffers", flag, "", inert, kDdp},
      {"ddp_static_graph", flag, "", inert, kDdp},
      {"ddp_timeout", whole, "1800", by_value, "parallel.patience", 1},
      {"tp_size", whole, "0", by_value, "refused above 1: ranks are data ranks", 0},
      {"average_tokens_across_devices", flag, "true", inert, "a step is the same sum however many ranks take part"},
      {"fsdp", words, "", refused_if_on, "weights are divided by ZeRO: --deepspeed with stage 3"},
      {"fsdp_min_num_params", whole, "0", inert, kFsdp},
      {"fsdp_config", text, "", refused_if_on, "weights are divided by ZeRO: --deepspeed with stage 3"},
      {"fsdp_transformer_layer_cls_to_wrap", text, "", inert, kFsdp},
      {"use_cpu", flag, "false", inert, kCpuHere},
      {"no_cuda", flag, "false", inert, kCpuHere},
      {"use_mps_device", flag, "false", inert, kCpuHere},
      {"xpu_backend", text, "", inert, "ranks are started by mpirun or srun, and speak MPI"},
      {"tpu_num_cores", whole, "", inert, kTpu},
      {"tpu_metrics_debug", flag, "false", inert, kTpu},
      {"mp_parameters", text, "", inert, "it is of SageMaker"},
      // Regularisation.
      {"label_smoothing_factor", number, "0.0", refused_if_on, "the loss is the cross-entropy of the labels; leave it out", 0,
       1},
      {"neftune_noise_alpha", number, "", refused_if_on, "no noise is added to embeddings; leave it out"},
      // Hub and the rest.
      {"push_to_hub", flag, "false", refused_if_on, "nothing is sent; upload train.output/model by hand"},
      {"push_to_hub_model_id", text, "", inert, kHub},
      {"push_to_hub_organization", text, "", inert, kHub},
      {"push_to_hub_token", text, "", inert, kHub},
      {"hub_model_id", text, "", inert, kHub},
      {"hub_strategy", text, "every_save", inert, kHub},
      {"hub_token", text, "", inert, kHub},
      {"hub_private_repo", flag, "", inert, kHub},
      {"hub_always_push", flag, "false", inert, kHub},
      {"hub_revision", text, "", inert, kHub},
      {"debug", words, "", by_value, "train.find_nan"},
      {"ray_scope", text, "last", inert, "it is of Ray Tune"},
  });
  return flags;
}

const TrainerFlag* find_trainer_flag(std::string_view name) {
  std::string spelled(name);
  std::replace(spelled.begin(), spelled.end(), '-', '_');
  for (const auto& [other, own] : kOtherSpellings)
    if (spelled == other) spelled = own;
  for (const TrainerFlag& f : trainer_flags())
    if (f.name == spelled) return &f;
  return nullptr;
}

const YamlNode& TrainerArguments::value(std::string_view name) const {
  const auto found = values.find(name);
  require(found != values.end(), "trainer flags: a flag of the table, got {}", name);
  return *found->second;
}

TrainerArguments read_trainer_flags(const std::vector<PlacedWord>& words, std::vector<KeyRefusal>& refusals) {
  TrainerArguments out;
  std::string rule;
  for (const TrainerFlag& f : trainer_flags())
    out.values[std::string(f.name)] =
        f.fallback.empty() ? std::make_shared<YamlNode>() : trainer_value(f, {std::string(f.fallback)}, rule);
  for (size_t at = 0; at < words.size();) {
    const auto& [word, location] = words[at++];
    const auto refuse = [&, &location = location](const std::string& key, const std::string& rule, const std::string& fix) {
      refusals.push_back({key, key, location, rule, fix});
    };
    if (!is_trainer_flag(word)) {
      refuse(word.substr(0, 80), "it belongs to no flag", "write the flag before it, or leave it out");
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const TrainerFlag* f = find_trainer_flag(name);
    std::vector<std::string> values;
    if (!f && (name.starts_with("no_") || name.starts_with("no-")))
      if (const TrainerFlag* denied = find_trainer_flag(name.substr(3));
          denied && denied->type == DeepSpeedValue::flag && denied->fallback == "true" && equals == std::string::npos)
        f = denied, values = {"false"};
    if (!f) {
      std::vector<std::string> names;
      for (const TrainerFlag& known : trainer_flags()) names.push_back("--" + std::string(known.name));
      refuse("--" + name.substr(0, 80), "neither TrainingArguments nor run_clm.py has it",
             did_you_mean("--" + name, names, "leave it out"));
      while (at < words.size() && !is_trainer_flag(words[at].text)) ++at;
      continue;
    }
    if (equals != std::string::npos) values = {word.substr(equals + 1)};
    const bool many = f->type == DeepSpeedValue::words;
    while (values.empty() || many) {
      if (at == words.size() || is_trainer_flag(words[at].text) || (many && equals != std::string::npos)) break;
      values.push_back(words[at++].text);
    }
    if (values.empty() && f->type == DeepSpeedValue::flag) values = {"true"};
    rule = "a value behind it";
    YamlNode::Ptr value = values.empty() && !many ? nullptr : trainer_value(*f, values, rule);
    if (!value) {
      refuse("--" + name, fmt::format("it is '{}', it takes {}", values.empty() ? "" : values.front().substr(0, 80), rule),
             "correct it");
      continue;
    }
    out.values[std::string(f->name)] = std::move(value);
    out.given[std::string(f->name)] = "--" + name;
  }
  return out;
}

}  // namespace ravine
