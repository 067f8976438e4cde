#include <algorithm>

#include "base/error.h"
#include "io/convert/deepspeed_layout.h"
#include "io/convert/deepspeed_state_folder.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/ravine_checkpoint.h"
#include "io/convert/torch_fields.h"
#include "model/vocabulary.h"

namespace ravine::deepspeed {
namespace {

// Every ranks-th of a group from the first, then from the second, and so on.
std::vector<Trained> dealt_out(std::vector<Trained> group, int64_t ranks) {
  std::vector<Trained> out;
  const auto hands = static_cast<size_t>(ranks);
  for (size_t hand = 0; hand < hands; ++hand)
    for (size_t i = hand; i < group.size(); i += hands) out.push_back(std::move(group[i]));
  return out;
}

}  // namespace

StateFolder::StateFolder(const std::string& folder, const Json& model, const std::string& where, const DeepSpeedState& s)
    : s_(s), where_(folder), g_(geometry_of(model, where)), reader_(folder, false) {
  check();
  weights_ = read_ravine_checkpoint(folder, model, where, StateKind::masters);
  Weights states[2];
  const bool moments = any("m/"), second = moments && any("v/");
  if (moments) keys_.emplace_back("exp_avg"), states[0] = read_ravine_checkpoint(folder, model, where, StateKind::first_moment);
  if (second)
    keys_.emplace_back("exp_avg_sq"), states[1] = read_ravine_checkpoint(folder, model, where, StateKind::second_moment);
  to_family_files(weights_, g_);
  for (size_t k = 0; k < keys_.size(); ++k) to_family_files(states[k], g_);
  std::vector<std::pair<DeepSpeedOrder, std::string>> order;
  for (const auto& [name, e] : weights_.tensors) order.emplace_back(deepspeed_order(name, g_.spec().names, where), name);
  std::sort(order.begin(), order.end());
  std::map<std::string, bool> decays;
  for (const FileTensor& t : g_.model->files().tensors) decays[t.name] = t.params[0]->decay;
  for (const auto& [order_key, name] : order) {
    Trained t{name, s.optimizer.decay == DecayOf::all || decays[name], weights_.tensors.at(name), {}};
    for (size_t k = 0; k < keys_.size(); ++k)
      if (const auto it = states[k].tensors.find(name); it != states[k].tensors.end()) t.states.push_back(it->second);
    if (!keys_.empty() && t.states.empty())
      frozen_.push_back(name);
    else if (t.states.size() != keys_.size())
      throw UserError(fmt::format("a moment of '{}' is missing", name), folder, "a parameter has both moments or none",
                      kComplete);
    else
      groups_[t.decays ? 0 : 1].push_back(std::move(t));
    order_.push_back(name);
  }
  for (auto& group : groups_) {
    if (s.round_robin && (s.stage == 1 || s.stage == 2) && !s.universal) group = dealt_out(std::move(group), s.ranks);
    if (!group.empty()) filled_.push_back(&group);
  }
  for (const std::string& alias : g_.model->files().copies)
    for (const FileTensor& t : g_.model->files().tensors)
      if (t.params[0]->name == kEmbedding) aliases_.emplace_back(alias, t.name);
}

void StateFolder::check() const {
  const auto refuse = [&](const std::string& what, const std::string& rule, const std::string& fix) {
    throw UserError(what, where_, rule, fix);
  };
  if (s_.compute != DType::f32 && s_.compute != DType::bf16 && s_.compute != DType::f16)
    refuse(fmt::format("arithmetic in {}", name(s_.compute)), "DeepSpeed trains in f32, bf16 and f16", "give another type");
  for (const std::string& n : reader_.names())
    if (const std::string kind = n.substr(0, n.find('/')); kind != "weights" && kind != "m" && kind != "v")
      refuse(fmt::format("a state '{}' of the optimizer", n), "states of adamw, adam and lion are written",
             "write the weights alone: --to hf");
  if (!s_.optimizer.groups.empty())
    refuse("optimizer.groups", "DeepSpeed's checkpoint has the groups that decay and that do not",
           "write the weights alone: --to hf");
}

int64_t count_of(const std::vector<Trained>& group) {
  int64_t n = 0;
  for (const Trained& t : group) n += t.master->count();
  return n;
}

std::vector<const Trained*> pointers(const std::vector<Trained>& group) {
  std::vector<const Trained*> out;
  for (const Trained& t : group) out.push_back(&t);
  return out;
}

std::vector<ElementsPtr> StateFolder::column(const std::vector<const Trained*>& of, size_t key) const {
  std::vector<ElementsPtr> out;
  for (const Trained* t : of) out.push_back(key == keys_.size() ? t->master : t->states[key]);
  return out;
}

std::vector<std::vector<std::vector<const Trained*>>> StateFolder::sub_groups() const {
  std::vector<std::vector<std::vector<const Trained*>>> out;
  for (const auto* group : filled_) {
    auto& subs = out.emplace_back(1);
    int64_t here = 0;
    for (const Trained& t : *group) {
      if (here >= s_.sub_group) subs.emplace_back(), here = 0;
      subs.back().push_back(&t);
      here += ceil_div(t.master->count(), s_.ranks);
    }
  }
  return out;
}

// Returns the loss scale; null if it is static. Counts as in DeepSpeed: from 0, with the last overflow initially -1.
Json StateFolder::scale_state() const {
  const auto it = scalars().find("loss_scale");
  if (s_.dynamic_scale && it != scalars().end() && it->is_object()) return *it;
  return Json();
}

void StateFolder::put_scaler(TorchFields& w) const {
  const Json scale = scale_state();
  constexpr const char* kModule = "deepspeed.runtime.fp16.loss_scaler";
  w.key("loss_scaler");
  if (scale.is_null()) {
    w.out.begin_object(kModule, "LossScaler");
    w.real("cur_scale", 1), w.truth("dynamic", false);
  } else {
    w.out.begin_object(kModule, "DynamicLossScaler");
    w.real("cur_scale", scale.value("scale", 65536.0));
    w.number("cur_iter", scale.value("step", updates()));
    w.number("last_overflow_iter", scale.value("last_overflow", int64_t{-1}));
    w.real("scale_factor", 2), w.number("scale_window", s_.scale_window), w.real("min_scale", s_.scale_min);
    w.number("delayed_shift", s_.scale_hysteresis);
    w.number("cur_hysteresis", scale.value("hysteresis", s_.scale_hysteresis));
    w.truth("consecutive_hysteresis", s_.scale_consecutive), w.truth("raise_error_at_min_scale", true);
    w.truth("dynamic", true), w.key("dtype"), w.out.type(DType::f16);
  }
  w.out.end();
  w.truth("dynamic_loss_scale", !scale.is_null()), w.truth("overflow", false);
}

// Writes torch's param_groups; `numbers` has the state numbers of each group.
void StateFolder::put_param_groups(TorchFields& w, const std::vector<std::vector<int64_t>>& numbers) const {
  const OptimizerOptions& o = s_.optimizer;
  w.key("param_groups"), w.out.begin_list();
  for (size_t i = 0; i < filled_.size(); ++i) {
    const bool decays = filled_[i] == &groups_[0];
    w.out.begin_dict();
    w.real("lr", s_.lr), w.real("initial_lr", o.lr);
    w.key("betas"), w.json(o.betas);
    w.real("eps", o.eps.empty() ? 1e-8 : o.eps[0]);
    w.real("weight_decay", decays ? o.weight_decay : 0);
    w.truth("bias_correction", true), w.truth("amsgrad", false), w.truth("maximize", false), w.none("foreach");
    w.truth("capturable", false), w.truth("differentiable", false), w.none("fused");
    w.truth("decoupled_weight_decay", o.type != OptimizerType::adam);
    w.number("step", updates());
    w.key("params"), w.out.begin_list();
    for (int64_t n : numbers[i]) w.out.integer(n);
    w.out.end(), w.out.end();
  }
  w.out.end();
}

void StateFolder::put_state(TorchFields& w, const std::function<ElementsPtr(size_t)>& of_key) const {
  w.out.begin_dict();
  w.number("step", updates());
  for (size_t k = 0; k < keys_.size(); ++k) w.key(keys_[k]), w.tensor(of_key(k), DType::f32);
  w.out.end();
}

// Writes the fields read by DeepSpeed's own schedulers and by torch's LambdaLR.
void StateFolder::put_scheduler(TorchFields& w) const {
  const auto each = [&](const char* key, const std::function<void()>& value) {
    w.key(key), w.out.begin_list();
    for (size_t i = 0; i < filled_.size(); ++i) value();
    w.out.end();
  };
  w.out.begin_dict();
  w.number("last_batch_iteration", updates() - 1);
  each("base_lrs", [&] { w.out.real(s_.optimizer.lr); });
  w.number("last_epoch", updates()), w.number("_step_count", updates() + 1);
  each("_last_lr", [&] { w.out.real(s_.lr); });
  each("lr_lambdas", [&] { w.out.none(); });
  w.out.end();
}

void StateFolder::put_ds_config(TorchFields& w) const {
  Json j = s_.ds_config.is_object() ? s_.ds_config : Json::object();
  if (!j.contains("zero_optimization") || !j["zero_optimization"].is_object()) j["zero_optimization"] = Json::object();
  j["zero_optimization"]["stage"] = s_.stage;
  if (s_.compute == DType::bf16) j["bf16"] = {{"enabled", true}};
  if (s_.compute == DType::f16 && !j.contains("fp16")) j["fp16"] = {{"enabled", true}};
  w.key("ds_config"), w.json(j);
  w.text("ds_version", kZeroVersion);
}

// Writes the optimizer of stage 0: torch's, with one state per parameter; in 16 bits DeepSpeed's, with flat groups.
void StateFolder::put_optimizer(TorchFields& w) {
  std::vector<std::vector<int64_t>> numbers;
  int64_t next = 0;
  for (const auto* group : filled_) {
    auto& n = numbers.emplace_back();
    for (size_t i = 0; i < (sixteen_bits() ? 1 : group->size()); ++i) n.push_back(next++);
  }
  w.out.begin_dict();
  if (sixteen_bits()) w.key("optimizer_state_dict"), w.out.begin_dict();
  w.key("state"), w.out.begin_dict();
  next = 0;
  for (const auto* group : filled_) {
    if (sixteen_bits()) {
      w.out.integer(next++);
      put_state(w, [&](size_t k) { return flat_range(column(pointers(*group), k), 0, count_of(*group), "flat group"); });
      continue;
    }
    for (const Trained& t : *group) w.out.integer(next++), put_state(w, [&](size_t k) { return t.states[k]; });
  }
  w.out.end();
  put_param_groups(w, numbers);
  if (sixteen_bits()) {
    w.out.end();
    w.key("fp32_groups_flat"), w.out.begin_list();
    for (const auto* group : filled_)
      w.tensor(flat_range(column(pointers(*group), keys_.size()), 0, count_of(*group), "flat group"), DType::f32);
    w.out.end();
    w.real("clip_grad", s_.optimizer.clip_norm);
    const Json scale = scale_state();
    if (s_.compute == DType::f16) {
      w.truth("dynamic_loss_scale", !scale.is_null());
      w.real("cur_scale", scale.is_null() ? 1 : scale.value("scale", 65536.0));
      w.number("cur_iter", scale.is_null() ? updates() : scale.value("step", updates()));
      w.number("last_overflow_iter", scale.is_null() ? -1 : scale.value("last_overflow", int64_t{-1}));
      w.real("scale_factor", 2), w.number("scale_window", s_.scale_window);
    }
  }
  w.out.end();
}

}  // namespace ravine::deepspeed
