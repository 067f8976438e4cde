#include "dialects/deepspeed_auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/checked.h"
#include "config/yaml.h"

namespace ravine {
namespace {

using Kind = YamlNode::Kind;

YamlNode::Ptr node_of(bool x) {
  auto v = std::make_shared<YamlNode>();
  v->kind = Kind::boolean, v->boolean = x, v->text = x ? "true" : "false";
  return v;
}

YamlNode::Ptr node_of(int64_t x) {
  auto v = std::make_shared<YamlNode>();
  v->kind = Kind::integer, v->integer = x, v->real = static_cast<double>(x), v->text = std::to_string(x);
  return v;
}

YamlNode::Ptr list_of(std::vector<YamlNode::Ptr> items) {
  auto v = std::make_shared<YamlNode>();
  v->kind = Kind::list, v->items = std::move(items);
  return v;
}

bool equal(const YamlNode& a, const YamlNode& b) {
  const bool numbers = (a.kind == Kind::integer || a.kind == Kind::real) && (b.kind == Kind::integer || b.kind == Kind::real);
  if (numbers) return a.real == b.real;
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::boolean) return a.boolean == b.boolean;
  if (a.kind != Kind::list) return a.text == b.text;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [](const YamlNode::Ptr& x, const YamlNode::Ptr& y) { return equal(*x, *y); });
}

bool uses_half(const TrainerArguments& a) {
  const std::string& backend = a.text("half_precision_backend");
  return (a.on("fp16") || a.on("fp16_full_eval")) &&
         (backend == "auto" || backend == "amp" || backend == "cuda_amp" || backend == "cpu_amp");
}

// A rule for "auto": the key, the flag by Transformers' name, and the value. Without a flag the key is filled and not
// compared with a flag.
struct FilledKey {
  std::string_view key, flag;
  std::function<YamlNode::Ptr(const TrainerArguments&, const TrainerFacts&)> value;  // null: not known
};

const std::vector<FilledKey>& filled_keys() {
  const auto flag = [](std::string_view name) {
    return [name](const TrainerArguments& a, const TrainerFacts&) { return std::make_shared<const YamlNode>(a.value(name)); };
  };
  static const std::vector<FilledKey> keys = {
      {"train_micro_batch_size_per_gpu", "per_device_train_batch_size", flag("per_device_train_batch_size")},
      {"gradient_accumulation_steps", "gradient_accumulation_steps", flag("gradient_accumulation_steps")},
      {"train_batch_size", "train_batch_size (ranks x per_device_train_batch_size x gradient_accumulation_steps)",
       [](const TrainerArguments& a, const TrainerFacts& f) {
         return node_of(f.ranks * a.whole("per_device_train_batch_size") * a.whole("gradient_accumulation_steps"));
       }},
      {"gradient_clipping", "max_grad_norm", flag("max_grad_norm")},
      {"optimizer.params.lr", "learning_rate", flag("learning_rate")},
      {"optimizer.params.betas", "adam_beta1+adam_beta2",
       [](const TrainerArguments& a, const TrainerFacts&) {
         return list_of({std::make_shared<const YamlNode>(a.value("adam_beta1")),
                         std::make_shared<const YamlNode>(a.value("adam_beta2"))});
       }},
      {"optimizer.params.eps", "adam_epsilon", flag("adam_epsilon")},
      {"optimizer.params.weight_decay", "weight_decay", flag("weight_decay")},
      {"scheduler.params.warmup_min_lr", "", [](const TrainerArguments&, const TrainerFacts&) { return node_of(int64_t{0}); }},
      {"scheduler.params.warmup_max_lr", "learning_rate", flag("learning_rate")},
      {"fp16.enabled", "fp16|fp16_full_eval+half_precision_backend",
       [](const TrainerArguments& a, const TrainerFacts&) { return node_of(uses_half(a)); }},
      {"amp.enabled", "fp16+half_precision_backend(apex)",
       [](const TrainerArguments& a, const TrainerFacts&) { return node_of(a.text("half_precision_backend") == "apex"); }},
      {"amp.opt_level", "fp16_opt_level", flag("fp16_opt_level")},
      {"bf16.enabled", "bf16|bf16_full_eval",
       [](const TrainerArguments& a, const TrainerFacts&) { return node_of(a.on("bf16") || a.on("bf16_full_eval")); }},
      {"scheduler.params.total_num_steps", "num_training_steps (calculated)",
       [](const TrainerArguments& a, const TrainerFacts& f) -> YamlNode::Ptr {
         const int64_t steps = updates_of_run(a, f);
         return steps > 0 ? node_of(steps) : nullptr;
       }},
      {"scheduler.params.warmup_num_steps", "warmup_steps",
       [](const TrainerArguments& a, const TrainerFacts& f) -> YamlNode::Ptr {
         const int64_t steps = warmup_of_run(a, f);
         if (steps < 0) return nullptr;
         return node_of(f.version == TransformersVersion::v5_23 ? std::max<int64_t>(1, steps) : steps);
       }},
      {"zero_optimization.reduce_bucket_size", "",
       [](const TrainerArguments&, const TrainerFacts& f) -> YamlNode::Ptr {
         return f.hidden_size ? node_of(*f.hidden_size * *f.hidden_size) : nullptr;
       }},
      {"zero_optimization.stage3_prefetch_bucket_size", "",
       [](const TrainerArguments&, const TrainerFacts& f) -> YamlNode::Ptr {
         const double h = f.hidden_size ? static_cast<double>(*f.hidden_size) : 0;
         return f.hidden_size ? node_of(static_cast<int64_t>(std::floor(0.9 * h * h))) : nullptr;
       }},
      {"zero_optimization.stage3_param_persistence_threshold", "",
       [](const TrainerArguments&, const TrainerFacts& f) -> YamlNode::Ptr {
         return f.hidden_size ? node_of(10 * *f.hidden_size) : nullptr;
       }},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "",
       [](const TrainerArguments&, const TrainerFacts&) { return node_of(false); }},
  };
  return keys;
}

