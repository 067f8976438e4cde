// The translation of MindFormers' YAML and flags, key by key.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/error.h"
#include "config/yaml_json.h"
#include "dialects/mindformers.h"
#include "dialects/mindformers_tables.h"
#include "dialects/reverse.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_dialects_mindformers {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

const char* const kYaml = R"(seed: 42
output_dir: './output'
run_mode: 'train'
load_checkpoint: ''
trainer: {type: CausalLanguageModelingTrainer, model_name: 'llama_tiny'}
runner_config: {epochs: 1, batch_size: 4, sink_mode: False, sink_size: 1}
runner_wrapper: {type: MFTrainOneStepCell, scale_sense: 1.0, use_clip_grad: True, max_grad_norm: 1.0, local_norm: False}
optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.1}
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-3, lr_end: 1.e-5, warmup_ratio: 0.1, total_steps: -1}
train_dataset: &train_dataset
  data_loader: {type: MindDataset, dataset_dir: "DATA", shuffle: False}
  input_columns: ["input_ids"]
  num_parallel_workers: 1
train_dataset_task: {type: CausalLanguageModelDataset, dataset_config: *train_dataset}
callbacks:
  - type: MFLossMonitor
  - {type: CheckpointMonitor, prefix: "tiny", save_checkpoint_steps: 10, keep_checkpoint_max: 3, checkpoint_format: 'safetensors'}
parallel: {parallel_mode: 0, full_batch: False}
parallel_config: {data_parallel: 1, model_parallel: 1, pipeline_stage: 1, micro_batch_num: 1}
model:
  arch: {type: LlamaForCausalLM}
  model_config:
    type: LlamaConfig
    seq_length: 32
    hidden_size: 64
    num_layers: 2
    num_heads: 4
    n_kv_heads: 2
    vocab_size: 256
    intermediate_size: 128
    pad_token_id: 0
    compute_dtype: "float32"
)";

