// The keys of runner_wrapper, optimizer, lr_schedule, the datasets and the callbacks.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "dialects/mindformers_tables.h"

namespace ravine {
namespace {

using enum KeyType;

// Returns "callbacks[1]" for "callbacks[1].prefix".
std::string item_of(const std::string& key) { return key.substr(0, key.find('.')); }

const Json* value_in(const std::vector<GivenKey>& given, const std::string& key) {
  for (const GivenKey& g : given)
    if (g.key == key) return &g.value;
  return nullptr;
}

constexpr const char* kOfTraining = "it is that of train_dataset";
constexpr const char* kAtTheTop = "the key of that name at the top counts, in MindFormers too";
constexpr const char* kLoader = "batches are prepared by threads of the rank itself";

// Adds the keys that both datasets have.
void add_data_set(MindFormersTable& t, const std::string& at, bool training) {
  const std::string data = training ? "data.train" : "data.valid";
  const char* mask = "it makes a column for the mask of reset_attention_mask, and none is needed here";
  const char* order = "a model of language takes ids and labels";
  t.add({
      used(at + ".data_loader.type", text, data, nullptr, {"MindDataset", "BlendedMegatronDatasetDataLoader"}),
      used(at + ".data_loader.dataset_dir", text, data, ""),
      used(at + ".data_loader.dataset_files", any, data),
      used(at + ".data_loader.num_samples", whole, training ? "train.steps" : "train.valid_batches"),
      inert(at + ".data_loader", any, "it has no keys"),
      inert(at + ".data_loader.use_broadcast_data", boolean, "each rank reads what it needs"),
      used(at + ".data_loader.config.data_path", any, data),
      inert(at + ".data_loader.config.create_attention_mask", boolean, mask),
      training ? used(at + ".data_loader.config.create_compressed_eod_mask", boolean, "data.reset_attention_mask", false)
               : inert(at + ".data_loader.config.create_compressed_eod_mask", boolean, kOfTraining),
      inert(at + ".data_loader.config.eod_pad_length", whole,
            "it bounds how many documents of a row MindFormers tells apart; here all are"),
      inert(at + ".data_loader.config.mmap_bin_files", boolean, "files of tokens are always mapped"),
      inert(at + ".data_loader.config.num_dataset_builder_threads", whole, kLoader),
      inert(at + ".data_loader.config.token_dtype", text, "the index of the files says it"),
      used(at + ".input_columns", texts, data),
      inert(at + ".output_columns", texts, order),
      inert(at + ".column_order", texts, order),
      inert(at + ".construct_args_key", texts, order),
      inert(at + ".num_parallel_workers", whole, kLoader),
      inert(at + ".python_multiprocessing", boolean, kLoader),
      inert(at + ".numa_enable", boolean, kLoader),
      inert(at + ".prefetch_size", whole, kLoader),
      inert(at + ".batch_size", whole, "runner_config.batch_size counts, in MindFormers too"),
      inert(at + ".divisor", any, "it counts with dynamic_batch alone"),
      inert(at + ".remainder", any, "it counts with dynamic_batch alone"),
      inert(at + ".token_monitor_config", any, "it counts with token_monitor alone"),
      inert(at + ".eod_token_id", whole, "it counts with eod_reset alone"),
      inert(at + ".do_eval", boolean, "which data set is which follows from its section"),
      inert(at + ".profile", boolean, kAtTheTop),
      inert(at + ".auto_tune", boolean, kAtTheTop),
      inert(at + ".filepath_prefix", text, kAtTheTop),
      inert(at + ".autotune_per_step", whole, kAtTheTop),
      used(at + "_task.type", text, data, nullptr, {"CausalLanguageModelDataset"}),
      inert(at, any, "it has no keys"),
      inert(at + "_task", any, "it has no keys"),
  });
  t.add_only(at + ".data_loader.datasets_type", text, {"GPTDataset"}, "token files are those of GPT",
             "token files are those of GPT", "write GPTDataset");
  t.add_only(at + ".drop_remainder", boolean, {true}, "rows that fill no batch are left out",
             "rows that fill no batch are left out at the end of an epoch", "set it to True");
  t.add_only(at + ".data_loader.config.pad", whole, {-1}, "every label counts", "labels of every id count in token files",
             "set it to -1; eod_mask_loss leaves out the ends of documents");
  t.add_only(at + ".dynamic_batch", boolean, {false}, "rows have one length", "rows of a file have one length");
  t.add_only(at + ".token_monitor", boolean, {false}, "`ravine data show` counts tokens",
             "tokens are not counted while training", "use `ravine data show`");
  t.add_only(
      at + ".eod_reset", boolean, {false},
      "as there, a token sees its whole row up to itself; documents packed into a row of a MindRecord file are not kept apart",
      "as there, a token sees its whole row up to itself; documents packed into a row of a MindRecord file are not kept apart",
      "use BlendedMegatronDatasetDataLoader with reset_attention_mask");
}

// Adds the keys of the training dataset that the other lacks, or that apply to both.
void add_training_data(MindFormersTable& t) {
  const std::string at = "train_dataset", config = at + ".data_loader.config.", other = "eval_dataset.data_loader.";
  t.add({inert(at + ".seed", whole, "the seed at the top replaces it, in MindFormers too"),
         inert("eval_dataset.seed", whole, "the seed at the top replaces it, in MindFormers too"),
         used(at + ".data_loader.shuffle", boolean, "data.shuffle", true),
         used(at + ".data_loader.config.seed", whole, "data.seed", 1234),
         inert(other + "config.seed", whole, kOfTraining, 1234), used(at + ".data_loader.sizes", wholes, "train.steps"),
         used(at + ".repeat", whole, "train.steps", 1),
         inert("eval_dataset.repeat", whole, "an evaluation goes over its data once"),
         inert(other + "shuffle", boolean, "the order of an evaluation decides no number"),
         inert(other + "sizes", wholes, "all rows of data_path are evaluated, once; num_samples bounds them")});
  for (const auto& [key, type, option] : {std::tuple{"seq_length", whole, "data.sequence_length"},
                                          {"split", text, "data.split"},
                                          {"eod", whole, "data.eod"},
                                          {"eod_mask_loss", boolean, "data.eod_mask_loss"},
                                          {"reset_position_ids", boolean, "data.reset_position_ids"},
                                          {"reset_attention_mask", boolean, "data.reset_attention_mask"}})
    t.add({used(config + key, type, option), inert(other + "config." + key, type, kOfTraining)});
}

}  // namespace

void add_mindformers_data_rows(MindFormersTable& t, const std::vector<GivenKey>& given) {
  add_training_data(t);
  add_data_set(t, "train_dataset", true);
  add_data_set(t, "eval_dataset", false);
  for (const GivenKey& g : given)
    for (const char* task : {"train_dataset_task.dataset_config", "eval_dataset_task.dataset_config"})
      if (g.key.starts_with(task))
        t.add({inert(g.key, any, std::string(g.key).substr(0, std::string(g.key).find('_')) + "_dataset says it")});
  t.add({inert("metric.type", text, "an evaluation gives loss and perplexity"), inert("metric", any, "it has no keys")});
}

void add_mindformers_update_rows(MindFormersTable& t) {
  t.add({
      used("runner_wrapper.type", text, "how a step is made", "MFTrainOneStepCell",
           {"MFTrainOneStepCell", "MFPipelineWithLossScaleCell", "mf_wrapper", "pipeline_wrapper"}),
      used("runner_wrapper.use_clip_grad", boolean, "optimizer.clip_norm"),
      renamed("runner_wrapper.max_grad_norm", number, "optimizer.clip_norm", 1.0),
      used("runner_wrapper.scale_sense", number, "precision.loss_scale"),
      used("runner_wrapper.scale_sense.type", text, "precision.loss_scale", nullptr,
           {"FixedLossScaleUpdateCell", "DynamicLossScaleUpdateCell", "AdaptiveLossScaleUpdateCell"}),
      renamed("runner_wrapper.scale_sense.loss_scale_value", number, "precision.scale_initial"),
      renamed("runner_wrapper.scale_sense.scale_factor", number, "precision.scale_factor"),
      renamed("runner_wrapper.scale_sense.scale_window", whole, "precision.scale_window"),
      used("runner_wrapper.scale_sense.max_scale_window", whole, "precision.scale_window", 1000),
      used("runner_wrapper.scale_sense.min_scale_window", whole, "precision.scale_window", 20),
      used("runner_wrapper.local_norm", boolean, "log.local_norms", false),
      inert("runner_wrapper.calculate_per_token_loss", boolean, kAtTheTop),
      inert("runner_wrapper.use_skip_data_by_global_norm", boolean, kAtTheTop),
      inert("runner_wrapper.global_norm_spike_threshold", number, "that of monitor_config counts, in MindFormers too"),
      inert("runner_wrapper.micro_batch_num", whole, "parallel_config.micro_batch_num counts, in MindFormers too"),
      inert("runner_wrapper.loss_scale_value", number, "scale_sense counts, in MindFormers too"),
      used("optimizer.type", text, "optimizer.type", "AdamW",
           {"AdamW", "FusedAdamW", "Adam", "AdamWeightDecay", "FP32StateAdamWeightDecay", "SGD", "Momentum", "Lamb", "Came",
            "Adagrad", "AdaFactor"}),
      renamed("optimizer.learning_rate", number, "optimizer.lr"),
      renamed("optimizer.betas", numbers, "optimizer.betas"),
      used("optimizer.beta1", number, "optimizer.betas"),
      used("optimizer.beta2", number, "optimizer.betas"),
      renamed("optimizer.beta3", number, "optimizer.beta3"),
      used("optimizer.eps", any, "optimizer.eps"),
      renamed("optimizer.weight_decay", number, "optimizer.weight_decay", 0.0),
      renamed("optimizer.momentum", number, "optimizer.momentum"),
      renamed("optimizer.dampening", number, "optimizer.dampening"),
      used("optimizer.nesterov", boolean, "optimizer.nesterov"),
      used("optimizer.use_nesterov", boolean, "optimizer.nesterov"),
      renamed("optimizer.clip_threshold", number, "optimizer.clip_threshold"),
      renamed("optimizer.decay_rate", number, "optimizer.decay_rate"),
      renamed("optimizer.scale_parameter", boolean, "optimizer.scale_parameter"),
      renamed("optimizer.relative_step", boolean, "optimizer.relative_step"),
      renamed("optimizer.warmup_init", boolean, "optimizer.warmup_init"),
      renamed("optimizer.accum", number, "optimizer.initial_accumulator_value"),
      inert("optimizer.use_fused", boolean, "the update is one pass over memory in any case"),
      inert("optimizer.swap", boolean, "states are in the memory that it would move them to"),
  });
  t.add_only("optimizer.amsgrad", boolean, {false}, "it is off", "no optimizer keeps the largest second moment");
  t.add_only("optimizer.maximize", boolean, {false}, "it is off", "a loss is made small");
  t.add_only("optimizer.compression", boolean, {false}, "it is off", "states are not compressed");
  t.add_only("optimizer.loss_scale", number, {1, 1.0}, "it is 1", "gradients are divided by the scale of the wrapper",
             "set runner_wrapper.scale_sense");
  t.add({
      used("lr_schedule.type", text, "schedule.type", "CosineWithWarmUpLR",
           {"ConstantWarmUpLR", "constant_with_warmup", "LinearWithWarmUpLR", "linear", "CosineWithWarmUpLR", "cosine",
            "CosineWithRestartsAndWarmUpLR", "cosine_with_restarts", "PolynomialWithWarmUpLR", "polynomial",
            "WarmUpStableDecayLR", "ConstantWithCoolDownLR", "CosineAnnealingLR", "cosine_annealing",
            "CosineAnnealingWarmRestarts", "cosine_annealing_warm_restarts", "LearningRateWiseLayer"}),
      renamed("lr_schedule.learning_rate", number, "optimizer.lr"),
      renamed("lr_schedule.base_lr", number, "optimizer.lr"),
      used("lr_schedule.warmup_epochs", number, "schedule.warmup_steps"),
      renamed("lr_schedule.warmup_steps", whole, "schedule.warmup_steps"),
      renamed("lr_schedule.total_steps", whole, "schedule.total_steps", -1),
      inert("lr_schedule", any, "it has no keys"),
      inert("optimizer", any, "it has no keys"),
      inert("runner_wrapper", any, "it has no keys"),
  });
  for (const char* key : {"warmup_ratio", "warmup_lr_init", "lr_end", "lr_end1", "lr_end2", "num_cycles", "power",
                          "decay_ratio", "decay_start_ratio", "eta_min", "lr_scale"})
    t.add({used(std::string("lr_schedule.") + key, number, std::string("schedule.") + key)});
  for (const char* key : {"decay_steps", "keep_steps", "final_steps", "decay_start_steps", "t_max", "t_0", "t_mult"})
    t.add({used(std::string("lr_schedule.") + key, whole, std::string("schedule.") + key)});
}

namespace {

void add_checkpoint_monitor(MindFormersTable& t, const std::string& at) {
  t.add({
      used(at + ".prefix", text, "checkpoint.prefix", "CKP"),
      used(at + ".directory", text, "checkpoint.layout"),
      used(at + ".save_checkpoint_steps", whole, "checkpoint.every", 1),
      used(at + ".keep_checkpoint_max", whole, "checkpoint.keep", 5),
      inert(at + ".integrated_save", boolean, "what tensor ranks hold is stored as their parts"),
      inert(at + ".async_save", any, "checkpoints are always written beside the steps"),
      inert(at + ".crc_check", boolean, "checkpoints have checksums in any case"),
      inert(at + ".saved_network", any, "it is an object of Python"),
      inert(at + ".append_info", any, "MindFormers replaces it with its own; here what a run needs is in every checkpoint"),
      used(at + ".checkpoint_format", text, "checkpoint.format", "ckpt", {"ckpt", "safetensors"}),
      used(at + ".save_network_params", boolean, "checkpoint.network", false),
      used(at + ".save_trainable_params", boolean, "checkpoint.trainable", false),
      inert(at + ".global_batch_size", whole, "it is that of the run"),
      inert(at + ".embedding_size", whole, "it is that of the model"),
      used(at + ".embedding_local_norm_threshold", number, "health.embedding_norm", 1.0),
      inert(at + ".use_checkpoint_health_monitor", boolean, "the key of that name at the top counts, in MindFormers too"),
      inert(at + ".health_ckpts_record_dir", text, "it is output_dir, in MindFormers too"),
      inert(at + ".remove_redundancy", boolean,
            "every rank's file is whole, so it is larger; MindFormers reads it with remove_redundancy: False"),
  });
  t.add_only(at + ".exception_save", boolean, {false}, "a run that is asked to stop saves first",
             "a run that fails has its last checkpoint, and makes none then", "set save_checkpoint_steps lower");
  const char* later = "checkpoints are counted in steps";
  t.add_only(at + ".save_checkpoint_seconds", whole, {0}, later, later, "set save_checkpoint_steps");
  t.add_only(at + ".keep_checkpoint_per_n_minutes", whole, {0}, later, later, "set keep_checkpoint_max");
  t.add_only(at + ".enc_key", any, {nullptr}, "checkpoints are not encrypted", "checkpoints are not encrypted");
  t.add({inert(at + ".enc_mode", text, "it counts with enc_key alone")});
}

// Adds callbacks that observe a run or a device. MindSpore's own callbacks have only the keys listed here.
void add_watching_rows(MindFormersTable& t, const std::string& at, const std::string& type,
                       const std::vector<GivenKey>& given) {
  if (type == "ColdHotExpertMonitor") {
    for (const GivenKey& k : given)
      if (k.key.starts_with(at + "."))
        t.add({k.key == at + ".type"
                   ? refused(k.key, text,
                             "MindFormers makes it by moe_config.enable_cold_hot_expert, and cannot make a listed one",
                             "leave the item out")
                   : inert(k.key, any, "its callback is refused")});
    return;
  }
  if (type == "StressTestModelMonitor") {
    for (const GivenKey& k : given)
      if (k.key.starts_with(at + "."))
        t.add({k.key == at + ".type"
                   ? refused(k.key, text, "a run starts no second training to test its machine",
                             "leave it out; `ravine check layouts` and `ravine check determinism` compare runs bit for bit")
                   : inert(k.key, any, "its callback is refused")});
    return;
  }
  const bool profiles = type == "ProfileMonitor", sums_up = type == "SummaryMonitor", clock = type == "TimeMonitor";
  const char* why = profiles || sums_up ? "its callback is refused"
                    : clock             ? "every line has the time of its step"
                                        : "it is about an Ascend device";
  for (const GivenKey& k : given) {
    const std::string name = k.key.starts_with(at + ".") ? k.key.substr(at.size() + 1) : "";
    if (name == "type" && profiles)
      t.add({refused(k.key, text, "a run has no profiler of its own", "use `ravine bench train --profile`")});
    else if (name == "type" && sums_up)
      t.add({refused(k.key, text, "no files of MindInsight are written",
                     "leave it out; tensorboard.tensorboard_dir writes loss, rate and norms")});
    else if (!name.empty() && (!clock || name == "type" || name == "data_size" || name == "data_time"))
      t.add({inert(k.key, any, why)});
  }
}

// Adds MindSpore's callback that ends a run on a signal.
void add_exit_rows(MindFormersTable& t, const std::string& at, const std::vector<GivenKey>& given) {
  if (at.starts_with("eval_")) {
    for (const GivenKey& k : given)
      if (k.key.starts_with(at + ".")) t.add({inert(k.key, any, "an evaluation has nothing to save, and ends on any signal")});
    return;
  }
  t.add({
      inert(at + ".type", text, "a run ends in good order on SIGTERM, SIGINT, SIGUSR1 or SIGHUP with it or without"),
      used(at + ".save_ckpt", boolean, "checkpoint.on_stop", true),
      inert(at + ".save_mindir", boolean, "no MindIR is exported: it is a graph for MindSpore's runtime alone"),
      used(at + ".file_name", text, "refused where a file is left that MindSpore would begin from", "Net"),
      used(at + ".directory", text, "refused where a file is left that MindSpore would begin from", "./"),
      used(at + ".sig", whole, "train.stop_signal", 15),
  });
  t.add_only(at + ".config_file", any, {nullptr}, "no file is named", "a run looks at no file of GracefulExit",
             "leave it out; `ravine stop OUTPUT_DIR` ends a run in good order");
}

// Returns why an item callbacks[7] is invalid; "" if it is valid. An item needs a type, and its predecessors in the
// list.
std::string problem_of_item(const std::string& at, const std::vector<GivenKey>& given) {
  const size_t bracket = at.find('[');
  const std::string number = at.substr(bracket + 1, at.size() - bracket - 2);
  if (number.empty() || number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos || !at.ends_with(']'))
    return "an item of the list is named by its number, from 0";
  std::set<std::string> items;
  for (const GivenKey& g : given)
    if (g.key.starts_with(at.substr(0, bracket + 1))) items.insert(item_of(g.key));
  const auto count = static_cast<int64_t>(items.size());
  if (std::stoll(number) >= count) return fmt::format("the list has {} without it", counted(count - 1, "item"));
  return value_in(given, at + ".type") ? "" : "an item of the list has a type, and this one has none";
}

}  // namespace

const std::vector<std::string>& mindformers_callbacks() {
  static const std::vector<std::string> known = {
      "MFLossMonitor", "CheckpointMonitor",    "TrainCallBack",          "MoEDropRateCallback",  "TopkBiasBalanceCallback",
      "OnRequestExit", "EvalCallBack",         "SummaryMonitor",         "ProfileMonitor",       "TimeMonitor",
      "SDCMonitor",    "StressDetectCallBack", "StressTestModelMonitor", "ColdHotExpertMonitor", "LossMonitor"};
  return known;
}

void add_mindformers_callback_rows(MindFormersTable& t, const std::vector<GivenKey>& given) {
  std::set<std::string> seen;
  for (const GivenKey& g : given) {
    if (!g.key.starts_with("callbacks[") && !g.key.starts_with("eval_callbacks[")) continue;
    const std::string at = item_of(g.key);
    if (!seen.insert(at).second) continue;
    if (const std::string problem = problem_of_item(at, given); !problem.empty()) {
      for (const GivenKey& k : given)
        if (k.key == at || k.key.starts_with(at + "."))
          t.add({refused(k.key, any, problem, "correct the number, or leave it out")});
      continue;
    }
    const Json* named = value_in(given, at + ".type");
    const std::string type = named && named->is_string() ? named->get<std::string>() : "";
    if (type == "LossMonitor") {  // MindSpore's own; it has no other key
      t.add({used(at + ".type", text, "log lines"), used(at + ".per_print_times", whole, "log.every", 1)});
    } else if (type == "MFLossMonitor") {
      t.add({used(at + ".type", text, "log lines"), used(at + ".per_print_times", whole, "log.every", 1)});
      for (const char* key :
           {"learning_rate", "micro_batch_num", "micro_batch_interleave_num", "origin_epochs", "dataset_size", "initial_epoch",
            "initial_step", "global_batch_size", "gradient_accumulation_steps", "calculate_per_token_loss"})
        t.add({inert(at + "." + key, any, "the run itself says it, in MindFormers too")});
      t.add({inert(at + ".check_for_nan_in_loss_and_grad", boolean, "the key of that name at the top counts")});
    } else if (type == "CheckpointMonitor") {
      t.add({used(at + ".type", text, "checkpoint.every")});
      add_checkpoint_monitor(t, at);
    } else if (type == "TrainCallBack") {
      t.add({used(at + ".type", text, "train.steps"), used(at + ".stop_step", whole, "train.steps")});
    } else if (type == "MoEDropRateCallback") {
      t.add({used(at + ".type", text, "log lines"),
             used(at + ".expert_num", whole, "refused where the model has another number"),
             used(at + ".capacity_factor", number, "refused where the model has another factor"),
             inert(at + ".num_layers", whole, "every layer with experts has its line"),
             inert(at + ".mtp_depth", whole,
                   "it says how many layers stand behind num_layers; every layer with experts has its line")});
    } else if (type == "TopkBiasBalanceCallback") {
      t.add({used(at + ".type", text, "moe.load_balance"), used(at + ".balance_via_topk_bias", boolean, "moe.load_balance"),
             used(at + ".topk_bias_update_rate", number, "moe.bias_update_rate")});
      for (const char* key : {"expert_num", "micro_batch_num", "gradient_accumulation_steps"})
        t.add({inert(at + "." + key, whole, "the run itself says it")});
    } else if (type == "OnRequestExit") {
      add_exit_rows(t, at, given);
    } else if (type == "EvalCallBack") {
      t.add({inert(at + ".type", text, "do_eval adds it, in MindFormers too")});
      for (const char* key : {"eval_func", "step_interval", "epoch_interval"})
        t.add({inert(at + "." + key, any, "eval_step_interval and eval_epoch_interval count")});
    } else if (type == "SummaryMonitor" || type == "ProfileMonitor" || type == "TimeMonitor" || type == "SDCMonitor" ||
               type == "StressDetectCallBack" || type == "StressTestModelMonitor" || type == "ColdHotExpertMonitor") {
      add_watching_rows(t, at, type, given);
    } else {
      for (const GivenKey& k : given)
        if (k.key.starts_with(at + "."))
          t.add({k.key == at + ".type" ? used(k.key, text, "", nullptr, mindformers_callbacks())
                                       : inert(k.key, any, "its callback is not known")});
    }
  }
}

}  // namespace ravine
