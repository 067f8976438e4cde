// Writes a config as MindFormers' YAML.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/yaml_json.h"
#include "dialects/mindformers.h"
#include "dialects/mindformers_run.h"
#include "dialects/reverse.h"

namespace ravine {
namespace {

// Options that are not compared: they follow from the style of files and log lines, or from the data.
const std::vector<std::string> kOwnWords = {"log.style",     "checkpoint.layout", "checkpoint.resume",    "model.config",
                                            "parallel.data", "model.path",        "schedule.total_steps", "log.tensorboard",
                                            "data.order",    "data.samples"};

const char* class_of(OptimizerType type) {
  switch (type) {
    case OptimizerType::adam:
      return "Adam";
    case OptimizerType::sgd:
      return "SGD";
    case OptimizerType::lamb:
      return "Lamb";
    case OptimizerType::came:
      return "Came";
    case OptimizerType::adagrad:
      return "Adagrad";
    case OptimizerType::adafactor:
      return "AdaFactor";
    default:
      return "AdamW";
  }
}

Json optimizer_words(const Config& c) {
  const OptimizerType type = c.optimizer.type;
  const bool corrects = type != OptimizerType::adamw || c.optimizer.bias_correction;
  Json j = {{"type", corrects ? class_of(type) : "AdamWeightDecay"}, {"weight_decay", c.optimizer.weight_decay}};
  const auto eps = [&] { return c.optimizer.eps.size() == 1 ? Json(c.optimizer.eps[0]) : Json(c.optimizer.eps); };
  if (type == OptimizerType::adamw || type == OptimizerType::adam || type == OptimizerType::lamb)
    j["betas"] = c.optimizer.betas, j["eps"] = eps();
  else if (type == OptimizerType::sgd)
    j["momentum"] = c.optimizer.momentum, j["dampening"] = c.optimizer.dampening, j["nesterov"] = c.optimizer.nesterov;
  else
    j["eps"] = eps();
  if (type == OptimizerType::came || type == OptimizerType::adafactor)
    j["clip_threshold"] = c.optimizer.clip_threshold, j["decay_rate"] = c.optimizer.decay_rate,
    j["scale_parameter"] = c.optimizer.scale_parameter, j["beta1"] = c.optimizer.beta1;
  if (type == OptimizerType::came) j["beta3"] = c.optimizer.beta3;
  if (type == OptimizerType::adafactor)
    j["relative_step"] = c.optimizer.relative_step, j["warmup_init"] = c.optimizer.warmup_init;
  if (type == OptimizerType::adagrad) j["accum"] = c.optimizer.initial_accumulator_value;
  return j;
}

// Returns lr_schedule. A type of Ravine is written as the MindFormers class with the same curve.
Json schedule_words(const Config& c) {
  const ScheduleOptions& s = c.schedule;
  Json j = {{"learning_rate", c.optimizer.lr}, {"total_steps", -1}, {"warmup_steps", s.warmup_steps}};
  const std::string type(name(s.type));
  j["type"] = type;
  const ScheduleClasses& k = s.classes;
  if (type.starts_with("CosineAnnealing")) {
    j = {{"type", type}, {"base_lr", c.optimizer.lr}, {"eta_min", k.eta_min}};
    if (s.type == ScheduleType::CosineAnnealingLR)
      j["t_max"] = k.t_max;
    else
      j["t_0"] = k.t_0, j["t_mult"] = k.t_mult;
    return j;
  }
  if (k.total_steps > 0 && k.total_steps != c.train.steps) j["total_steps"] = k.total_steps;
  for (const auto& [key, value] : {std::pair{"warmup_ratio", k.warmup_ratio},
                                   {"lr_end", k.lr_end},
                                   {"num_cycles", k.num_cycles},
                                   {"decay_ratio", k.decay_ratio},
                                   {"decay_start_ratio", k.decay_start_ratio},
                                   {"lr_end2", k.lr_end2}})
    if (value) j[key] = *value;
  if (k.warmup_lr_init != 0) j["warmup_lr_init"] = k.warmup_lr_init;
  if (s.decay_steps != 0) j["decay_steps"] = s.decay_steps;
  if (k.keep_steps != 0) j["keep_steps"] = k.keep_steps;
  if (k.final_steps != 0) j["final_steps"] = k.final_steps;
  if (k.lr_end1 != 0) j["lr_end1"] = k.lr_end1;
  if (k.decay_start_steps >= 0) j["decay_start_steps"] = k.decay_start_steps;
  if (s.type == ScheduleType::PolynomialWithWarmUpLR) j["power"] = s.power;
  if (k.lr_scale != 1) j["lr_scale"] = k.lr_scale;
  switch (s.type) {
    case ScheduleType::constant:
      j["type"] = "ConstantWarmUpLR";
      break;
    case ScheduleType::linear:
      j["type"] = "LinearWithWarmUpLR";
      break;
    case ScheduleType::cosine:
      j["type"] = "CosineWithWarmUpLR", j["lr_end"] = s.min_lr_ratio * c.optimizer.lr;
      break;
    default:
      break;
  }
  return j;
}

Json tensorboard_words(const LogOptions& log) {
  Json j = {{"tensorboard_dir", log.tensorboard_dir}};
  const auto& omit = log.tensorboard_omit;
  for (const MindFormersScalars& s : mindformers_scalars())
    j[s.key.substr(s.key.find('.') + 1)] = std::find(omit.begin(), omit.end(), s.tags[0]) == omit.end();
  return j;
}

Json scale_words(const Config& c) {
  const PrecisionOptions& p = c.precision;
  if (p.loss_scale && *p.loss_scale > 0) return *p.loss_scale;
  if (!p.loss_scale && p.compute != DType::f16) return 1.0;
  Json j = {{"type", "DynamicLossScaleUpdateCell"},
            {"loss_scale_value", p.scale_initial},
            {"scale_factor", p.scale_factor},
            {"scale_window", p.scale_window}};
  if (p.scale_rule == ScaleRule::mindformers_adaptive)
    j["type"] = "AdaptiveLossScaleUpdateCell", j["max_scale_window"] = p.scale_window_max,
    j["min_scale_window"] = p.scale_window_min;
  return j;
}

// Sets the switches of fused ops, and the compute types for Ravine's rules of precision.
void precision_words(const Config& c, Json& j) {
  const auto fused = [&](const char* op) {
    return std::find(c.precision.unfused.begin(), c.precision.unfused.end(), op) == c.precision.unfused.end();
  };
  for (const auto& [key, op] :
       {std::pair{"use_flash_attention", "attention"}, {"use_fused_rope", "rope"}, {"use_fused_swiglu", "swiglu"}})
    j[key] = fused(op);
  const std::map<DType, const char*> types = {{DType::f32, "float32"}, {DType::f16, "float16"}, {DType::bf16, "bfloat16"}};
  const auto type_of = [&](const std::string& op) -> const char* {
    for (const RecipeOption& r : c.precision.recipes)
      if (r.op == op && r.compute && types.contains(*r.compute)) return types.at(*r.compute);
    return nullptr;
  };
  for (const auto& [key, op] : {std::pair{"embedding_init_type", "embedding*"},
                                {"layernorm_compute_type", "*_norm"},
                                {"softmax_compute_type", "softmax*"},
                                {"rotary_dtype", "rope"},
                                {"router_dense_type", "matmul"}})
    if (const char* type = type_of(op)) j[key] = type;
  if (!fused("rope") && !type_of("rope")) j["rotary_dtype"] = j.value("compute_dtype", "float32");
  if (const char* type = type_of("embedding*"); type && c.precision.gradients == GradientType::compute) {
    j.erase("embedding_init_type");
    j["param_init_type"] = type;
  }
}

Json model_words(const Config& c, const Json& described, std::vector<std::string>& notices) {
  static const std::map<std::string, const char*> kClasses = {
      {"llama", "LlamaConfig"}, {"mixtral", "LlamaConfig"},      {"qwen2", "Qwen2Config"},
      {"qwen3", "Qwen3Config"}, {"qwen3_moe", "Qwen3MoeConfig"}, {"deepseek_v3", "DeepseekV3Config"}};
  Json j = Json::object();
  const std::string family = described.is_object() ? described.value("model_type", "") : "";
  const auto known = kClasses.find(family);
  if (known == kClasses.end()) {
    notices.push_back(family.empty() ? "the config names no model: write model.model_config"
                                     : fmt::format("MindFormers has no class for the {} family", family));
    return {{"arch", {{"type", "LlamaForCausalLM"}}}, {"model_config", {{"type", "LlamaConfig"}}}};
  }
  const bool legacy = std::string_view(known->second) == "LlamaConfig";
  j["type"] = known->second;
  j["seq_length"] = c.data.sequence_length;
  static const std::map<std::string, const char*> kLegacy = {{"num_hidden_layers", "num_layers"},
                                                             {"num_attention_heads", "num_heads"},
                                                             {"num_key_value_heads", "n_kv_heads"},
                                                             {"rope_theta", "theta"},
                                                             {"initializer_range", "init_method_std"}};
  for (const char* field : {"hidden_size",
                            "num_hidden_layers",
                            "num_attention_heads",
                            "num_key_value_heads",
                            "intermediate_size",
                            "vocab_size",
                            "rms_norm_eps",
                            "rope_theta",
                            "head_dim",
                            "initializer_range",
                            "tie_word_embeddings",
                            "bos_token_id",
                            "eos_token_id",
                            "pad_token_id",
                            "num_experts_per_tok",
                            "moe_intermediate_size",
                            "n_routed_experts",
                            "n_shared_experts",
                            "n_group",
                            "topk_group",
                            "routed_scaling_factor",
                            "norm_topk_prob",
                            "first_k_dense_replace",
                            "kv_lora_rank",
                            "q_lora_rank",
                            "qk_rope_head_dim",
                            "qk_nope_head_dim",
                            "v_head_dim"}) {
    const auto it = described.find(field);
    if (it == described.end() || it->is_null()) continue;
    const auto renamed = kLegacy.find(field);
    j[legacy && renamed != kLegacy.end() ? renamed->second : field] = *it;
  }
  if (const auto it = described.find("max_position_embeddings"); it != described.end()) j["max_position_embedding"] = *it;
  static const std::map<DType, const char*> kTypes = {
      {DType::f32, "float32"}, {DType::f16, "float16"}, {DType::bf16, "bfloat16"}};
  if (c.precision.compute && kTypes.contains(*c.precision.compute)) j["compute_dtype"] = kTypes.at(*c.precision.compute);
  precision_words(c, j);
  if (c.train.dropout > 0) j["hidden_dropout"] = c.train.dropout;
  if (c.train.attention_dropout > 0) j["attention_dropout"] = c.train.attention_dropout;
  if (c.parallel.virtual_stages > 1) j["pp_interleave_num"] = c.parallel.virtual_stages;
  if (c.data.pad >= 0) j["pad_token_id"] = c.data.pad;
  return {{"arch", {{"type", "LlamaForCausalLM"}}}, {"model_config", j}};
}

Json data_words(const Config& c, std::vector<std::string>& notices) {
  Json loader;
  if (c.data.order == SampleOrder::megatron) {
    Json paths = Json::array();
    const std::vector<double> weights = source_weights(c.data.train);
    for (size_t i = 0; i < c.data.train.size(); ++i) {
      if (!weights.empty()) paths.push_back(weights[i]);
      paths.push_back(c.data.train[i].path);
    }
    loader = {{"type", "BlendedMegatronDatasetDataLoader"},
              {"config",
               {{"data_path", paths},
                {"split", c.data.split},
                {"seq_length", c.data.sequence_length},
                {"eod_mask_loss", c.data.eod_mask_loss},
                {"reset_position_ids", c.data.reset_position_ids},
                {"reset_attention_mask", c.data.reset_attention_mask}}}};
    loader["config"]["seed"] = c.data.order_seed < 0 ? c.train.seed : c.data.order_seed;
    if (c.data.eod >= 0) loader["config"]["eod"] = c.data.eod;
    const int64_t drawn = c.data.samples > 0 ? c.data.samples : c.train.steps * c.train.global_batch;
    loader["sizes"] = {drawn, 0, 0};
  } else {
    loader = {{"type", "MindDataset"},
              {"dataset_dir", c.data.train.empty() ? "" : c.data.train[0].path},
              {"shuffle", c.data.shuffle}};
    if (c.data.samples > 0) loader["num_samples"] = c.data.samples;
    if (c.data.order != SampleOrder::mindspore && c.data.order != SampleOrder::mindspore_whole)
      notices.push_back("MindFormers reads MindRecord files or token files: make one of the data, and name it in dataset_dir");
  }
  Json out = {{"data_loader", loader},
              {"input_columns", c.data.labels ? Json{"input_ids", "labels"} : Json{"input_ids"}},
              {"drop_remainder", true}};
  return out;
}

// Returns a row for each round of parts, with a number of layers for each stage.
Json recompute_words(const Config& c) {
  Json rows = Json::array();
  for (size_t i = 0; i < c.train.recompute_layers.size(); ++i) {
    if (i % static_cast<size_t>(c.parallel.pipeline) == 0) rows.push_back(Json::array());
    rows.back().push_back(c.train.recompute_layers[i]);
  }
  return rows;
}

Json words_of_config(const Config& c, const Json& described, std::vector<std::string>& notices) {
  const ParallelOptions& p = c.parallel;
  const int64_t data = std::max<int64_t>(1, p.data), ranks = data * p.tensor * p.pipeline;
  const int64_t micros = std::max<int64_t>(1, c.train.global_batch / (c.train.micro_batch * data));
  const bool semi = ranks > 1 || micros > 1;
  Json j = {{"seed", c.train.seed},     {"output_dir", c.train.output},
            {"run_mode", "train"},      {"load_checkpoint", c.model.weights.empty() ? c.model.path : c.model.weights},
            {"resume_training", false}, {"use_parallel", semi}};
  if (c.train.loss_average == LossAverage::tokens) j["calculate_per_token_loss"] = true;
  if (c.train.loss_average == LossAverage::micro && data > 1)
    notices.push_back("train.loss_average=micro: in MindFormers a micro batch is that of all data ranks (global-micro)");
  if (c.health.skip_norm > 0) j["use_skip_data_by_global_norm"] = true;
  if (c.health.embedding_norm > 0) j["use_checkpoint_health_monitor"] = true;
  if (c.health.stop_not_finite) j["check_for_nan_in_loss_and_grad"] = true;
  j["trainer"] = {{"type", "CausalLanguageModelingTrainer"}, {"model_name", "model"}};
  // data.samples may be fewer rows than the run needs
  const int64_t per_epoch = c.data.samples > 0 ? std::max<int64_t>(1, c.data.samples / c.train.global_batch) : c.train.steps;
  const int64_t epochs = (c.train.steps + per_epoch - 1) / per_epoch;
  j["runner_config"] = {{"epochs", epochs},
                        {"batch_size", c.train.micro_batch},
                        {"sink_mode", c.log.sink > 0},
                        {"sink_size", std::max<int64_t>(1, c.log.sink)}};
  if (p.pipeline == 1) j["runner_config"]["gradient_accumulation_steps"] = micros;
  j["runner_wrapper"] = {{"type", p.pipeline > 1 || micros > 1 ? "MFPipelineWithLossScaleCell" : "MFTrainOneStepCell"},
                         {"scale_sense", scale_words(c)},
                         {"use_clip_grad", c.optimizer.clip_norm > 0},
                         {"local_norm", !c.log.local_norms.empty()}};
  if (c.optimizer.clip_norm > 0) j["runner_wrapper"]["max_grad_norm"] = c.optimizer.clip_norm;
  j["optimizer"] = optimizer_words(c);
  j["lr_schedule"] = schedule_words(c);
  const bool cut = epochs * per_epoch != c.train.steps;
  if (cut && j["lr_schedule"].value("total_steps", 0) == -1) j["lr_schedule"]["total_steps"] = c.train.steps;
  j["train_dataset"] = data_words(c, notices);
  j["train_dataset_task"] = {{"type", "CausalLanguageModelDataset"}};
  j["parallel"] = {{"parallel_mode", semi ? 1 : 0}, {"full_batch", semi}, {"enable_parallel_optimizer", p.zero > 0}};
  if (p.zero > 1) j["parallel"]["parallel_optimizer_config"] = {{"gradient_accumulation_shard", true}};
  if (p.virtual_stages > 1) j["parallel"]["pipeline_config"] = {{"pipeline_interleave", true}};
  j["parallel_config"] = {{"data_parallel", data},
                          {"model_parallel", p.tensor},
                          {"pipeline_stage", p.pipeline},
                          {"expert_parallel", p.expert},
                          {"micro_batch_num", p.pipeline > 1 ? micros : 1},
                          {"use_seq_parallel", p.sequence}};
  const bool full = c.train.recompute == Recompute::full;
  j["recompute_config"] = {{"recompute", full && !c.train.recompute_layers.empty() ? recompute_words(c) : Json(full)},
                           {"select_recompute", c.train.recompute == Recompute::cheap}};
  Json callbacks = {{{"type", "MFLossMonitor"}, {"per_print_times", c.log.every}}};
  if (!c.checkpoint.on_stop || c.train.stop_signal > 0) {
    Json exit = {{"type", "OnRequestExit"}, {"save_ckpt", c.checkpoint.on_stop}, {"save_mindir", false}};
    if (c.train.stop_signal > 0) exit["sig"] = c.train.stop_signal;
    callbacks.push_back(exit);
  }
  if (cut) callbacks.push_back({{"type", "TrainCallBack"}, {"stop_step", c.train.steps}});
  if (c.checkpoint.every > 0) {
    Json monitor = {{"type", "CheckpointMonitor"},
                    {"prefix", c.checkpoint.prefix},
                    {"save_checkpoint_steps", c.checkpoint.every},
                    {"keep_checkpoint_max", c.checkpoint.keep},
                    {"checkpoint_format", std::string(name(c.checkpoint.format))}};
    for (const std::string& copy : c.checkpoint.copies)
      monitor[copy == "network" ? "save_network_params" : "save_trainable_params"] = true;
    if (c.health.embedding_norm > 0) monitor["embedding_local_norm_threshold"] = c.health.embedding_norm;
    callbacks.push_back(monitor);
  }
  j["callbacks"] = callbacks;
  if (c.health.skip_norm > 0 || c.health.stop_norm > 0)
    j["monitor_config"] = {{"monitor_on", c.health.skip_count > 0 || c.health.stop_norm > 0},
                           {"check_for_global_norm", c.health.stop_norm > 0},
                           {"global_norm_spike_threshold", std::max(c.health.skip_norm, c.health.stop_norm)},
                           {"global_norm_spike_count_threshold", std::max<int64_t>(1, c.health.skip_count)}};
  if (!c.log.tensorboard_dir.empty()) j["tensorboard"] = tensorboard_words(c.log);
  j["model"] = model_words(c, described, notices);
  return j;
}

// Writes the YAML: sections in block style, their keys on one line each.
std::string yaml_of_words(const Json& j) {
  std::string text;
  for (const auto& [key, value] : j.items()) {
    const bool block =
        value.is_object() && std::any_of(value.begin(), value.end(), [](const Json& v) { return v.is_object(); });
    if (!block) {
      text += fmt::format("{}: {}\n", key, flow_yaml(value));
      continue;
    }
    text += key + ":\n";
    for (const auto& [inner, v] : value.items()) text += fmt::format("  {}: {}\n", inner, flow_yaml(v));
  }
  return text;
}

}  // namespace

ForeignForm mindformers_form(const Config& config, const Json& described) {
  ForeignForm form;
  form.text = yaml_of_words(words_of_config(config, described, form.notices));
  MindFormersLine line{.config = "config", .given = {}};
  line.given = mindformers_keys(*load_yaml(form.text, "config"), "config");
  const ParallelOptions& p = config.parallel;
  const MindFormersFacts facts{
      .ranks = std::max<int64_t>(1, p.data) * p.tensor * p.pipeline,
      .runs = false,
      .data = [&](const std::string&, const std::vector<std::string>&) {
        return MindFormersFacts::Data{config.train.steps * config.train.global_batch, config.data.sequence_length + 1};
      }};
  const Translation t = translate_mindformers(line, facts);
  for (const KeyRefusal& r : t.refusals()) form.notices.push_back(fmt::format("{}: {}", r.what, r.rule));
  Config got;
  std::vector<Section> sections = sections_of(got);
  for (const Setting& s : t.settings())
    for (const Section& section : sections)
      for (const Option& o : section.options)
        if (o.name() == s.key) o.assign(*load_yaml(s.value, s.key, false), "config");
  form.unsaid = unsaid_options(config, got, kOwnWords);
  if (config.data.samples == 0)
    form.notices.push_back(fmt::format("epochs is 1: the data are to have {} rows, train.steps times train.global_batch",
                                       config.train.steps * config.train.global_batch));
  return form;
}

}  // namespace ravine