struct Job {
  Job() {
    std::ofstream(folder / "data") << "x";
    std::ofstream(folder / "weights") << "x";
    std::string text = kYaml;
    text.replace(text.find("DATA"), 4, folder / "data");
    std::ofstream(folder / "run.yaml") << text;
  }
  MindFormersLine line(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--config", folder / "run.yaml"});
    return read_mindformers_line(placed(words));
  }
  Translation translated(const std::vector<std::string>& words, int64_t ranks = 0) const {
    MindFormersFacts facts{.ranks = ranks, .data = [](const std::string&, const std::vector<std::string>&) {
                             return MindFormersFacts::Data{80, 33};
                           }};
    return translate_mindformers(line(words), facts);
  }
  // The last value of each option.
  std::map<std::string, std::string> settings(const std::vector<std::string>& words, int64_t ranks = 0) const {
    std::map<std::string, std::string> out;
    const Translation t = translated(words, ranks);
    for (const Setting& s : t.settings()) out[s.key] = s.value;
    return out;
  }
  std::string refused(const std::vector<std::string>& words, int64_t ranks = 0) const {
    try {
      refuse_all(translated(words, ranks));
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }
  TemporaryFolder folder;
};

TEST(MindFormers, ComesToARun) {
  const Job job;
  EXPECT_EQ(job.refused({}), "");
  const std::map<std::string, std::string> s = job.settings({});
  for (const auto& [option, value] : std::map<std::string, std::string>{{"train.steps", "20"},
                                                                        {"train.global_batch", "4"},
                                                                        {"train.micro_batch", "4"},
                                                                        {"train.loss_average", "micro"},
                                                                        {"data.sequence_length", "32"},
                                                                        {"data.order", "mindspore"},
                                                                        {"data.shuffle", "false"},
                                                                        {"optimizer.type", "adamw"},
                                                                        {"optimizer.betas", "[0.9, 0.95]"},
                                                                        {"optimizer.clip_norm", "1.0"},
                                                                        {"schedule.type", "CosineWithWarmUpLR"},
                                                                        {"schedule.total_steps", "20"},
                                                                        {"schedule.warmup_ratio", "0.1"},
                                                                        {"precision.loss_scale", "1.0"},
                                                                        {"precision.compute", "f32"},
                                                                        {"checkpoint.layout", "mindformers"},
                                                                        {"checkpoint.prefix", "tiny"},
                                                                        {"checkpoint.every", "10"},
                                                                        {"checkpoint.keep", "3"},
                                                                        {"checkpoint.format", "safetensors"},
                                                                        {"checkpoint.resume", "none"},
                                                                        {"log.style", "mindformers"},
                                                                        {"train.recompute", "none"},
                                                                        {"data.pad", "0"},
                                                                        {"train.seed", "42"}})
    EXPECT_EQ(s.count(option) ? s.at(option) : "(none)", value) << option;
  const Json model = json_of(*load_yaml(s.at("model.config"), "model", false));
  EXPECT_EQ(model["model_type"], "llama");
  EXPECT_EQ(model["num_key_value_heads"], 2);
  EXPECT_EQ(model["initializer_range"], 0.01) << "LlamaConfig's own";
  (void)config_of(job.translated({}));
}

// A change of each used key of the table changes an option, or the key is refused by its name.
TEST(MindFormers, EveryUsedKeyCounts) {
  const Job job;
  const std::string weights = job.folder / "weights", data = job.folder / "data";
  const std::vector<std::string> skip = {"--use_skip_data_by_global_norm", "True", "--monitor_config.monitor_on", "True"};
  const std::vector<std::string> semi = {"--use_parallel", "True", "--parallel.parallel_mode", "1"};
  const std::vector<std::string> pipe = {"--use_parallel",
                                         "True",
                                         "--parallel.parallel_mode",
                                         "1",
                                         "--parallel_config.pipeline_stage",
                                         "2",
                                         "--parallel_config.micro_batch_num",
                                         "2"};
  const std::vector<std::string> moe = {"--moe_config.expert_num",     "4",           "--moe_config.num_experts_chosen", "2",
                                        "--moe_config.routing_policy", "TopkRouterV2"};
  const std::vector<std::string> deep = {"--model.model_config.type", "DeepseekV3Config"};
  const std::vector<std::string> llama3 = {
      "--model.model_config.extend_method", "LLAMA3", "--model.model_config.scaling_factor",
      R"({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8})"};
  const std::vector<std::string> yarn = {
      "--model.model_config.extend_method", "YARN", "--model.model_config.scaling_factor",
      R"({"factor": 8.0, "beta_slow": 1.0, "beta_fast": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0})"};
  const std::vector<std::string> monitor = {"--monitor_config.monitor_on", "True"};
  const std::vector<std::string> eval = {
      "--do_eval", "True", "--eval_dataset.data_loader.type", "MindDataset", "--eval_dataset.data_loader.dataset_dir", data};
  const std::vector<std::string> megatron = {"--train_dataset.data_loader.type",
                                             "BlendedMegatronDatasetDataLoader",
                                             "--train_dataset.data_loader.config.data_path",
                                             "[\"a\"]",
                                             "--train_dataset.data_loader.sizes",
                                             "[80,0,0]"};
  const std::vector<std::string> moving = {
      "--runner_wrapper.scale_sense",
      R"({"type": "AdaptiveLossScaleUpdateCell", "loss_scale_value": 1024, "scale_factor": 2, "scale_window": 20})"};
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    return a.insert(a.end(), b.begin(), b.end()), a;
  };
  struct Flip {
    std::string value;
    std::vector<std::string> beside = {};
  };
  const std::string m = "model.model_config.", o = "optimizer.", l = "lr_schedule.", r = "runner_wrapper.", c = "callbacks[1].",
                    x = "moe_config.", p = "parallel_config.";
  const auto optimizer = [](const std::string& type) { return std::vector<std::string>{"--optimizer.type", type}; };
  const auto schedule = [](const std::string& type) { return std::vector<std::string>{"--lr_schedule.type", type}; };
  const std::map<std::string, Flip> flips = {
      {"seed", {"7"}},
      {"output_dir", {"other"}},
      {"ignore_data_skip", {"True", {"--load_checkpoint", weights, "--resume_training", "True"}}},
      {"data_skip_steps", {"3", {"--load_checkpoint", weights, "--resume_training", "True"}}},
      {"run_mode", {"predict"}},
      {"train_dataset.data_loader.dataset_files", {weights, {"--train_dataset_dir="}}},
      {"eval_dataset.data_loader.dataset_files",
       {weights, {"--do_eval", "True", "--eval_dataset.data_loader.type", "MindDataset"}}},
      {"use_parallel", {"True", {"--parallel_config.data_parallel", "2", "--parallel.parallel_mode", "1"}}},
      {"load_checkpoint", {weights}},
      {"load_ckpt_format", {"bin"}},
      {"parallel.gradients_mean", {"True", with(semi, {"--parallel_config.data_parallel", "2"})}},
      {"resume_training", {"True", {"--load_checkpoint", weights}}},
      {"use_legacy", {"False", {"--callbacks[1].checkpoint_format", "ckpt"}}},
      {"pretrained_model_dir", {"/no/such"}},
      {"do_eval", {"True", {"--eval_dataset.data_loader.type", "MindDataset", "--eval_dataset.data_loader.dataset_dir", data}}},
      {"eval_step_interval", {"5", eval}},
      {"eval_epoch_interval", {"2", with(eval, {"--eval_step_interval", "-1"})}},
      {"micro_batch_interleave_num", {"2"}},
      {"lr_scale", {"True"}},
      {"lr_scale_factor", {"2", {"--lr_scale", "True"}}},
      {"use_skip_data_by_global_norm", {"True"}},
      {"use_checkpoint_health_monitor", {"True", {"--runner_wrapper.local_norm", "True"}}},
      {"calculate_per_token_loss", {"True"}},
      {"check_for_nan_in_loss_and_grad", {"True"}},
      {"runner_config.epochs", {"3"}},
      {"runner_config.batch_size", {"2"}},
      {"runner_config.sink_mode", {"True"}},
      {"runner_config.sink_size", {"2", {"--sink_mode", "True"}}},
      {"runner_config.gradient_accumulation_steps", {"2", semi}},
      {"runner_config.stop_step", {"7"}},
      {"parallel.parallel_mode", {"1", {"--use_parallel", "True", "--parallel_config.data_parallel", "2"}}},
      {"parallel.full_batch",
       {"False", with(semi, {"--parallel_config.data_parallel", "2", "--parallel.dataset_strategy", "[[3,1]]",
                             "--parallel.full_batch", "True"})}},
      {"parallel.dataset_strategy", {"[[3,1]]", with(semi, {"--parallel_config.data_parallel", "2"})}},
      {"parallel.enable_parallel_optimizer", {"True", with(semi, {"--parallel_config.data_parallel", "2"})}},
      {p + "data_parallel", {"2", semi}},
      {p + "model_parallel", {"2", semi}},
      {p + "expert_parallel", {"2", with(semi, {"--parallel_config.data_parallel", "2"})}},
      {p + "pipeline_stage", {"2", with(semi, {"--parallel_config.micro_batch_num", "2"})}},
      {p + "micro_batch_num", {"4", pipe}},
      {p + "use_seq_parallel", {"True", with(semi, {"--parallel_config.model_parallel", "2"})}},
      {"recompute_config.recompute", {"True"}},
      {"recompute_config.select_recompute", {"True"}},
      {"monitor_config.monitor_on", {"True", {"--monitor_config.local_norm_format", "log"}}},
      {"monitor_config.local_loss_format", {"log", monitor}},
      {"monitor_config.local_norm_format", {"log", monitor}},
      {"monitor_config.device_local_loss_format", {"log", monitor}},
      {"monitor_config.device_local_norm_format", {"log", monitor}},
      {"monitor_config.optimizer_state_format", {"log", monitor}},
      {"monitor_config.weight_state_format", {"log", monitor}},
      {"monitor_config.target", {"[\"norm\"]", with(monitor, {"--monitor_config.local_norm_format", "log"})}},
      {"monitor_config.throughput_baseline", {"100", monitor}},
      {"monitor_config.step_interval", {"5", with(monitor, {"--monitor_config.local_norm_format", "log"})}},
      {"monitor_config.check_for_global_norm", {"True", monitor}},
      {"monitor_config.global_norm_spike_threshold", {"9.5", skip}},
      {"monitor_config.global_norm_spike_count_threshold", {"4", skip}},
      {"tensorboard.tensorboard_dir", {"tb"}},
      {"tensorboard.log_loss_scale_to_tensorboard", {"True", {"--tensorboard.tensorboard_dir", "tb"}}},
      {"tensorboard.log_timers_to_tensorboard", {"True", {"--tensorboard.tensorboard_dir", "tb"}}},
      {"tensorboard.log_expert_load_to_tensorboard", {"True", {"--tensorboard.tensorboard_dir", "tb"}}},
      {"parallel.pipeline_config.pipeline_interleave",
       {"True", with(pipe, {"--model.model_config.num_layers", "4", "--model.model_config.pp_interleave_num", "2"})}},
      {"parallel.parallel_optimizer_config.gradient_accumulation_shard",
       {"True", with(semi, {"--parallel_config.data_parallel", "2", "--parallel.enable_parallel_optimizer", "True",
                            "--runner_config.gradient_accumulation_steps", "2"})}},
      {r + "type", {"MFPipelineWithLossScaleCell", {"--runner_wrapper.use_clip_grad", "null"}}},
      {r + "use_clip_grad", {"False"}},
      {r + "max_grad_norm", {"0.5"}},
      {r + "scale_sense", {"8"}},
      {r + "scale_sense.type", {"DynamicLossScaleUpdateCell", moving}},
      {r + "scale_sense.loss_scale_value", {"4", moving}},
      {r + "scale_sense.scale_factor", {"4", moving}},
      {r + "scale_sense.scale_window", {"40", moving}},
      {r + "scale_sense.max_scale_window", {"500", moving}},
      {r + "scale_sense.min_scale_window", {"10", moving}},
      {r + "local_norm", {"True"}},
      {o + "type", {"Lamb"}},
      {o + "learning_rate", {"0.5", {"--lr_schedule.learning_rate", "null"}}},
      {o + "betas", {"[0.8,0.9]"}},
      {o + "beta1", {"0.5", with(optimizer("Came"), {"--optimizer.betas", "null"})}},
      {o + "beta2", {"0.5", {"--optimizer.betas", "null"}}},
      {o + "beta3", {"0.5", with(optimizer("Came"), {"--optimizer.betas", "null"})}},
      {o + "eps", {"1e-5"}},
      {o + "weight_decay", {"0.2"}},
      {o + "momentum", {"0.5", with(optimizer("Momentum"), {"--optimizer.betas", "null", "--optimizer.eps", "null"})}},
      {o + "dampening", {"0.5", with(optimizer("SGD"), {"--optimizer.betas", "null", "--optimizer.eps", "null"})}},
      {o + "nesterov", {"True", with(optimizer("SGD"), {"--optimizer.betas", "null", "--optimizer.eps", "null"})}},
      {o + "use_nesterov", {"True", with(optimizer("Momentum"), {"--optimizer.betas", "null", "--optimizer.eps", "null"})}},
      {o + "clip_threshold", {"2.0", with(optimizer("Came"), {"--optimizer.betas", "null"})}},
      {o + "decay_rate", {"0.5", with(optimizer("Came"), {"--optimizer.betas", "null"})}},
      {o + "scale_parameter", {"True", with(optimizer("Came"), {"--optimizer.betas", "null"})}},
      {o + "relative_step", {"False", with(optimizer("AdaFactor"), {"--optimizer.betas", "null"})}},
      {o + "warmup_init", {"True", with(optimizer("AdaFactor"), {"--optimizer.betas", "null"})}},
      {o + "accum", {"0.2", with(optimizer("Adagrad"), {"--optimizer.betas", "null"})}},
      {l + "type", {"LinearWithWarmUpLR"}},
      {l + "learning_rate", {"0.002"}},
      {l + "base_lr", {"0.3", with(schedule("CosineAnnealingLR"), {"--lr_schedule.learning_rate", "null"})}},
      {l + "warmup_epochs", {"0.5"}},
      {l + "warmup_steps", {"3"}},
      {l + "total_steps", {"100"}},
      {l + "warmup_ratio", {"0.2"}},
      {l + "warmup_lr_init", {"1e-6"}},
      {l + "lr_end", {"1e-6"}},
      {l + "lr_end1", {"1e-6"}},
      {l + "lr_end2", {"1e-6"}},
      {l + "num_cycles", {"2.5"}},
      {l + "power", {"2.5"}},
      {l + "decay_ratio", {"0.5"}},
      {l + "decay_start_ratio", {"0.5"}},
      {l + "eta_min", {"1e-6"}},
      {l + "lr_scale", {"0.5"}},
      {l + "decay_steps", {"5"}},
      {l + "keep_steps", {"5"}},
      {l + "final_steps", {"5"}},
      {l + "decay_start_steps", {"5"}},
      {l + "t_max", {"5"}},
      {l + "t_0", {"5"}},
      {l + "t_mult", {"2"}},
      {c + "type", {"MFLossMonitor"}},
      {c + "prefix", {"other"}},
      {c + "directory", {"/x"}},
      {c + "save_checkpoint_steps", {"5"}},
      {c + "keep_checkpoint_max", {"9"}},
      {c + "checkpoint_format", {"ckpt"}},
      {c + "save_network_params", {"True"}},
      {c + "save_trainable_params", {"True"}},
      {c + "embedding_local_norm_threshold",
       {"0.3", {"--use_checkpoint_health_monitor", "True", "--runner_wrapper.local_norm", "True"}}},
      {"callbacks[0].type", {"NoSuchMonitor"}},
      {"callbacks[0].per_print_times", {"5"}},
      {m + "type", {"Qwen2Config"}},
      {m + "model_type", {"qwen2", {"--model.model_config.type", "null"}}},
      {m + "architectures", {"[\"Qwen2ForCausalLM\"]", {"--model.model_config.type", "null"}}},
      {m + "seq_length", {"16"}},
      {m + "max_position_embedding", {"64"}},
      {m + "max_position_embeddings", {"64"}},
      {m + "multiple_of", {"64", {"--model.model_config.intermediate_size", "null"}}},
      {m + "ffn_dim_multiplier", {"3.0", {"--model.model_config.intermediate_size", "null"}}},
      {m + "qkv_has_bias", {"True"}},
      {m + "add_qkv_bias", {"True"}},
      {m + "attention_bias", {"True"}},
      {m + "attn_proj_has_bias", {"True"}},
      {m + "ignore_token_id", {"-1"}},
      {m + "compute_dtype", {"bfloat16"}},
      {m + "extend_method", {"PI", {"--model.model_config.scaling_factor", "4.0"}}},
      {m + "scaling_factor", {"4.0", {"--model.model_config.extend_method", "PI"}}},
      {m + "attention_dropout", {"0.1"}},
      {m + "hidden_dropout", {"0.1"}},
      {m + "pp_interleave_num",
       {"2", with(pipe, {"--model.model_config.num_layers", "4", "--parallel.pipeline_config.pipeline_interleave", "True"})}},
      {m + "offset", {"[1,-1]", pipe}},
      {m + "input_sliced_sig", {"True"}},
      {m + "calculate_per_token_loss", {"True"}},
      {m + "checkpoint_name_or_path", {weights}},
      {m + "hidden_size", {"128"}},
      {m + "num_layers", {"3"}},
      {m + "num_hidden_layers", {"3", {"--model.model_config.num_layers", "null"}}},
      {m + "num_heads", {"8"}},
      {m + "num_attention_heads", {"8", {"--model.model_config.num_heads", "null"}}},
      {m + "n_kv_heads", {"4"}},
      {m + "num_query_groups", {"4", {"--model.model_config.n_kv_heads", "null"}}},
      {m + "num_key_value_heads", {"4", {"--model.model_config.n_kv_heads", "null"}}},
      {m + "intermediate_size", {"256"}},
      {m + "ffn_hidden_size", {"256", {"--model.model_config.intermediate_size", "null"}}},
      {m + "vocab_size", {"300"}},
      {m + "padded_vocab_size", {"300", {"--model.model_config.vocab_size", "null"}}},
      {m + "rms_norm_eps", {"1e-3"}},
      {m + "layernorm_epsilon", {"1e-3"}},
      {m + "theta", {"5e5"}},
      {m + "rotary_base", {"5e5"}},
      {m + "rope_theta", {"5e5"}},
      {m + "head_dim", {"8"}},
      {m + "kv_channels", {"8"}},
      {m + "tie_word_embeddings", {"True"}},
      {m + "init_method_std", {"0.5"}},
      {m + "initializer_range", {"0.5"}},
      {m + "bos_token_id", {"3"}},
      {m + "eos_token_id", {"3"}},
      {m + "pad_token_id", {"3"}},
      {x + "expert_num", {"4"}},
      {x + "num_experts_chosen", {"3", moe}},
      {x + "capacity_factor", {"2.5", moe}},
      {x + "aux_loss_types", {"[\"device\"]", with(moe, {"--moe_config.aux_loss_factors", "[0.1]"})}},
      {x + "aux_loss_factors", {"[0.1]", with(moe, {"--moe_config.aux_loss_types", "[\"expert\"]"})}},
      {x + "z_loss_factor", {"0.1", moe}},
      {x + "use_gating_sigmoid", {"True", moe}},
      {x + "topk_method", {"noaux_tc", moe}},
      {x + "balance_via_topk_bias", {"True", moe}},
      {x + "topk_bias_update_rate", {"0.5", with(moe, {"--moe_config.balance_via_topk_bias", "True"})}},
      {x + "enable_sdrop", {"True", moe}},
      {x + "first_k_dense_replace", {"1", moe}},
      {x + "moe_intermediate_size", {"64", moe}},
      {x + "shared_expert_num", {"1", moe}},
      {x + "use_gmm", {"True", moe}},
      {"train_dataset.data_loader.type", {"BlendedMegatronDatasetDataLoader"}},
      {"train_dataset.data_loader.dataset_dir", {weights}},
      {"train_dataset.data_loader.shuffle", {"True"}},
      {"train_dataset.data_loader.num_samples", {"40"}},
      {"train_dataset.data_loader.config.data_path", {"[\"b\"]", megatron}},
      {"train_dataset.data_loader.config.seq_length", {"16", megatron}},
      {"train_dataset.data_loader.config.split", {"9,1", megatron}},
      {"train_dataset.data_loader.config.eod", {"5", megatron}},
      {"train_dataset.data_loader.config.eod_mask_loss", {"True", megatron}},
      {"train_dataset.data_loader.config.reset_position_ids", {"True", megatron}},
      {"train_dataset.data_loader.config.reset_attention_mask", {"True", megatron}},
      {"train_dataset.data_loader.config.create_compressed_eod_mask", {"True", megatron}},
      {"train_dataset.repeat", {"2"}},

      {"train_dataset.data_loader.sizes", {"[40,0,0]", megatron}},
      {"train_dataset.data_loader.config.seed", {"3", megatron}},
      {"train_dataset.input_columns", {"[\"text\"]"}},
      {"eval_dataset.input_columns", {"[\"text\"]"}},
      {"train_dataset_task.type", {"Other"}},
      {"eval_dataset_task.type", {"Other"}},
      {"eval_dataset.data_loader.num_samples", {"8", eval}},
      {"eval_dataset.data_loader.config.data_path",
       {"[\"b\"]", with(eval, {"--eval_dataset.data_loader.type", "BlendedMegatronDatasetDataLoader",
                               "--eval_dataset.data_loader.config.data_path", "[\"a\"]"})}},
      {m + "position_embedding_type", {"none"}},
      {m + "scaling_factor.factor", {"4.0", llama3}},
      {m + "scaling_factor.low_freq_factor", {"2.0", llama3}},
      {m + "scaling_factor.high_freq_factor", {"5.0", llama3}},
      {m + "scaling_factor.original_max_position_embeddings", {"16", llama3}},
      {m + "scaling_factor.beta_slow", {"2.0", yarn}},
      {m + "scaling_factor.beta_fast", {"16.0", yarn}},
      {m + "scaling_factor.mscale", {"0.5", yarn}},
      {m + "scaling_factor.mscale_all_dim", {"0.5", yarn}},
      {m + "n_routed_experts", {"8", deep}},
      {m + "num_moe_experts", {"8", deep}},
      {m + "num_experts", {"8", deep}},
      {m + "num_experts_per_tok", {"3", deep}},
      {m + "untie_embeddings_and_output_weights", {"False"}},
      {m + "qk_layernorm", {"True"}},
      {m + "moe_router_topk", {"3", deep}},
      {m + "moe_intermediate_size", {"64", deep}},
      {m + "moe_ffn_hidden_size", {"64", deep}},
      {m + "n_shared_experts", {"1", deep}},
      {m + "n_group", {"2", deep}},
      {m + "moe_router_num_groups", {"2", deep}},
      {m + "topk_group", {"1", deep}},
      {m + "moe_router_group_topk", {"1", deep}},
      {m + "routed_scaling_factor", {"2.5", deep}},
      {m + "moe_router_topk_scaling_factor", {"2.5", deep}},
      {m + "norm_topk_prob", {"False", deep}},
      {m + "first_k_dense_replace", {"1", deep}},
      {m + "router_aux_loss_coef", {"0.1", deep}},
      {m + "moe_aux_loss_coeff", {"0.1", deep}},
      {m + "decoder_sparse_step", {"1", {"--model.model_config.type", "Qwen3MoeConfig"}}},
      {m + "kv_lora_rank", {"16", deep}},
      {m + "q_lora_rank", {"16", deep}},
      {m + "qk_rope_head_dim", {"8", deep}},
      {m + "qk_nope_head_dim", {"8", deep}},
      {m + "v_head_dim", {"8", deep}},
      {x + "n_group", {"2", moe}},
      {x + "topk_group", {"2", moe}},
      {x + "norm_topk_prob", {"False", moe}},
      {x + "routed_scaling_factor", {"2.5", moe}},
      {x + "use_shared_expert_gating", {"True", moe}},
      {x + "routing_policy", {"TopkRouterV1", moe}},
      {x + "router_dense_type", {"bfloat16", moe}},
      {m + "router_dense_type", {"bfloat16", moe}},
      {m + "use_flash_attention", {"True"}},
      {m + "use_fused_rope", {"True"}},
      {m + "apply_rope_fusion", {"True"}},
      {m + "use_fused_swiglu", {"True"}},
      {m + "bias_swiglu_fusion", {"True"}},
      {m + "layernorm_compute_type", {"bfloat16"}},
      {m + "layernorm_compute_dtype", {"float16"}},
      {m + "softmax_compute_type", {"bfloat16"}},
      {m + "softmax_compute_dtype", {"bfloat16"}},
      {m + "rotary_dtype", {"bfloat16"}},
      {m + "embedding_init_type", {"bfloat16"}},
      {m + "param_init_type", {"bfloat16"}},
      {m + "params_dtype", {"float16"}},
      {"eval_dataset.data_loader.dataset_dir", {weights, eval}},
      {"eval_dataset.data_loader.type", {"BlendedMegatronDatasetDataLoader", eval}}};
  // Keys that are not tried: they repeat another key, follow from a class above, or change no option.
  const std::vector<std::string> others = {"base_config", "input_data", "model.model_config", "metric", "trainer.type"};
  std::vector<std::string> missing;
  const MindFormersTable table = mindformers_table(read_mindformers_line(placed({"--config", job.folder / "run.yaml"})).given);
  for (const DialectKey& row : table.rows) {
    if (row.status != KeyStatus::used || std::find(others.begin(), others.end(), row.key) != others.end()) continue;
    const auto it = flips.find(row.key);
    if (it == flips.end()) {
      missing.push_back(row.key);
      continue;
    }
    const std::vector<std::string> flag = {"--" + row.key, it->second.value};
    const auto plain = job.settings(it->second.beside), flipped = job.settings(with(it->second.beside, flag));
    EXPECT_TRUE(plain != flipped || !job.refused(with(it->second.beside, flag)).empty())
        << row.key << "=" << it->second.value << " changes nothing";
  }
  std::string list;
  for (const std::string& key : missing) list += key + " ";
  EXPECT_EQ(list, "") << "used, and tried nowhere";
}

