#include "io/convert/held_options.h"

#include <algorithm>

#include "config/config.h"
#include "config/yaml_json.h"
#include "files/convert.h"
#include "files/tensor_set.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/torch_elements.h"
#include "io/convert/zero_checkpoint.h"

namespace ravine {
namespace {

// Adds betas, eps and weight decay from the groups of a torch optimizer. Groups without decay hold norms and biases.
void add_groups(const Json& groups, Json& values) {
  double decay = 0;
  for (const Json& fields : groups.is_array() ? groups : Json::array()) {
    if (!fields.is_object()) continue;
    const auto number = [&](const char* key) { return fields.contains(key) && fields[key].is_number(); };
    if (number("weight_decay")) decay = std::max(decay, fields["weight_decay"].get<double>());
    if (number("weight_decay")) values["optimizer.weight_decay"] = decay;
    if (fields.contains("betas")) values["optimizer.betas"] = fields["betas"];
    if (number("eps")) values["optimizer.eps"] = Json::array({fields["eps"]});
    if (number("initial_lr")) values["optimizer.lr"] = fields["initial_lr"];
  }
}

// Adds the fields of opt_param_scheduler, also under the names of 2021.
void add_scheduler(const Json& s, double batch, Json& values) {
  const auto first = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (const auto it = s.find(key); it != s.end()) return *it;
    return Json();
  };
  const auto put = [&](const char* option, const Json& value, double by = 1) {
    if (value.is_number()) values[option] = by == 1 ? value : Json(value.get<double>() / by);
    if (value.is_string()) values[option] = value;
  };
  put("optimizer.lr", first({"max_lr", "start_lr"}));
  put("schedule.min_lr", first({"min_lr"}));
  put("schedule.lr_decay_style", first({"lr_decay_style", "decay_style"}));
  put("schedule.lr_warmup_steps", first({"lr_warmup_steps", "warmup_steps", "warmup_iter"}), batch);
  put("schedule.lr_decay_steps", first({"lr_decay_steps", "decay_steps", "end_iter"}), batch);
  put("optimizer.weight_decay", first({"start_wd"}));
  if (first({"end_wd"}) != first({"start_wd"})) put("end_weight_decay", first({"end_wd"}));
  if (values.contains("schedule.lr_decay_style")) values["schedule.type"] = "OptimizerParamScheduler";
}

// Parses args.data_path: prefixes, each optionally preceded by a weight.
Json sources_of(const Json& words) {
  Json out = Json::array();
  for (size_t i = 0; words.is_array() && i < words.size(); ++i) {
    if (!words[i].is_string()) return Json();
    Json source = {{"path", words[i]}};
    const YamlNode n = resolve_scalar(words[i].get<std::string>());
    if (i + 1 < words.size() && n.kind != YamlNode::Kind::text) source = {{"path", words[i + 1]}, {"weight", n.real}}, ++i;
    out.push_back(source);
  }
  return out;
}

void add_arguments(const TorchFile& f, Json& values) {
  const Pickle& p = f.pickle();
  const auto args = p.find(p.root(), "args");
  if (!args) return;
  for (const auto& [key, option] : {std::pair{"seed", "train.seed"},
                                    {"global_batch_size", "train.global_batch"},
                                    {"train_iters", "train.steps"},
                                    {"seq_length", "data.sequence_length"},
                                    {"split", "data.split"},
                                    {"clip_grad", "optimizer.clip_norm"}})
    if (const auto v = p.find(*args, key)) {
      const Json value = plain_values(p, *v);
      if (value.is_number() || value.is_string()) values[option] = value;
    }
  for (const char* key : {"data_path", "train_data_path"})
    if (const auto v = p.find(*args, key); v && p.kind(*v) == Pickle::Kind::list)
      if (const Json sources = sources_of(plain_values(p, *v)); sources.is_array() && !sources.empty())
        values["data.train"] = sources;
}

}  // namespace

Json HeldOptions::recorded() const {
  if (kept.is_object())
    if (const auto it = kept.find(kKeptOptions); it != kept.end() && it->is_object() && !it->empty()) return *it;
  Json out = Json::object();
  Config config;
  for (const Section& s : sections_of(config))
    for (const Option& o : s.options)
      if (const auto it = values.find(o.name()); it != values.end()) try {
          o.assign(*load_yaml(flow_yaml(*it), "checkpoint", false), "checkpoint");
          out[o.name()] = o.yaml();
        } catch (const UserError&) {  // not a valid value of this option
        }
  return out;
}

HeldOptions megatron_held(const std::string& path, int64_t global_batch) {
  HeldOptions out;
  const MegatronFolder folder = open_megatron(path, StateKind::weights);
  const TorchFile& f = *folder.ranks[0].file;
  const Pickle& p = f.pickle();
  add_arguments(f, out.values);
  if (const auto optimizer = torch_optimizer(p)) add_groups(group_settings(p, *p.find(*optimizer, "param_groups")), out.values);
  for (const char* key : {"lr_scheduler", "opt_param_scheduler"})
    if (const auto v = p.find(p.root(), key)) {
      const Json state = plain_values(p, *v);
      if (state.is_object()) add_scheduler(state, static_cast<double>(std::max<int64_t>(1, global_batch)), out.values);
    }
  out.kept = kept_scalars_in(p);
  return out;
}

HeldOptions deepspeed_held(const std::string& path) {
  const ZeroRun run = read_zero_run(path);
  HeldOptions out{.kept = run.kept};
  add_groups(run.groups, out.values);
  if (run.steps > 0 && run.samples > 0 && run.samples % run.steps == 0)
    out.values["train.global_batch"] = run.samples / run.steps;
  if (run.lr_scheduler.is_object())  // LambdaLR of torch
    if (const auto base = run.lr_scheduler.find("base_lrs");
        base != run.lr_scheduler.end() && base->is_array() && !base->empty())
      out.values["optimizer.lr"] = base->front();
  return out;
}

HeldOptions mindformers_held(const std::string& path) {
  HeldOptions out;
  const std::shared_ptr<const TensorFile> file = open_tensor_file(path);
  if (const auto own = file->metadata().find(kOwnScalars); own != file->metadata().end())
    out.kept = kept_scalars_of(own->second);
  if (const TensorInfo* t = file->find("global_batch_size"); t && t->shape.count() == 1) {
    std::byte bytes[8] = {};
    double batch = 0;
    file->read(*t, 0, {bytes, static_cast<size_t>(size_of(t->dtype))});
    convert(t->dtype, bytes, DType::f64, &batch, 1);
    if (batch > 0) out.values["train.global_batch"] = batch;
  }
  return out;
}

}  // namespace ravine
