// The keys of the top level and of the sections on running: runner_config, context, parallel, recompute,
// monitor_config, ..
#include <fmt/format.h>

#include <algorithm>

#include "dialects/key_page.h"
#include "dialects/mindformers_tables.h"

namespace ravine {
namespace {

using enum KeyType;

constexpr const char* kPredict = "it counts in run_mode predict alone";
constexpr const char* kWithTuning = "it counts with auto_tune alone";
constexpr const char* kTimes = "`ravine bench train --profile` tells where time goes";
constexpr const char* kWithProfile = "it counts with profile alone";
constexpr const char* kCut = "how ranks cut a tensor follows from its shape";
constexpr const char* kNoStrategy =
    "no such file is written: here none is needed, and `ravine convert` makes whole files for a MindFormers of another layout";

void add_general_rows(MindFormersTable& t) {
  t.add({
      used("base_config", any, "all keys of the files that it names"),
      renamed("seed", whole, "train.seed", 1),
      renamed("output_dir", text, "train.output", "./output"),
      used("run_mode", text, "what is done"),
      inert("callbacks", any, "it has no items"),
      inert("eval_callbacks", any, "it has no items"),
      inert("model", any, "it has no keys"),
      used("use_parallel", boolean, "ranks", false),
      renamed("load_checkpoint", text, "model.weights", ""),
      used("resume_training", any, "checkpoint.resume", false),
      used("load_ckpt_format", text, "model.weights", "ckpt", {"ckpt", "safetensors"}),
      inert("auto_trans_ckpt", boolean, "weights of any layout are read for any other"),
      inert("transform_process_num", whole, "weights are cut while they are read, by the ranks that need them"),
      inert("src_strategy_path_or_dir", text,
            "how ranks cut a tensor follows from its shape, with which the file has to agree"),
      inert("load_ckpt_async", boolean, "nothing is compiled meanwhile"),
      inert("remove_redundancy", boolean, "a tensor is read from whichever files have it"),
      used("use_legacy", boolean, "model.config", true),
      renamed("pretrained_model_dir", text, "model.path", ""),
      used("do_eval", boolean, "train.valid_every", false),
      renamed("eval_step_interval", whole, "train.valid_every", 100),
      used("eval_epoch_interval", whole, "train.valid_every", -1),
      used("micro_batch_interleave_num", whole, "train.global_batch", 1),
      used("lr_scale", boolean, "optimizer.lr", false),
      used("lr_scale_factor", whole, "optimizer.lr", 256),
      inert("layer_scale", boolean, "MindFormers itself has no use for it in language models"),
      inert("layer_decay", number, "MindFormers itself has no use for it in language models"),
      used("use_skip_data_by_global_norm", boolean, "health.skip_norm", false),
      used("use_checkpoint_health_monitor", boolean, "health.embedding_norm", false),
      used("calculate_per_token_loss", boolean, "train.loss_average", false),
      used("check_for_nan_in_loss_and_grad", boolean, "health.stop_not_finite", false),
      inert("use_graceful_exit", boolean, "a run always ends in good order on SIGTERM, SIGINT, SIGUSR1 or SIGHUP"),
      inert("trust_remote_code", boolean, "no code that lies beside a model is run"),
      inert("register_path", text, "classes are those of this program; nothing is imported"),
      inert("autotune_per_step", whole, kWithTuning),
      inert("filepath_prefix", text, kWithTuning),
      inert("exclude_cann_cpu", boolean, "it keeps threads off the cores that a driver of Ascend uses"),
      inert("train_precision_sync", boolean, "a run repeats itself bit for bit in any case"),
      inert("infer_precision_sync", boolean, "a run repeats itself bit for bit in any case"),
      inert("postprocess_use_numpy", boolean, "it says by which code the same tokens are drawn"),
      used("input_data", any, "the prompt of run_mode predict"),
      inert("predict_batch_size", whole, "how many prompts go at once decides no text"),
      inert("modal_type", any, "it is of models that take more than text"),
      inert("adapter_id", any, kPredict),
      inert("save_file", any, kPredict),
      inert("remote_save_url", any, "it counts in ModelArts alone, a service of Huawei; files are written to output_dir"),
      inert("layers", any, "nothing in MindFormers reads it at the top"),
      inert("profile_start_step", whole, kWithProfile),
      inert("profile_stop_step", whole, kWithProfile),
      inert("profile_communication", boolean, kWithProfile),
      inert("profile_memory", boolean, kWithProfile),
      inert("profile_rank_ids", wholes, kWithProfile),
      inert("profile_pipeline", boolean, kWithProfile),
      inert("profile_level", whole, kWithProfile),
      inert("profiler_level", whole, kWithProfile),
      inert("init_start_profile", boolean, kWithProfile),
      inert("mstx", boolean, kWithProfile),
  });
  t.add_only("auto_tune", boolean, {false}, "the loader has no threads to tune",
             "no settings of the loader are tuned or written to filepath_prefix");
  t.add_only("profile", boolean, {false}, kTimes, "a run has no profiler of its own", "use `ravine bench train --profile`");
  t.add_only("only_save_strategy", boolean, {false}, "strategy files are not needed to read weights",
             "a run writes no strategy files: how ranks cut a tensor follows from its shape");
  t.add({used("ignore_data_skip", boolean, "checkpoint.data_steps", false),
         used("data_skip_steps", whole, "checkpoint.data_steps")});
  t.add_only("resume_by_last_timestamp_ckpt", boolean, {false}, "checkpoints are told apart by their steps",
             "checkpoints are told apart by their steps, not by the time of their files",
             "name the checkpoint in resume_training");
}

void add_runner_rows(MindFormersTable& t) {
  t.add({
      used("trainer.type", text, "what is trained", nullptr,
           {"CausalLanguageModelingTrainer", "GeneralTaskTrainer", "general"}),
      inert("trainer.model_name", text, "the name of a model decides nothing"),
      used("runner_config.epochs", whole, "train.steps", 1),
      renamed("runner_config.batch_size", whole, "train.micro_batch", 1),
      used("runner_config.sink_mode", any, "log.sink", true),
      used("runner_config.sink_size", whole, "log.sink", 1),
      used("runner_config.gradient_accumulation_steps", any, "train.global_batch", 1),
      inert("runner_config.num_classes", whole, "it belongs to models of images"),
      used("runner_config.stop_step", whole, "train.steps", 0),
  });
  for (const auto& [why, keys] : std::vector<std::pair<const char*, std::vector<const char*>>>{
           {"it sets a device of Ascend, or how MindSpore compiles for it",
            {"device_id", "jit_level", "jit_config.jit_level", "enable_graph_kernel", "graph_kernel_flags", "ascend_config",
             "ascend_config.parallel_speed_up_json_path", "ascend_config.ge_options", "ascend_config.jit_compile",
             "op_timeout"}},
           {"it runs on the backend that --backend names", {"device_target"}},
           {"MindSpore writes the graphs that it compiles; here nothing is compiled", {"save_graphs", "save_graphs_path"}},
           {"nothing is compiled, so nothing of it is kept or limited",
            {"enable_compile_cache", "compile_cache_path", "max_call_depth", "debug_level"}},
           {"memory is planned before the first step: `ravine plan` says how much",
            {"max_device_memory", "mempool_block_size", "variable_memory_max_size"}},
           {"the plan of a run lays out memory once, and uses it again", {"memory_optimize_level", "memory_offload"}},
           {"train.threads says how many cores compute", {"runtime_num_threads"}},
           {"a run uses the cores that its process has: bind it by taskset or mpirun", {"affinity_cpu_list"}},
           {"an error names its op in any case", {"pynative_synchronize"}}})
    for (const char* key : keys) t.add({inert(std::string("context.") + key, any, why)});
  t.add_only("context.ascend_config.precision_mode", any, {"must_keep_origin_dtype", nullptr, ""},
             "arithmetic is in the types that the keys of the model name",
             "a device does not choose types: those that the keys of the model name are kept",
             "write must_keep_origin_dtype, and set compute_dtype, layernorm_compute_type, softmax_compute_type");
  t.add({inert("context.mode", whole, "there is one way of running, whose numbers do not depend on it", 0),
         inert("context.deterministic", any, "a run repeats itself bit for bit in any case")});
}

void add_parallel_rows(MindFormersTable& t) {
  t.add({
      used("parallel.parallel_mode", any, "ranks", 1),
      used("parallel.full_batch", boolean, "train.global_batch", true),
      used("parallel.dataset_strategy", any, "train.global_batch"),
      used("parallel.gradients_mean", boolean,
           "refused where it would divide gradients by the data ranks twice, or not at all: they are those of the mean loss"),
      inert("parallel.loss_repeated_mean", boolean, "a gradient is that of the mean loss of the batch, whoever adds it up"),
      used("parallel.enable_parallel_optimizer", boolean, "parallel.zero", false),
      used("parallel.parallel_optimizer_config.gradient_accumulation_shard", boolean, "parallel.zero", false),
      inert("parallel.parallel_optimizer_config.parallel_optimizer_threshold", whole,
            "states of all parameters are divided, however small; no number changes by it"),
      inert("parallel.parallel_optimizer_config.optimizer_weight_shard_size", whole, "states are divided over all data ranks"),
      inert("parallel.enable_alltoall", boolean, "tokens always go to the ranks of their experts and back"),
      inert("parallel.search_mode", text, "layouts are not searched for; `ravine plan` compares them"),
      inert("parallel.strategy_ckpt_save_file", text, kNoStrategy),
      inert("parallel.strategy_ckpt_load_file", text, kCut),
      inert("parallel.strategy_ckpt_config.save_file", text, kNoStrategy),
      inert("parallel.strategy_ckpt_config.load_file", text, kCut),
      inert("parallel.strategy_ckpt_config.only_trainable_params", boolean, kNoStrategy),
      inert("parallel.comm_fusion", any, "gradients are added up in buckets of their own size"),
      used("parallel.pipeline_config.pipeline_interleave", boolean, "parallel.virtual", false),
      inert("parallel.pipeline_config.pipeline_scheduler", text, "the order of micro batches in a pipeline decides no number"),
      renamed("parallel_config.data_parallel", whole, "parallel.data", 1),
      renamed("parallel_config.model_parallel", whole, "parallel.tensor", 1),
      renamed("parallel_config.expert_parallel", whole, "parallel.expert", 1),
      renamed("parallel_config.pipeline_stage", whole, "parallel.pipeline", 1),
      used("parallel_config.micro_batch_num", whole, "train.global_batch", 1),
      renamed("parallel_config.use_seq_parallel", boolean, "parallel.sequence", false),
      inert("parallel_config.context_parallel_algo", text, "it counts with context_parallel alone"),
      inert("parallel_config.ulysses_degree_in_cp", whole, "it counts with context_parallel alone"),
      inert("parallel_config.optimizer_shard", any, "MindFormers itself has no use for it"),
      inert("parallel_config.gradient_aggregation_group", whole, "gradients are added up in buckets of their own size"),
      inert("parallel_config.vocab_emb_dp", boolean,
            "the table of the embedding is cut over tensor ranks, with the same numbers"),
      inert("parallel_config.mem_coeff", number, "layouts are not searched for; `ravine plan` compares them"),
      used("recompute_config.recompute", any, "train.recompute", false),
      used("recompute_config.select_recompute", any, "train.recompute", false),
      inert("recompute_config.select_comm_recompute", any, "what ranks exchange is kept or made again with its layer"),
      inert("recompute_config.parallel_optimizer_comm_recompute", boolean,
            "what ranks exchange is kept or made again with its layer"),
      inert("recompute_config.mp_comm_recompute", boolean, "what ranks exchange is kept or made again with its layer"),
      inert("recompute_config.recompute_slice_activation", boolean,
            "what is kept is cut over tensor ranks under parallel.sequence"),
      inert("recompute_config.select_recompute_exclude", any, "train.recompute decides by kind of tensor"),
      inert("recompute_config.select_comm_recompute_exclude", any, "train.recompute decides by kind of tensor"),
      inert("swap_config.layer_swap", any, "it counts with swap alone"),
      inert("swap_config.op_swap", any, "it counts with swap alone"),
      inert("swap_config.default_prefetch", whole, "it counts with swap alone"),
  });
  t.add_only("parallel.auto_pipeline", boolean, {false}, "stages are those of pipeline_stage", "stages are not searched for");
  t.add_only("parallel_config.context_parallel", whole, {1}, "a sequence lies on one rank", "a sequence is not cut over ranks",
             "use model_parallel with use_seq_parallel");
  t.add_only("parallel_config.seq_split_num", whole, {1}, "a sequence goes through a stage at once",
             "a sequence is not cut over micro batches", "leave it out; micro_batch_num fills a pipeline too");
  t.add_only("swap_config.swap", boolean, {false}, "activations are kept or made again",
             "activations are not moved to the host", "use recompute_config");
}

// Adds the patterns of names in select_recompute: feed_forward\.mul: True, or a list of layers.
void add_recompute_patterns(MindFormersTable& t, const std::vector<GivenKey>& given) {
  for (const GivenKey& g : given) {
    if (g.key.starts_with("recompute_config.select_recompute.")) t.add({used(g.key, any, "train.recompute")});
    if (g.key.starts_with("recompute_config.select_comm_recompute."))
      t.add({inert(g.key, any, "what ranks exchange is kept or made again with its layer")});
    if (g.key.starts_with("swap_config.layer_swap[") || g.key.starts_with("swap_config.op_swap["))
      t.add({inert(g.key, any, "it counts with swap alone")});
  }
}

void add_monitor_rows(MindFormersTable& t) {
  for (const char* format : {"local_loss_format", "local_norm_format", "device_local_loss_format", "device_local_norm_format",
                             "optimizer_state_format", "weight_state_format"})
    t.add({used(std::string("monitor_config.") + format, any, "log lines")});
  t.add({
      used("monitor_config.monitor_on", boolean, "log lines", false),
      inert("monitor_config.dump_path", text, "what is monitored goes to the log without files between"),
      renamed("monitor_config.target", texts, "log.monitor_target"),
      used("monitor_config.throughput_baseline", number, "log lines"),
      used("monitor_config.check_for_global_norm", boolean, "health.stop_norm", false),
      used("monitor_config.global_norm_spike_threshold", number, "health.skip_norm", 3.0),
      used("monitor_config.global_norm_spike_count_threshold", whole, "health.skip_count", 10),
      renamed("tensorboard.tensorboard_dir", text, "log.tensorboard_dir"),
      inert("tensorboard.tensorboard_queue_size", whole, "scalars are written at once"),
      used("tensorboard.log_loss_scale_to_tensorboard", boolean, "log.tensorboard_omit", false),
      used("tensorboard.log_timers_to_tensorboard", boolean, "log.tensorboard_omit", false),
      used("tensorboard.log_expert_load_to_tensorboard", boolean, "log.tensorboard_omit", false),
  });
  t.add_only("monitor_config.invert", boolean, {false}, "parameters are those that target names",
             "parameters are chosen by names that fit, not by those that do not");
  t.add({used("monitor_config.step_interval", whole, "log.monitor_every", 1)});
  t.add_only("monitor_config.print_struct", boolean, {false}, "`ravine info` lists parameters",
             "a run does not list its parameters and end", "use `ravine info`");
}

// Adds all keys of sections that do not concern this command.
void add_foreign_rows(MindFormersTable& t, const std::vector<GivenKey>& given) {
  static const std::pair<const char*, const char*> kForeign[] = {
      {"processor.", "training takes ids; a model that speaks has its tokenizer in its folder"},
      {"blip.", "`ravine convert` converts weights"},
      {"glm.", "`ravine convert` converts weights"},
      {"glm2.", "`ravine convert` converts weights"},
      {"gpt.", "`ravine convert` converts weights"},
      {"internlm.", "`ravine convert` converts weights"},
      {"llama.", "`ravine convert` converts weights"},
      {"qwen.", "`ravine convert` converts weights"},
  };
  for (const GivenKey& g : given)
    for (const auto& [prefix, reason] : kForeign)
      if (g.key.starts_with(prefix) || g.key + "." == prefix) t.add({inert(g.key, any, reason)});
}

}  // namespace

std::vector<KeySection> mindformers_key_sections() {
  std::vector<GivenKey> given;
  for (const char* rest : {"processor.*", "blip.*", "glm.*", "glm2.*", "gpt.*", "internlm.*", "llama.*", "qwen.*",
                           "model.model_config.pet_config.*", "model.model_config.rl_config.*",
                           "train_dataset_task.dataset_config.*", "eval_dataset_task.dataset_config.*"})
    given.push_back({rest, nullptr, ""});
  const std::vector<std::string>& callbacks = mindformers_callbacks();
  for (size_t i = 0; i < callbacks.size(); ++i) {
    given.push_back({fmt::format("callbacks[{}].type", i), callbacks[i], ""});
    given.push_back({fmt::format("callbacks[{}].*", i), nullptr, ""});
  }
  const MindFormersTable table = mindformers_table(given);
  std::vector<KeySection> sections{{"Keys of the top", {}}};
  for (DialectKey row : table.rows) {
    const auto only = table.only.find(row.key);
    if (only != table.only.end() && !only->second.rule.empty()) {
      std::string values;
      for (const Json& v : only->second.values) values += (values.empty() ? "" : " or ") + v.dump();
      row.reason = fmt::format("where it is {}: {}; else refused: {}", values, row.reason, only->second.rule);
    }
    std::string title = row.key.find('.') == std::string::npos ? sections[0].title : row.key.substr(0, row.key.find('.'));
    if (title.starts_with("callbacks[")) {
      title = fmt::format("`callbacks`: {}", callbacks[std::stoul(title.substr(title.find('[') + 1))]);
      row.key = "callbacks[]" + row.key.substr(row.key.find(']') + 1);
    } else if (title != sections[0].title) {
      title = fmt::format("`{}`", title);
    }
    auto at = std::find_if(sections.begin(), sections.end(), [&](const KeySection& s) { return s.title == title; });
    if (at == sections.end()) at = sections.insert(sections.end(), {title, {}});
    at->rows.push_back(std::move(row));
  }
  return sections;
}

void MindFormersTable::add(DialectTable more) {
  for (DialectKey& row : more) rows.push_back(std::move(row));
}

void MindFormersTable::add_only(const std::string& key, KeyType type, std::vector<Json> values, const std::string& reason,
                                const std::string& rule, const std::string& fix) {
  rows.push_back(inert(key, type, reason, values.front()));
  only[key] = {std::move(values), rule, fix};
}

MindFormersTable mindformers_table(const std::vector<GivenKey>& given) {
  MindFormersTable t;
  add_general_rows(t);
  add_runner_rows(t);
  add_parallel_rows(t);
  add_recompute_patterns(t, given);
  add_monitor_rows(t);
  add_mindformers_update_rows(t);
  add_mindformers_data_rows(t, given);
  add_mindformers_callback_rows(t, given);
  add_mindformers_model_rows(t, given);
  add_mindformers_expert_rows(t);
  add_foreign_rows(t, given);
  // A key without a value keeps its default.
  for (DialectKey& row : t.rows)
    for (const GivenKey& g : given)
      if (g.key == row.key && g.value.is_null()) row.type = any;
  return t;
}

}  // namespace ravine