TEST(MindFormers, RefusesByName) {
  const Job job;
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"--run_mode", "trian"}, {"trian", "finetune"}},
           {{"--runner_config.no_such_key", "3"}, {"runner_config.no_such_key", "no such key"}},
           {{"--optimizer.beta", "3"}, {"optimizer.beta"}},
           {{"--callbacks[0].type", "NoSuchMonitor"}, {"NoSuchMonitor"}},
           {{"--callbacks[1].no_such_key", "3"}, {"callbacks[1].no_such_key"}},
           {{"--runner_wrapper.max_grad_norm", "0"}, {"max_grad_norm", "above 0"}},
           {{"--model.model_config.num_heads", "3"}, {"num_heads", "64"}},
           {{"--model.model_config.n_kv_heads", "3"}, {"n_kv_heads", "evenly"}},
           {{"--parallel_config.context_parallel", "2"}, {"context_parallel", "not cut over ranks"}},
           {{"--swap_config.swap", "True"}, {"swap"}},
           {{"--profile", "True"}, {"profile", "bench"}},
           {{"--callbacks[2].type", "ProfileMonitor"}, {"callbacks[2].type", "bench train --profile"}},
           {{"--callbacks[1].exception_save", "True"}, {"exception_save", "save_checkpoint_steps"}},
           {{"--resume_training", "True"}, {"load_checkpoint"}},
           {{"--load_checkpoint", "/no/such"}, {"/no/such"}},
           {{"--runner_config.gradient_accumulation_steps", "0"}, {"gradient_accumulation_steps"}},
           {{"--runner_config.epochs", "two"}, {"epochs", "two"}},
           {{"--model.model_config.type", "ChatGLM2Config"}, {"ChatGLM2Config", "LlamaConfig"}},
           {{"--use_checkpoint_health_monitor", "True"}, {"local_norm"}},
           {{"--model.model_config.num_hidden_layers", "1"}, {"num_hidden_layers is 1, and num_layers 2", "two names"}},
           {{"--model.model_config.rope_theta", "5", "--model.model_config.theta", "6"}, {"rope_theta", "theta 6"}},
           {{"--model.model_config.pet_config.pet_type", "lora"}, {"pet_type", "lora.rank"}},
           {{"--model.model_config.hidden_act", "gelu"}, {"hidden_act", "silu"}},
           {{"--runner_wrapper.scale_sense", "{\"loss_scale_value\": 4}"}, {"scale_sense has no type"}},
           {{"--runner_wrapper.type", "MFPipelineWithLossScaleCell"}, {"MFPipelineWithLossScaleCell", "semi-automatic"}},
           {{"--callbacks[2].type", "CheckpointMonitor"}, {"two callbacks are CheckpointMonitor"}},
           {{"--callbacks[1].prefix", "a/b"}, {"prefix is a/b", "slash"}},
           {{"--callbacks[1].remove_redundancy", "True", "--callbacks[1].checkpoint_format", "ckpt"}, {"remove_redundancy"}},
           {{"--callbacks[99].per_print_times", "5"}, {"callbacks[99].per_print_times", "the list has"}},
           {{"--callbacks[99].type", "MFLossMonitor"}, {"callbacks[99].type", "the list has"}},
           {{"--callbacks[1x].prefix", "a"}, {"callbacks[1x].prefix", "by its number"}},
           {{"--callbacks[-1].prefix", "a"}, {"callbacks[-1].prefix", "by its number"}},
           {{"--callbacks[2].prefix", "a"}, {"callbacks[2].prefix", "has a type"}},
           {{"--runner_wrapper.scale_sense", "0"}, {"scale_sense is 0", "above 0"}},
           {{"--runner_wrapper.scale_sense", "{\"type\": \"FixedLossScaleUpdateCell\", \"loss_scale_value\": 0}"},
            {"loss_scale_value is 0", "above 0"}},
           {{"--train_dataset.repeat", "0"}, {"repeat is 0", "1 or more"}},
           {{"--micro_batch_interleave_num", "0"}, {"micro_batch_interleave_num is 0", "1 or more"}},
           {{"--parallel_config.data_parallel", "-2"}, {"data_parallel is -2", "1 or more"}},
           {{"--src_strategy_path_or_dir", "nope"}, {"no nope", "strategy"}},
           {{"--lr_schedule", "{\"type\": \"ConstantWarmUpLR\"}"}, {"no learning_rate"}},
           {{"--optimizer", "{\"type\": \"Momentum\"}"}, {"no momentum"}},
           {{"--monitor_config.monitor_on", "True", "--monitor_config.local_norm_format", "log", "--monitor_config.target",
             "[\"(\"]"},
            {"monitor_config.target", "regular expressions"}},
           {{"--callbacks", "[\"MFLossMonitor\"]"}, {"callbacks is [\"MFLossMonitor\"]", "type: MFLossMonitor"}},
           {{"--monitor_config.monitor_on", "True", "--monitor_config.local_norm_format", "csv"},
            {"csv", "log or tensorboard"}},
           {{"--moe_config.expert_num", "4", "--moe_config.first_k_dense_replace", "True"}, {"first_k_dense_replace is true"}},
           {{"--moe_config.expert_num", "4", "--moe_config.first_k_dense_replace", "1"}, {"first_k_dense_replace is 1"}},
           {{"--use_skip_data_by_global_norm", "True", "--runner_wrapper.use_clip_grad", "False"}, {"use_clip_grad"}},
           {{"--use_skip_data_by_global_norm", "True", "--monitor_config.check_for_global_norm", "True"},
            {"check_for_global_norm", "use_skip_data_by_global_norm"}}}) {
    const std::string error = job.refused(words);
    for (const std::string& w : said) EXPECT_TRUE(says(error, w)) << w << " in: " << error;
  }
  EXPECT_TRUE(says(job.refused({}, 2), "use_parallel"));
  EXPECT_TRUE(
      says(job.refused({"--use_parallel", "True", "--parallel.parallel_mode", "1", "--parallel_config.data_parallel", "2"}, 4),
           "number of ranks"));
  const std::vector<std::string> semi = {
      "--use_parallel", "True", "--parallel.parallel_mode", "1", "--parallel_config.data_parallel", "2"};
  for (const auto& [strategy, right] : {std::pair{"[[2, 1]]", true},
                                        {"[[2, 1], [2, 1, 1]]", true},
                                        {"[[2, 2]]", false},
                                        {"[[2, 1], [1, 1]]", false},
                                        {"[[2, 1], []]", false},
                                        {"2", false}}) {
    std::vector<std::string> words = semi;
    words.insert(words.end(), {"--parallel.full_batch", "False", "--parallel.dataset_strategy", strategy});
    EXPECT_EQ(says(job.refused(words, 2), "each of its lists is [2, 1, ..]"), !right && std::string(strategy) != "2")
        << strategy;
  }
  for (const auto& [size, right] : {std::pair{"-1", true}, {"1", true}, {"2", true}, {"3", false}}) {
    std::vector<std::string> words = semi;
    words.insert(words.end(), {"--parallel.parallel_optimizer_config.optimizer_weight_shard_size", size});
    EXPECT_EQ(job.refused(words, 2).empty(), right) << size << job.refused(words, 2);
  }
  std::vector<std::string> own_slices = semi;
  own_slices.insert(own_slices.end(), {"--parallel.full_batch", "False"});
  const Translation t = job.translated(own_slices, 2);
  EXPECT_TRUE(t.notices().size() == 1 && says(t.notices()[0], "dataset_strategy beside full_batch: False, here [[2, 1]]"));
  const std::string both = job.refused({"--no_such_key", "1", "--runner_config.epochs", "two"});
  EXPECT_TRUE(says(both, "2 keys are refused") && says(both, "no_such_key") && says(both, "epochs")) << both;
}