bool takes_default_for_auto(std::string_view key) {
  for (const std::string_view section :
       {"zero_optimization.", "fp16.", "bf16.", "aio.", "tensorboard.", "wandb.", "csv_monitor.", "comet.", "comms_logger."})
    if (key.starts_with(section)) return true;
  return false;
}

}  // namespace

int64_t updates_of_pass(const TrainerArguments& args, const TrainerFacts& facts) {
  if (!facts.samples) return 0;
  const auto parts = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
  const int64_t micro = args.whole("per_device_train_batch_size"), accumulated = args.whole("gradient_accumulation_steps");
  const int64_t batches =
      args.on("dataloader_drop_last") ? *facts.samples / micro / facts.ranks : parts(parts(*facts.samples, micro), facts.ranks);
  const bool own_step = facts.version != TransformersVersion::v4_37;  // the last batches of an epoch are an update
  return std::max<int64_t>(1, own_step ? parts(batches, accumulated) : batches / accumulated);
}

std::string_view pass_end(const TrainerArguments& args, const TrainerFacts& facts) {
  const int64_t micro = args.whole("per_device_train_batch_size"), accumulated = args.whole("gradient_accumulation_steps");
  const bool drops = args.on("dataloader_drop_last");
  if (facts.version == TransformersVersion::v4_37 && accumulated > 1) {
    if (!facts.samples) return "go-on";
    const int64_t batches =
        drops ? *facts.samples / micro / facts.ranks : ceil_div(ceil_div(*facts.samples, micro), facts.ranks);
    if (batches % accumulated != 0) return "go-on";
  }
  return drops ? "drop" : "short";
}

int64_t updates_of_run(const TrainerArguments& args, const TrainerFacts& facts) {
  if (args.whole("max_steps") > 0) return args.whole("max_steps");
  return static_cast<int64_t>(std::ceil(args.number("num_train_epochs") * static_cast<double>(updates_of_pass(args, facts))));
}

int64_t warmup_of_run(const TrainerArguments& args, const TrainerFacts& facts) {
  const double steps = args.number("warmup_steps");
  if (steps >= 1) return static_cast<int64_t>(steps);
  const double ratio = steps > 0 ? steps : args.number("warmup_ratio");
  if (ratio == 0) return 0;
  const int64_t run = updates_of_run(args, facts);
  return run > 0 ? static_cast<int64_t>(std::ceil(static_cast<double>(run) * ratio)) : -1;
}

bool compared_with_flag(std::string_view key) {
  return std::any_of(filled_keys().begin(), filled_keys().end(),
                     [&](const FilledKey& k) { return k.key == key && !k.flag.empty(); });
}

void fill_auto(DeepSpeedConfig& config, const TrainerArguments& args, const TrainerFacts& facts,
               std::vector<KeyRefusal>& refusals) {
  for (DeepSpeedGiven& g : config.keys) {
    std::string key = g.key;
    if (key == "zero_optimization.stage3_gather_fp16_weights_on_model_save")
      key = "zero_optimization.stage3_gather_16bit_weights_on_model_save";
    const auto rule =
        std::find_if(filled_keys().begin(), filled_keys().end(), [&](const FilledKey& k) { return k.key == key; });
    const YamlNode::Ptr filled = rule == filled_keys().end() ? nullptr : rule->value(args, facts);
    const auto refuse = [&](const std::string& why) { refusals.push_back(key_refusal(g.written, g.source, why)); };
    if (g.automatic && filled) {
      g.value = filled;
    } else if (g.automatic && rule != filled_keys().end()) {
      const bool of_model = key.starts_with("zero");
      refuse(fmt::format("\"auto\" follows from {}, which is not known; {}",
                         of_model ? "the model's hidden size" : "the steps of the run",
                         of_model ? "name the model by --model_name_or_path" : "set --max_steps, or name --train_file"));
    } else if (g.automatic && takes_default_for_auto(key)) {
      g.left_to_default = true;
    } else if (g.automatic) {
      refuse("the Trainer fills \"auto\" of some keys, and this is none of them; write its value");
    } else if (filled && !rule->flag.empty() && g.value->kind != Kind::null && !equal(*g.value, *filled)) {
      refuse(fmt::format("it is {}, and {} is {}; write \"auto\", or the same in both", written_value(*g.value), rule->flag,
                         written_value(*filled)));
    }
  }
  // These classes have no default for total_num_steps.
  const std::string schedule = config.text("scheduler.type", "");
  const bool decays = schedule == "warmupdecaylr" || schedule == "warmupcosinelr";
  if (const DeepSpeedGiven* total = config.find("scheduler.params.total_num_steps");
      decays && (!total || total->value->kind == Kind::null)) {
    const DeepSpeedGiven& type = *config.find("scheduler.type");
    refusals.push_back(
        key_refusal("scheduler.params.total_num_steps", total ? total->source : type.source,
                    fmt::format("{} does not begin without it; write \"auto\", or the steps of the run", type.value->text)));
  }
}

}  // namespace ravine
