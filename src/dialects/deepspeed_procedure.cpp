#include "dialects/deepspeed_procedure.h"

#include <algorithm>

#include "config/yaml_json.h"
#include "dialects/deepspeed_auto.h"
#include "dialects/deepspeed_json.h"
#include "dialects/dialect.h"
#include "dialects/trainer.h"

namespace ravine {

DeepSpeedStart read_deepspeed_start(const std::string& file, Config& options) {
  DeepSpeedStart out;
  std::string name = file;
  const YamlNode::Ptr root = read_deepspeed_json(file, name, out.notices);
  out.json = json_of(*root);
  std::vector<KeyRefusal> refusals;
  DeepSpeedConfig config = take_deepspeed_keys(*root, name, compared_with_flag, refusals, out.notices);
  std::erase_if(config.keys, [](const DeepSpeedGiven& given) { return given.automatic; });
  TrainerOutcome found;
  lead_deepspeed(config, read_trainer_flags({}, refusals), found);
  refusals.insert(refusals.end(), found.refusals.begin(), found.refusals.end());
  refuse_keys(refusals);
  for (const TrainerOutcome::Choice& choice : found.choices)
    for (const Section& section : sections_of(options))
      for (const Option& o : section.options)
        if (o.name() == choice.option) {
          o.assign(*load_yaml(flow_yaml(choice.value), choice.option, false), name);
          options.sources[choice.option] = name;
        }
  out.sets_batch = config.value("train_batch_size") != nullptr;
  if (out.sets_batch)
    options.train.global_batch = std::max<int64_t>(1, static_cast<int64_t>(config.number("train_batch_size", 1)));
  return out;
}

std::string deepspeed_json_of(const DeepSpeedStart& start, const Config& c, int64_t data_ranks) {
  Json out = start.json;
  Json& zero = out["zero_optimization"];
  if (!zero.is_object()) zero = Json::object();
  zero["stage"] = c.parallel.zero;
  for (const auto& [key, to] : {std::pair{"offload_optimizer", c.offload.optimizer}, {"offload_param", c.offload.params}}) {
    if (to == OffloadTo::none) {
      zero.erase(key);
      continue;
    }
    if (!zero.contains(key) || !zero[key].is_object()) zero[key] = {{"pin_memory", true}};
    zero[key]["device"] = to == OffloadTo::disk ? "nvme" : "cpu";
    if (to == OffloadTo::disk && !zero[key].contains("nvme_path")) zero[key]["nvme_path"] = c.offload.path;
  }
  if (c.parallel.zero == 3 && !zero.contains("stage3_gather_16bit_weights_on_model_save"))
    zero["stage3_gather_16bit_weights_on_model_save"] = true;
  if (c.precision.compute == DType::bf16) {
    out["bf16"] = {{"enabled", true}};
    out.erase("bfloat16");
    if (out.contains("fp16")) out["fp16"]["enabled"] = false;
  }
  for (const auto& [key, value] : {std::pair{"train_micro_batch_size_per_gpu", c.train.micro_batch},
                                   {"gradient_accumulation_steps", c.train.global_batch / c.train.micro_batch / data_ranks},
                                   {"train_batch_size", c.train.global_batch}})
    if (out.contains(key) && out[key] != "auto") out[key] = value;  // missing keys and "auto" follow from the flags
  return out.dump(2) + "\n";
}

}  // namespace ravine