// One program on all ranks averages the loss over all tokens. Separate data ranks average the means of the ranks.
TEST(MindFormers, LossesOfRanks) {
  const Job job;
  const std::vector<std::string> semi = {
      "--use_parallel",        "True", "--parallel.parallel_mode", "1", "--parallel_config.data_parallel", "2",
      "--parallel.full_batch", "True"};
  EXPECT_EQ(job.settings(semi, 2)["train.loss_average"], "global-micro");
  EXPECT_EQ(job.settings(semi, 2)["data.order"], "mindspore-whole");
  EXPECT_EQ(job.settings({})["data.order"], "mindspore");
  EXPECT_EQ(job.settings({})["data.labels"], "false");
  EXPECT_EQ(job.settings({"--train_dataset.input_columns", "[\"input_ids\", \"labels\"]"})["data.labels"], "true");
  EXPECT_EQ(job.settings({"--use_parallel", "True"}, 2)["train.loss_average"], "micro");
  std::vector<std::string> sums = {"--use_parallel", "True", "--parallel.gradients_mean", "False"};
  EXPECT_TRUE(says(job.refused(sums, 2), "gradients_mean is False")) << "the sum over data ranks";
  sums.back() = "True";
  EXPECT_EQ(job.refused(sums, 2), "");
  std::vector<std::string> twice = semi;
  twice.insert(twice.end(), {"--parallel.gradients_mean", "True"});
  EXPECT_TRUE(says(job.refused(twice, 2), "gradients_mean is True")) << "gradients divided by the data ranks twice";
  EXPECT_EQ(job.settings({})["train.loss_average"], "micro");
  EXPECT_EQ(job.settings({"--model.model_config.pad_token_id", "5"})["data.pad"], "5");
}

