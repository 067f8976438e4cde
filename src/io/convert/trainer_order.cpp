#include "io/convert/trainer_order.h"

#include <algorithm>

#include "base/error.h"
#include "io/convert/deepspeed_layout.h"
#include "model/decoder.h"

namespace ravine {
namespace {

constexpr std::string_view kWrapped = "base_model.model.";

// Returns the position of a parameter. PEFT's parameters follow their module's parameters, A before B.
DeepSpeedOrder trainer_position(const std::string& name, const CheckpointNames& names, const std::string& where) {
  if (!name.starts_with(kWrapped)) return deepspeed_order(name, names, where);
  const std::string own = name.substr(kWrapped.size());
  const size_t lora = own.find(".lora_");
  if (lora == std::string::npos) return deepspeed_order(own, names, where);
  DeepSpeedOrder order_key = deepspeed_order(own.substr(0, lora) + ".weight", names, where);
  const std::string_view kind = std::string_view(own).substr(lora);
  order_key.bias = 2 + (kind.starts_with(".lora_B") || kind.starts_with(".lora_embedding_B"));
  return order_key;
}

bool trained(const FileTensor& t, const std::string& where) {
  const auto is = [](const Param* p) { return p->policy.trainable && !p->policy.updated_by_rule; };
  const bool any = std::any_of(t.params.begin(), t.params.end(), is);
  if (any && !std::all_of(t.params.begin(), t.params.end(), is))
    throw UserError(fmt::format("a part of '{}' is frozen", t.name), where, "the Trainer's optimizer has whole parameters",
                    "freeze all of it or none, or set checkpoint.layout=ravine");
  return any;
}

}  // namespace

TrainerOrder trainer_order(const Model& model, const WeightFiles& files, const std::string& where, TrainerGrouping grouping) {
  require(model.decoder() != nullptr, "trainer_order: {} is no decoder", where);
  std::vector<std::pair<DeepSpeedOrder, const FileTensor*>> all;
  for (const FileTensor& t : files.tensors)
    if (trained(t, where)) all.emplace_back(trainer_position(t.name, model.decoder()->names, where), &t);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  TrainerOrder out;
  for (const auto& [order_key, t] : all) {
    const bool apart = t->name.ends_with("bias") || (!t->params[0]->decay && grouping == TrainerGrouping::norms_and_biases);
    out[apart && grouping != TrainerGrouping::none ? 1 : 0].push_back(t);
  }
  return out;
}

}  // namespace ravine
