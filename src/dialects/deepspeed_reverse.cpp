// Writes a config as DeepSpeed's JSON: batch, optimizer, schedule, precision, ZeRO and offload. The other options
// become flags of the training script.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "config/load.h"
#include "config/takes.h"
#include "config/yaml_json.h"
#include "dialects/deepspeed_auto.h"
#include "dialects/deepspeed_json.h"
#include "dialects/reverse.h"
#include "dialects/trainer.h"

namespace ravine {
namespace {

// Options that are not compared: sizes that DeepSpeed takes from the flags, and the style of log lines.
const std::vector<std::string> kSetByFlags = {"train.global_batch", "train.micro_batch", "optimizer.clip_norm", "log.every",
                                              "log.style"};

Json number_as_given(double x) { return x == std::floor(x) && std::abs(x) < 1e15 ? Json(static_cast<int64_t>(x)) : Json(x); }

// Returns {"type", "params"} of the class for Ravine's type `ours`; null if there is none.
Json class_section(const Config& c, std::span<const DeepSpeedClass> classes, const std::string& ours) {
  for (const DeepSpeedClass& k : classes) {
    const bool plain_adam = ours == "adam" && k.name == "Adam";
    if (k.ours != ours && !plain_adam) continue;
    Json params = Json::object();
    for (const DeepSpeedParam& p : k.params) {
      if (p.option.empty()) continue;
      if (p.option == "optimizer.type")
        params[std::string(p.key)] = !plain_adam;
      else if (const Json value = option_value(c, p.option); value != "auto" && value != "none")  // else the default
        params[std::string(p.key)] = value;
    }
    return {{"type", std::string(k.name)}, {"params", params}};
  }
  return nullptr;
}

Json written_form(const Config& c) {
  Json j = {{"train_batch_size", c.train.global_batch},
            {"train_micro_batch_size_per_gpu", c.train.micro_batch},
            {"gradient_clipping", c.optimizer.clip_norm},
            {"steps_per_print", c.log.every}};
  if (c.parallel.data > 0 && c.train.global_batch % (c.train.micro_batch * c.parallel.data) == 0)
    j["gradient_accumulation_steps"] = c.train.global_batch / c.train.micro_batch / c.parallel.data;
  if (Json s = class_section(c, deepspeed_optimizers(), option_value(c, "optimizer.type")); !s.is_null()) j["optimizer"] = s;
  if (Json s = class_section(c, deepspeed_schedulers(), option_value(c, "schedule.type")); !s.is_null()) j["scheduler"] = s;
  const PrecisionOptions& p = c.precision;
  if (p.compute == DType::bf16) j["bf16"] = {{"enabled", true}};
  if (p.compute == DType::f16) {
    j["fp16"] = {{"enabled", true},
                 {"loss_scale", number_as_given(p.loss_scale.value_or(0))},
                 {"loss_scale_window", p.scale_window},
                 {"hysteresis", p.scale_hysteresis},
                 {"consecutive_hysteresis", p.scale_consecutive_hysteresis},
                 {"min_loss_scale", number_as_given(p.scale_min)}};
    if (const double power = std::log2(p.scale_initial); power == std::floor(power) && power >= 0)
      j["fp16"]["initial_scale_power"] = static_cast<int64_t>(power);
  }
  if (p.gradients == GradientType::compute && p.compute == DType::f16) j["data_types"] = {{"grad_accum_dtype", "fp16"}};
  if (p.gradients == GradientType::compute && p.compute == DType::bf16) j["data_types"] = {{"grad_accum_dtype", "bf16"}};
  Json zero = {{"stage", c.parallel.zero}};
  if (c.parallel.zero == 3) zero["stage3_param_persistence_threshold"] = c.parallel.zero_threshold;
  const OffloadOptions& o = c.offload;
  for (const auto& [key, to] : {std::pair{"offload_optimizer", o.optimizer}, {"offload_param", o.params}}) {
    if (to == OffloadTo::none) continue;
    zero[key] = {{"device", to == OffloadTo::disk ? "nvme" : "cpu"}, {"pin_memory", o.pin}};
    if (to == OffloadTo::disk) zero[key]["nvme_path"] = o.path, zero[key]["buffer_count"] = o.buffers;
  }
  j["zero_optimization"] = zero;
  if (o.uses_disk())
    j["aio"] = {{"block_size", o.block_kb * 1024}, {"queue_depth", o.queue_depth}, {"thread_count", o.threads}};
  if (c.log.tensorboard) j["tensorboard"] = {{"enabled", true}};
  const std::string type = option_value(c, "optimizer.type");
  for (const DeepSpeedClass& k : deepspeed_optimizers())
    if (k.ours == type && !k.zero_tested && c.parallel.zero > 0) j["zero_allow_untested_optimizer"] = true;
  return j;
}

// Returns the flags of the training script: options that the file cannot hold, and values that must equal the file's.
std::vector<std::string> flags_of(const Config& c) {
  std::vector<std::string> out;
  const auto flag = [&](const char* key, const std::string& value) { out.insert(out.end(), {key, value}); };
  const auto number = [&](const char* key, double x) { flag(key, number_as_given(x).dump()); };
  if (!c.model.path.empty()) flag("--model_name_or_path", c.model.path);
  if (!c.model.config.empty() && !is_inline(c.model.config)) flag("--config_name", c.model.config);
  if (!c.model.tokenizer.empty()) flag("--tokenizer_name", c.model.tokenizer);
  if (c.data.train.size() == 1) flag("--train_file", c.data.train[0].path);
  if (c.data.valid.size() == 1) flag("--validation_file", c.data.valid[0].path);
  flag("--block_size", std::to_string(c.data.sequence_length));
  const int64_t ranks = std::max<int64_t>(1, c.parallel.data);
  flag("--max_steps", std::to_string(c.train.steps));
  flag("--per_device_train_batch_size", std::to_string(c.train.micro_batch));
  flag("--gradient_accumulation_steps",
       std::to_string(std::max<int64_t>(1, c.train.global_batch / c.train.micro_batch / ranks)));
  number("--learning_rate", c.optimizer.lr), number("--weight_decay", c.optimizer.weight_decay);
  if (c.optimizer.betas.size() == 2) number("--adam_beta1", c.optimizer.betas[0]), number("--adam_beta2", c.optimizer.betas[1]);
  if (c.optimizer.eps.size() == 1) number("--adam_epsilon", c.optimizer.eps[0]);
  number("--max_grad_norm", c.optimizer.clip_norm);
  if (takes_setting(c.schedule.type, "warmup_steps")) flag("--warmup_steps", std::to_string(c.schedule.warmup_steps));
  if (takes_setting(c.schedule.type, "warmup_num_steps"))
    number("--warmup_steps", static_cast<double>(c.schedule.classes.warmup_num_steps));
  if (c.precision.compute == DType::bf16) out.emplace_back("--bf16");
  if (c.precision.compute == DType::f16) out.emplace_back("--fp16");
  if (c.train.recompute == Recompute::full) out.emplace_back("--gradient_checkpointing");
  if (c.train.valid_every > 0) flag("--eval_strategy", "steps"), flag("--eval_steps", std::to_string(c.train.valid_every));
  flag("--logging_steps", std::to_string(c.log.every));
  if (c.checkpoint.every > 0)
    flag("--save_steps", std::to_string(c.checkpoint.every));
  else
    flag("--save_strategy", "no");
  if (c.checkpoint.keep > 0) flag("--save_total_limit", std::to_string(c.checkpoint.keep));
  flag("--report_to", c.log.tensorboard ? "tensorboard" : "none");
  flag("--transformers_version", c.train.loss_average == LossAverage::micro ? "4.37" : "5.23");
  flag("--seed", std::to_string(c.train.seed)), flag("--output_dir", c.train.output);
  out.emplace_back("--do_train");
  return out;
}

// Returns the config that file and flags together translate to; nothing if they contradict each other.
std::optional<Config> translated_config(const DeepSpeedConfig& file, const std::vector<std::string>& flags, int64_t ranks) {
  TrainerLine line;
  line.args = read_trainer_flags(placed(flags), line.refusals);
  if (line.args.text("transformers_version").starts_with("5")) line.version = TransformersVersion::v5_23;
  line.config = file;
  TrainerFacts facts;
  facts.ranks = ranks, facts.version = line.version;
  const Translation t = translate_trainer(std::move(line), facts);
  if (!t.refusals().empty()) return {};
  try {
    return load_config("", t.settings());
  } catch (const UserError&) {  // the caller then reports the result of the file alone
    return {};
  }
}

}  // namespace

ForeignForm deepspeed_form(const Config& config, const Json&) {
  ForeignForm form;
  form.text = written_form(config).dump(2) + "\n";
  std::vector<std::string> forgiven;
  std::vector<KeyRefusal> refusals;
  const YamlNode::Ptr root = parse_deepspeed_json(form.text, "config", forgiven);
  const DeepSpeedConfig read = take_deepspeed_keys(*root, "config", compared_with_flag, refusals, forgiven);
  TrainerOutcome out;
  lead_deepspeed(read, read_trainer_flags({}, refusals), out);
  refusals.insert(refusals.end(), out.refusals.begin(), out.refusals.end());
  for (const KeyRefusal& r : refusals) form.notices.push_back(fmt::format("DeepSpeed would refuse {}: {}", r.what, r.rule));
  // An option that the file does not set has its default.
  Config got;
  std::vector<Section> sections = sections_of(got);
  for (const TrainerOutcome::Choice& choice : out.choices)
    for (const Section& s : sections)
      for (const Option& o : s.options)
        if (o.name() == choice.option) o.assign(*load_yaml(flow_yaml(choice.value), choice.option, false), "config");
  form.unsaid = unsaid_options(config, got, kSetByFlags);
  form.flags = flags_of(config);
  if (const auto both = translated_config(read, form.flags, std::max<int64_t>(1, config.parallel.data))) {
    std::set<std::string> still;
    for (const UnsaidOption& o : unsaid_options(config, *both, kSetByFlags)) still.insert(o.option);
    std::erase_if(form.unsaid, [&](const UnsaidOption& o) { return !still.contains(o.option); });
  }
  return form;
}

}  // namespace ravine