// A key that applies only with another key is inert without it, and its line has the reason.
TEST(MindFormers, KeysThatCountWithOthers) {
  const Job job;
  const auto status = [&](const std::vector<std::string>& words, const std::string& key) {
    for (const ExplainedKey& line : job.translated(words).lines())
      if (line.key == key) return line.status;
    ADD_FAILURE() << key;
    return KeyStatus::refused;
  };
  for (const auto& [key, value, other, on] : std::vector<std::array<std::string, 4>>{
           {"eval_step_interval", "5", "do_eval", "True"},
           {"lr_scale_factor", "2", "lr_scale", "True"},
           {"data_skip_steps", "2", "resume_training", "True"},
           {"monitor_config.step_interval", "2", "monitor_config.monitor_on", "True"},
           {"model.model_config.scaling_factor", "2", "model.model_config.extend_method", "PI"}}) {
    EXPECT_EQ(status({"--" + key, value}, key), KeyStatus::inert) << key;
    EXPECT_EQ(status({"--" + key, value, "--" + other, on}, key), KeyStatus::used) << key;
  }
  EXPECT_EQ(status({"--runner_wrapper.max_grad_norm", "2", "--runner_wrapper.use_clip_grad", "False"},
                   "runner_wrapper.max_grad_norm"),
            KeyStatus::inert);
}

std::string line_error(const Job& job, std::vector<std::string> words) {
  words.insert(words.begin(), {"--config", job.folder / "run.yaml"});
  try {
    read_mindformers_line(placed(words));
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(MindFormers, PredictsByGenerate) {
  const Job job;
  std::filesystem::create_directory(job.folder / "hf");
  std::ofstream(job.folder / "hf/config.json") << "{}";
  const Translation t = job.translated({"--run_mode", "predict", "--load_checkpoint", job.folder / "hf", "--predict_data",
                                        "hello", "there", "--do_sample", "True", "--model.model_config.top_k", "3",
                                        "--model.model_config.max_decode_length", "64"});
  std::string words;
  for (const std::string& w : t.command) words += w + " ";
  EXPECT_EQ(words, "generate --model " + std::string(job.folder / "hf") +
                       " --prompt hello --max-new-tokens 64 --sample --top-k 3 --seed 42 ");
  EXPECT_TRUE(says(job.refused({"--run_mode", "predict", "--predict_data", "hello"}), "no model to speak"));
  for (const auto& [key, value] : {std::pair{"--save_file", "text.txt"}, {"--adapter_id", "a"}}) {
    EXPECT_TRUE(says(
        job.refused({"--run_mode", "predict", "--load_checkpoint", job.folder / "hf", "--predict_data", "hello", key, value}),
        std::string(key).substr(2)));
    EXPECT_EQ(job.refused({key, value}), "") << key << " is of run_mode predict";
  }
  EXPECT_TRUE(says(job.refused({"--run_mode", "predict", "--load_checkpoint", job.folder / "hf"}), "no prompt"));
}

TEST(MindFormers, EvaluatesByAValidation) {
  const Job job;
  const std::string data = job.folder / "data", weights = job.folder / "weights";
  const std::vector<std::string> line = {"--run_mode",         "eval", "--eval_dataset.data_loader.type", "MindDataset",
                                         "--eval_dataset_dir", data,   "--eval_dataset.input_columns",    "[\"input_ids\"]",
                                         "--load_checkpoint",  weights};
  EXPECT_EQ(job.refused(line), "");
  EXPECT_TRUE(job.translated(line).evaluates);
  EXPECT_FALSE(job.translated({}).evaluates);
  std::map<std::string, std::string> s = job.settings(line);
  for (const auto& [option, value] : std::map<std::string, std::string>{{"data.sequence_length", "32"},
                                                                        {"train.valid_batches", "20"},
                                                                        {"train.micro_batch", "4"},
                                                                        {"data.labels", "false"},
                                                                        {"data.shuffle", "false"},
                                                                        {"checkpoint.resume", "none"}})
    EXPECT_EQ(s[option], value) << option;
  EXPECT_EQ(s["data.valid"], s["data.train"]);
  for (const ExplainedKey& key : job.translated(line).lines())
    if (key.key.starts_with("optimizer.") || key.key.starts_with("train_dataset."))
      EXPECT_EQ(key.status, KeyStatus::inert) << key.key << " trains nothing";
  const auto also = [&](std::vector<std::string> more) {
    more.insert(more.begin(), line.begin(), line.end());
    return job.refused(more);
  };
  EXPECT_TRUE(says(also({"--model.model_config.seq_length", "16"}), "rows have 33 ids"));
  EXPECT_TRUE(says(also({"--metric.type", "ADGENMetric"}), "loss and perplexity"));
  EXPECT_TRUE(says(job.refused({"--do_eval", "True", "--eval_dataset.data_loader.type", "MindDataset", "--eval_dataset_dir",
                                data, "--metric.type", "ADGENMetric"}),
                   "loss and perplexity"))
      << "while training too";
  EXPECT_EQ(job.refused({"--metric.type", "ADGENMetric"}), "") << "nothing is evaluated";
  EXPECT_TRUE(says(also({"--eval_dataset.data_loader.type", "BlendedMegatronDatasetDataLoader"}), "do_eval"));
  EXPECT_TRUE(says(job.refused({"--run_mode", "eval"}), "eval_dataset lacks data_loader.type"));
  EXPECT_TRUE(says(job.refused({"--run_mode", "eval"}), "weights are evaluated"));
}

TEST(MindFormers, DataSetsByFilesAndColumns) {
  const Job job;
  const std::string a = job.folder / "data", b = job.folder / "weights";
  const std::string files = "--train_dataset.data_loader.dataset_files", none = "--train_dataset_dir";
  const auto train = [&](std::vector<std::string> words) { return job.settings(std::move(words))["data.train"]; };
  EXPECT_EQ(train({files, a}), train({none, a})) << "dataset_dir of the file counts";
  EXPECT_EQ(train({none + "=", files, b}), train({none, b}));
  EXPECT_TRUE(says(train({none + "=", files, "[\"" + a + "\", \"" + b + "\"]"}), a + ", " + b));
  EXPECT_TRUE(says(job.refused({none + "=", files, "/no/such"}), "no data set /no/such"));
  EXPECT_TRUE(says(job.refused({none + "="}), "no dataset_dir"));
  const auto blended = [&](const std::string& paths) {
    return train({"--train_dataset.data_loader.type", "BlendedMegatronDatasetDataLoader", "--train_dataset.data_loader.sizes",
                  "[80,0,0]", "--train_dataset.data_loader.config.data_path", paths});
  };
  EXPECT_EQ(blended("[\"0.5\", \"a\", 2, \"b\"]"), "[{path: a, weight: 0.5}, {path: b, weight: 2.0}]");
  EXPECT_EQ(blended("[\"..\", \"a\"]"), "[{path: ..}, {path: a}]") << "a folder, no number";
  const MindFormersLine line = read_mindformers_line(
      placed({"--config", job.folder / "run.yaml", "--train_dataset.input_columns", "[\"input_ids\", \"labels\"]"}));
  const auto with_columns = [&](std::vector<std::string> names) {
    return translate_mindformers(line, {.data = [=](const std::string&, const std::vector<std::string>&) {
                                   return MindFormersFacts::Data{80, 33, names};
                                 }});
  };
  EXPECT_TRUE(with_columns({"input_ids", "labels"}).refusals().empty());
  const Translation lacks = with_columns({"input_ids"});
  ASSERT_EQ(lacks.refusals().size(), 1u);
  EXPECT_TRUE(says(lacks.refusals()[0].what, "input_columns has labels"));
}

// Further keys in the files of MindFormers' repository, most of which change nothing.
TEST(MindFormers, KeysOfShippedFiles) {
  const Job job;
  const auto option = [&](std::vector<std::string> words, const char* name) { return job.settings(std::move(words))[name]; };
  const std::string columns = "--train_dataset.input_columns", m = "--model.model_config.",
                    some = "--recompute_config.select_recompute";
  EXPECT_EQ(option({columns, R"(["input_ids", "target_ids", "attention_mask"])"}, "data.labels"), "true");
  EXPECT_TRUE(says(job.refused({columns, R"(["input_ids", "attention_mask"])"}), "input_columns is"));
  EXPECT_TRUE(says(job.refused({columns, R"(["labels", "input_ids"])"}), "input_columns is")) << "columns count by their place";
  EXPECT_EQ(option({some, R"({"feed_forward\\.mul": true, "feed_forward\\.w1": false})"}, "train.recompute"), "cheap");
  EXPECT_EQ(option({some, R"({"feed_forward\\.mul": false})"}, "train.recompute"), "none");
  EXPECT_EQ(job.refused({"--eval_dataset.drop_remainder", "False"}), "") << "nothing is evaluated";
  EXPECT_EQ(job.refused({m + "emb_dropout_prob", "0.0", m + "use_past_shard", "False", m + "rotary_pct", "1.0",
                         m + "auto_register", "a.B", m + "normalization", "RMSNorm", m + "hidden_act", "swiglu"}),
            "");
  EXPECT_TRUE(says(job.refused({m + "normalization", "LayerNorm"}), "layers have RMSNorm"));
  EXPECT_TRUE(says(job.refused({m + "qk_layernorm", "True"}), "Qwen3"));
  EXPECT_TRUE(says(option({m + "untie_embeddings_and_output_weights", "False"}, "model.config"), "tie_word_embeddings: true"));
  EXPECT_TRUE(says(job.refused({m + "quantization_config.quant_method", "ptq"}), "not quantised"));
  EXPECT_EQ(option({"--optimizer.type", "FP32StateAdamWeightDecay"}, "optimizer.bias_correction"), "false");
  const std::vector<std::string> tokens = {"--train_dataset.data_loader.type",
                                           "BlendedMegatronDatasetDataLoader",
                                           "--train_dataset.data_loader.config.data_path",
                                           "[\"a\"]",
                                           "--train_dataset.data_loader.sizes",
                                           "[80,0,0]",
                                           columns,
                                           R"(["input_ids", "labels", "loss_mask", "position_ids", "attention_mask"])",
                                           m + "input_sliced_sig",
                                           "True"};
  EXPECT_EQ(job.refused(tokens), "");
}

TEST(MindFormers, FormatsWithoutTheirSection) {
  const Job job;
  const std::vector<std::string> words = {"--monitor_config.monitor_on", "True", "--monitor_config.local_norm_format",
                                          "[\"log\", \"tensorboard\"]"};
  const Translation t = job.translated(words);
  ASSERT_EQ(t.notices().size(), 1u);
  EXPECT_TRUE(says(t.notices()[0], "it goes to the log alone"));
  std::vector<std::string> there = words;
  there.insert(there.end(), {"--tensorboard.tensorboard_dir", "tb"});
  EXPECT_TRUE(job.translated(there).notices().empty());
}

// model_config and the Hugging Face folder must have the same family.
TEST(MindFormers, FolderOfTheFamily) {
  const Job job;
  std::filesystem::create_directory(job.folder / "hf");
  std::ofstream(job.folder / "hf/config.json") << R"({"model_type": "qwen3", "hidden_size": 64})";
  const std::vector<std::string> folder = {"--pretrained_model_dir", job.folder / "hf"};
  EXPECT_TRUE(says(job.refused(folder), "LlamaConfig, and") && says(job.refused(folder), "config.json of qwen3"))
      << job.refused(folder);
  std::vector<std::string> fits = folder;
  fits.insert(fits.end(), {"--model.model_config.type", "Qwen3Config"});
  EXPECT_EQ(job.refused(fits), "");
}

TEST(MindFormers, ReadsFlagsAsItsOwnScript) {
  const Job job;
  EXPECT_EQ(job.settings({"--train_data", job.folder / "weights"}).at("data.train"),
            job.settings({"--train_dataset_dir", job.folder / "weights"}).at("data.train"));
  EXPECT_EQ(job.settings({"--epochs", "3", "--runner_config.epochs", "2"}).at("train.steps"), "40") << "dotted words come last";
  EXPECT_EQ(job.settings({"--runner_config.epochs", "2", "--epochs", "3"}).at("train.steps"), "40");
  EXPECT_EQ(job.settings({"--options", "runner_config.epochs=3", "optimizer.betas=[0.8,0.99]"}).at("optimizer.betas"),
            "[0.8, 0.99]");
  EXPECT_EQ(job.settings({"--runner_config.epochs=2.0"}).at("train.steps"), "40");
  EXPECT_EQ(
      job.settings({"--runner_wrapper.scale_sense", "{\"type\": \"FixedLossScaleUpdateCell\", \"loss_scale_value\": 1024}"})
          .at("precision.loss_scale"),
      "1024.0")
      << "a map takes the place of a number";
  for (const auto& [words, said] :
       std::vector<std::pair<std::vector<std::string>, const char*>>{{{"--use_parallel", "yes"}, "yes"},
                                                                     {{"--epochs", "two"}, "two"},
                                                                     {{"--runner_config.epochs"}, "epochs"},
                                                                     {{"--no_such_section.x", "3"}, "no_such_section"},
                                                                     {{"--o", "3"}, "several flags"},
                                                                     {{"epochs", "3"}, "belongs to no flag"},
                                                                     {{"--options", "epochs"}, "KEY=VALUE"}})
    EXPECT_TRUE(says(line_error(job, words), said)) << line_error(job, words);
}

// A value that is nested 20000 levels deep is a text: no reader recurses into it.
TEST(MindFormers, DeepValuesAreTexts) {
  const Job job;
  std::string deep = "1";
  for (int i = 0; i < 20000; ++i) deep = "{\"a\":" + deep + "}";
  int found = 0;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--model.model_config.x", deep}, {"--options", "model.model_config.x=" + deep}})
    for (const GivenKey& k : job.line(words).given) found += k.key == "model.model_config.x" && k.value == Json(deep);
  EXPECT_EQ(found, 2);
}

TEST(MindFormers, ReadsFilesOverOthers) {
  const Job job;
  std::ofstream(job.folder / "child.yaml")
      << "base_config: run.yaml\nrunner_config: {epochs: 5}\nmodel: {model_config: {theta: 500000}}\n";
  MindFormersLine line = read_mindformers_line(placed({"--config", job.folder / "child.yaml"}));
  const auto value = [&](const std::string& key) {
    for (const GivenKey& g : line.given)
      if (g.key == key) return g.value.dump() + " " + g.source.substr(g.source.rfind('/') + 1);
    return std::string("none");
  };
  EXPECT_EQ(value("runner_config.epochs"), "5 child.yaml:2");
  EXPECT_EQ(value("runner_config.batch_size"), "4 run.yaml:6");
  EXPECT_EQ(value("callbacks[1].prefix"), "\"tiny\" run.yaml:17");
  std::ofstream(job.folder / "circle.yaml") << "base_config: circle.yaml\n";
  EXPECT_THROW(read_mindformers_line(placed({"--config", job.folder / "circle.yaml"})), UserError);
  std::ofstream(job.folder / "deep.yaml") << "a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}}\n";
  EXPECT_THROW(read_mindformers_line(placed({"--config", job.folder / "deep.yaml"})), UserError);
}

TEST(MindFormers, ReadsLaunchScripts) {
  const Job job;
  std::ofstream(job.folder / "a.sh")
      << "W=8\nbash scripts/msrun_launcher.sh \"run_mindformer.py \\\n --config run.yaml \\\n --run_mode train\" $W\n";
  const MindFormersLaunch a = read_mindformers_script(read_launch_script(job.folder / "a.sh"));
  EXPECT_EQ(a.ranks, 8);
  std::string words;
  for (const PlacedWord& w : a.words) words += w.text + " ";
  EXPECT_EQ(words, "--config run.yaml --run_mode train ");
  std::ofstream(job.folder / "b.sh") << "python run_mindformer.py --config run.yaml\n";
  EXPECT_EQ(read_mindformers_script(read_launch_script(job.folder / "b.sh")).words.size(), 2U);
  std::ofstream(job.folder / "d.sh") << "msrun --worker_num=4 --local_worker_num=2 run_mindformer.py --config run.yaml\n";
  EXPECT_EQ(read_mindformers_script(read_launch_script(job.folder / "d.sh")).ranks, 4);
  std::ofstream(job.folder / "c.sh") << "bash scripts/msrun_launcher.sh \"run_mindformer.py --config $(ls)\" 8\n";
  EXPECT_THROW(read_mindformers_script(read_launch_script(job.folder / "c.sh")), UserError);
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{"run_mindformer.py", "x"}, {"a.py", "8", "9"}, {"nothing", "8"}})
    EXPECT_THROW(read_msrun_words(placed(bad)), UserError);
}

// A config that is written as MindFormers' YAML and translated back is unchanged.
TEST(MindFormers, WordsComeBackAsTheConfigThatTheySay) {
  std::mt19937 draw(7);
  const auto pick = [&](auto... values) {
    const std::vector<std::common_type_t<decltype(values)...>> all{values...};
    return all[draw() % all.size()];
  };
  const auto chance = [&] { return draw() % 3 == 0; };
  int refused = 0;
  for (int n = 0; n < 1000; ++n) {
    Config c;
    c.data.order = SampleOrder::mindspore, c.data.shuffle = chance(), c.data.train = {{"data.mindrecord", {}, {}}};
    c.data.sequence_length = pick(16, 64, 4096), c.data.pad = pick(0, 7);
    if (chance()) c.data.samples = 100;
    c.train.seed = pick(1, 42, 12345), c.train.output = pick("out", "runs/a b");
    c.train.micro_batch = pick(1, 2, 4);
    c.train.steps = pick(1, 20, 977);
    c.train.recompute = pick(Recompute::none, Recompute::full, Recompute::cheap);
    c.train.loss_average = pick(LossAverage::tokens, LossAverage::micro);
    if (chance()) c.train.dropout = 0.1;
    if (chance()) c.train.attention_dropout = 0.2;
    c.parallel.data = pick(1, 2, 4), c.parallel.tensor = pick(1, 2), c.parallel.pipeline = pick(1, 2);
    c.parallel.sequence = c.parallel.tensor > 1 && chance();
    if (c.parallel.data > 1 && c.train.loss_average == LossAverage::micro) c.train.loss_average = LossAverage::global_micro;
    c.parallel.zero = c.parallel.data > 1 && chance() ? 1 : 0;
    c.train.global_batch = c.train.micro_batch * c.parallel.data * pick(2, 4);
    c.optimizer.type = pick(OptimizerType::adamw, OptimizerType::adam, OptimizerType::lamb);
    c.optimizer.betas = {pick(0.9, 0.8), pick(0.95, 0.999)}, c.optimizer.eps = {pick(1e-8, 1e-6)};
    c.optimizer.weight_decay = pick(0.0, 0.1, 0.05), c.optimizer.lr = pick(1e-3, 3e-5, 2.2e-4),
    c.optimizer.clip_norm = pick(0.0, 1.0, 0.5);
    c.schedule.type = pick(ScheduleType::ConstantWarmUpLR, ScheduleType::LinearWithWarmUpLR, ScheduleType::CosineWithWarmUpLR,
                           ScheduleType::CosineWithRestartsAndWarmUpLR, ScheduleType::PolynomialWithWarmUpLR,
                           ScheduleType::WarmUpStableDecayLR, ScheduleType::ConstantWithCoolDownLR);
    c.schedule.warmup_steps = pick(0, 3);
    if (chance()) c.schedule.classes.warmup_ratio = 0.25;
    if (chance()) c.schedule.classes.warmup_lr_init = 1e-7;
    if (c.schedule.type == ScheduleType::CosineWithWarmUpLR && chance())
      c.schedule.classes.lr_end = 1e-6, c.schedule.classes.num_cycles = 1.5, c.schedule.decay_steps = 9;
    if (c.schedule.type == ScheduleType::PolynomialWithWarmUpLR)
      c.schedule.power = pick(1.0, 2.5), c.schedule.classes.decay_ratio = 0.5;
    if (c.schedule.type == ScheduleType::WarmUpStableDecayLR) c.schedule.classes.decay_start_ratio = 0.75;
    if (c.schedule.type == ScheduleType::ConstantWithCoolDownLR)
      c.schedule.classes.keep_steps = 2, c.schedule.classes.final_steps = 3, c.schedule.classes.lr_end1 = 1e-7,
      c.schedule.classes.lr_end2 = 1e-8;
    c.precision.compute = pick(DType::f32, DType::bf16, DType::f16);
    c.precision.scale_rule = ScaleRule::mindformers;
    switch (draw() % 3) {
      case 0:
        c.precision.loss_scale = 1024, c.precision.scale_rule = ScaleRule::deepspeed;
        break;
      case 1:
        c.precision.loss_scale = 0, c.precision.scale_initial = 16384, c.precision.scale_factor = 4,
        c.precision.scale_window = 500;
        break;
      default:
        c.precision.loss_scale = 0, c.precision.scale_rule = ScaleRule::mindformers_adaptive, c.precision.scale_window = 50,
        c.precision.scale_window_max = 500;
    }
    if (chance()) c.log.local_norms = "*";
    if (chance()) c.log.sink = pick(1, 4);
    c.log.every = pick(1, 5);
    if (c.optimizer.clip_norm > 0 && chance()) c.health.skip_norm = 3.5, c.health.skip_count = pick(0, 4);
    if (c.health.skip_norm == 0 && chance()) c.health.stop_norm = 2.5;
    c.health.stop_not_finite = chance();
    if (!c.log.local_norms.empty() && chance()) c.health.embedding_norm = 270;
    c.checkpoint.layout = CheckpointLayout::mindformers, c.log.style = LogStyle::mindformers, c.checkpoint.resume = "none";
    c.checkpoint.every = 7, c.checkpoint.keep = pick(1, 3), c.checkpoint.prefix = pick("tiny", "a_b"),
    c.checkpoint.format = pick(CheckpointFormat::safetensors, CheckpointFormat::ckpt);
    if (chance()) c.checkpoint.copies = {"network"};
    if (chance()) c.log.tensorboard_dir = "tb";
    if (chance()) c.model.weights = "weights.ckpt";
    const Json model = {{"model_type", "llama"},    {"hidden_size", 64},
                        {"num_hidden_layers", 4},   {"num_attention_heads", 4},
                        {"num_key_value_heads", 2}, {"vocab_size", 256},
                        {"intermediate_size", 128}, {"rms_norm_eps", 1e-5},
                        {"rope_theta", 5e5},        {"max_position_embeddings", c.data.sequence_length}};
    const ForeignForm form = mindformers_form(c, model);
    for (const UnsaidOption& u : form.unsaid)
      ADD_FAILURE() << n << ": " << u.option << " is " << u.value << ", and comes back as " << u.theirs << "\n" << form.text;
    for (const std::string& notice : form.notices)
      refused += notice.find("epochs is 1") == std::string::npos && !says(notice, "load_checkpoint");
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(refused, 0) << "what the words come to is refused";
}

}  // namespace test_dialects_mindformers
}  // namespace ravine
