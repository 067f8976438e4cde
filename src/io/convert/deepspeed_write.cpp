#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "files/atomic.h"
#include "io/convert/deepspeed_layout.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/hf_folder.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/ravine_checkpoint.h"
#include "io/convert/torch_fields.h"
#include "io/convert/trainer_state.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

constexpr const char* kZeroVersion = "0.19.8";  // DeepSpeed version of the layout

struct Trained {
  std::string name;
  bool decays = true;
  ElementsPtr master;
  std::vector<ElementsPtr> states;  // in order of keys_
};

// Every ranks-th of a group from the first, then from the second, and so on.
std::vector<Trained> dealt_out(std::vector<Trained> group, int64_t ranks) {
  std::vector<Trained> out;
  const auto hands = static_cast<size_t>(ranks);
  for (size_t hand = 0; hand < hands; ++hand)
    for (size_t i = hand; i < group.size(); i += hands) out.push_back(std::move(group[i]));
  return out;
}

class StateFolder {
 public:
  StateFolder(const std::string& folder, const Json& model, const std::string& where, const DeepSpeedState& s)
      : s_(s), where_(folder), g_(geometry_of(model, where)), reader_(folder, false) {
    check();
    weights_ = read_ravine_checkpoint(folder, model, where, StateKind::masters);
    Weights states[2];
    const bool moments = any("m/"), second = moments && any("v/");
    if (moments)
      keys_.emplace_back("exp_avg"), states[0] = read_ravine_checkpoint(folder, model, where, StateKind::first_moment);
    if (second)
      keys_.emplace_back("exp_avg_sq"), states[1] = read_ravine_checkpoint(folder, model, where, StateKind::second_moment);
    to_family_files(weights_, g_);
    for (size_t k = 0; k < keys_.size(); ++k) to_family_files(states[k], g_);
    std::vector<std::pair<DeepSpeedPlace, std::string>> order;
    for (const auto& [name, e] : weights_.tensors) order.emplace_back(deepspeed_place(name, g_.spec().names, where), name);
    std::sort(order.begin(), order.end());
    std::map<std::string, bool> decays;
    for (const FileTensor& t : g_.model->files().tensors) decays[t.name] = t.params[0]->decay;
    for (const auto& [place, name] : order) {
      Trained t{name, s.optimizer.decay == DecayOf::all || decays[name], weights_.tensors.at(name), {}};
      for (size_t k = 0; k < keys_.size(); ++k)
        if (const auto it = states[k].tensors.find(name); it != states[k].tensors.end()) t.states.push_back(it->second);
      if (!keys_.empty() && t.states.empty())
        frozen_.push_back(name);
      else if (t.states.size() != keys_.size())
        throw UserError(fmt::format("a moment of '{}' is missing", name), folder, "it has both or none", kComplete);
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

  void write(TargetFolder& folder, const std::function<void(int64_t)>& progress);

 private:
  // True if the optimizer has such a state for any parameter.
  bool any(const std::string& kind) const {
    const auto& all = g_.model->params().params();
    return std::any_of(all.begin(), all.end(), [&](const Param& p) { return reader_.has(kind + p.name); });
  }
  const Json& scalars() const { return reader_.scalars(); }
  int64_t count(const char* key, int64_t otherwise) const { return field_or(scalars(), key, where_, otherwise); }
  int64_t step() const { return reader_.step(); }
  int64_t updates() const { return count("optimizer_steps", step()); }
  std::string tag() const { return fmt::format("global_step{}{}", step(), s_.universal ? "_universal" : ""); }
  bool sixteen_bits() const { return s_.compute != DType::f32; }

  void check() const;
  Json scale_state() const;
  void put_scaler(TorchFields& w) const;
  void put_param_groups(TorchFields& w, const std::vector<std::vector<int64_t>>& numbers) const;
  std::vector<std::vector<std::vector<const Trained*>>> sub_groups() const;  // for each group
  std::vector<ElementsPtr> column(const std::vector<const Trained*>& of, size_t key) const;
  void put_scheduler(TorchFields& w) const;
  void put_state(TorchFields& w, const std::function<ElementsPtr(size_t)>& of_key) const;
  void put_ds_config(TorchFields& w) const;
  void write_model(TargetFolder& folder, const std::string& file, int64_t rank, const std::function<void(int64_t)>& progress);
  void put_optimizer(TorchFields& w);  // stage 0
  void write_shard(TargetFolder& folder, const std::string& file, int64_t rank, const std::function<void(int64_t)>& progress);
  void write_universal(TargetFolder& folder, const std::function<void(int64_t)>& progress);
  void write_beside(TargetFolder& folder, const std::function<void(int64_t)>& progress);

  const DeepSpeedState& s_;
  std::string where_;
  Geometry g_;
  CheckpointReader reader_;
  Weights weights_;
  std::vector<std::string> keys_, order_, frozen_;
  std::vector<Trained> groups_[2];  // parameters with weight decay, and the others
  std::vector<std::vector<Trained>*> filled_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // (tied head, embedding)
};

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

// A rank's range of the flat vector of a group. The vector is padded to a multiple of 2 elements per rank.
struct Partition {
  Partition(int64_t count, int64_t ranks, int64_t rank) {
    size = round_up(count, 2 * ranks) / ranks;
    begin = rank * size;
    lean = std::clamp<int64_t>(count - begin, 0, size);
  }
  int64_t begin = 0, size = 0, lean = 0;  // lean: size without padding
};

int64_t count_of(const std::vector<Trained>& group) {
  int64_t n = 0;
  for (const Trained& t : group) n += t.master->count();
  return n;
}

std::vector<ElementsPtr> StateFolder::column(const std::vector<const Trained*>& of, size_t key) const {
  std::vector<ElementsPtr> out;
  for (const Trained* t : of) out.push_back(key == keys_.size() ? t->master : t->states[key]);
  return out;
}

std::vector<const Trained*> pointers(const std::vector<Trained>& group) {
  std::vector<const Trained*> out;
  for (const Trained& t : group) out.push_back(&t);
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

void StateFolder::write_model(TargetFolder& folder, const std::string& file, int64_t rank,
                              const std::function<void(int64_t)>& progress) {
  if (folder.has(file)) return;
  TorchFields w(folder.path(file), progress);
  const bool placeholders = s_.stage == 3 || s_.universal;
  w.out.begin_dict();
  w.key("module"), w.out.begin_ordered_dict();
  std::map<std::string, size_t> storages;
  const ElementsPtr nothing = zeros(s_.compute, {0});
  for (const std::string& n : order_) {
    w.key(n);
    storages[n] = w.tensor(placeholders ? nothing : weights_.tensors.at(n), s_.compute);
  }
  for (const auto& [alias, of] : aliases_)
    w.key(alias), w.out.same_tensor(storages.at(of), s_.compute, placeholders ? Shape{0} : weights_.tensors.at(of)->shape());
  w.out.end();
  w.key("buffer_names"), w.out.begin_list(), w.out.end();
  w.key("optimizer");
  s_.stage == 0 && !s_.universal ? put_optimizer(w) : w.out.none();
  const bool zero = s_.stage > 0 || s_.universal;
  const auto shapes = [&](const auto& of) {
    w.out.begin_ordered_dict();
    for (const auto& [n, shape] : of) w.key(n), w.out.size(shape);
    w.out.end();
  };
  using Shapes = std::vector<std::pair<std::string, Shape>>;
  w.key("param_shapes");
  if (zero) {
    w.out.begin_list();
    for (const auto& group : sub_groups()) {
      Shapes of;
      for (const auto& sub : group) {
        for (const Trained* t : sub) of.emplace_back(t->name, t->master->shape());
        if (s_.stage == 3) shapes(of), of.clear();
      }
      if (s_.stage != 3) shapes(of);
    }
    w.out.end();
  } else {
    w.out.none();
  }
  const bool keeps_frozen = s_.stage >= 2 || s_.universal;
  w.key("frozen_param_shapes");
  if (keeps_frozen) {
    Shapes of;
    for (const std::string& n : frozen_) of.emplace_back(n, weights_.tensors.at(n)->shape());
    shapes(of);
  } else {
    w.out.none();
  }
  w.key("shared_params");
  if (zero) {
    w.out.begin_dict();
    for (const auto& [alias, of] : aliases_) w.text(alias, of);
    w.out.end();
  } else {
    w.out.none();
  }
  w.key("frozen_param_fragments");
  if (keeps_frozen) {
    w.out.begin_ordered_dict();
    for (const std::string& n : frozen_) {
      const ElementsPtr e = weights_.tensors.at(n);
      w.key(n),
          w.tensor(s_.stage == 3 && !s_.universal ? chunks({e}, rank, s_.ranks, "chunk of a frozen parameter") : e, s_.compute);
    }
    w.out.end();
  } else {
    w.out.none();
  }
  w.key("lr_scheduler"), put_scheduler(w);
  w.none("data_sampler"), w.none("random_ltd");
  w.number("skipped_steps", step() - updates()), w.number("global_steps", step());
  w.number("global_samples", step() * count("global_batch", 1));
  w.number("dp_world_size", s_.ranks), w.number("mp_world_size", 1);
  put_ds_config(w);
  w.key("universal_checkpoint_info"), w.json({{"universal_checkpoint_version", 0.4}});
  w.text(kOwnScalars, kept_scalars(scalars()).dump());
  w.out.end();
  w.commit();
}

void StateFolder::write_shard(TargetFolder& folder, const std::string& file, int64_t rank,
                              const std::function<void(int64_t)>& progress) {
  if (folder.has(file)) return;
  TorchFields w(folder.path(file), progress);
  w.out.begin_dict();
  w.key("optimizer_state_dict"), w.out.begin_dict();
  put_scaler(w);
  w.number("zero_stage", s_.stage);
  std::vector<std::vector<int64_t>> numbers;
  int64_t next = 0;
  if (s_.stage == 3) {
    const auto subs = sub_groups();
    w.number("partition_count", s_.ranks);
    w.key("optimizer_state_dict"), w.out.begin_dict();
    w.key("state"), w.out.begin_dict();
    for (const auto& group : subs) {
      auto& n = numbers.emplace_back();
      for (const auto& sub : group) {
        n.push_back(next);
        w.out.integer(next++);
        put_state(w, [&](size_t k) { return chunks(column(sub, k), rank, s_.ranks, "chunks"); });
      }
    }
    w.out.end();
    put_param_groups(w, numbers);
    w.out.end();
    w.key("fp32_flat_groups"), w.out.begin_list();
    for (const auto& group : subs)
      for (const auto& sub : group) w.tensor(chunks(column(sub, keys_.size()), rank, s_.ranks, "chunks"), DType::f32);
    w.out.end();
  } else {
    w.real("clip_grad", s_.optimizer.clip_norm);
    w.key("base_optimizer_state"), w.out.begin_dict();
    w.key("state"), w.out.begin_dict();
    std::vector<Partition> parts;
    for (const auto* group : filled_) {
      const Partition& part = parts.emplace_back(count_of(*group), s_.ranks, rank);
      numbers.push_back({next});
      w.out.integer(next++);
      put_state(w, [&](size_t k) { return flat_range(column(pointers(*group), k), part.begin, part.size, "partition"); });
    }
    w.out.end();
    put_param_groups(w, numbers);
    w.out.end();
    w.key("single_partition_of_fp32_groups"), w.out.begin_list();
    for (size_t i = 0; i < filled_.size(); ++i)
      w.tensor(flat_range(column(pointers(*filled_[i]), keys_.size()), parts[i].begin, parts[i].lean, "partition"), DType::f32);
    w.out.end();
    w.key("group_paddings"), w.out.begin_list();
    for (const Partition& part : parts) w.out.integer(part.size - part.lean);
    w.out.end();
    w.key("partition_count"), w.out.begin_list();
    for (size_t i = 0; i < parts.size(); ++i) w.out.integer(s_.ranks);
    w.out.end();
    w.text("ds_version", kZeroVersion);
    w.key("param_slice_mappings"), w.out.begin_list();
    for (size_t i = 0; i < filled_.size(); ++i) {
      w.out.begin_ordered_dict();
      int64_t at = 0;
      for (const Trained& t : *filled_[i]) {
        const int64_t low = std::max(at, parts[i].begin),
                      high = std::min(at + t.master->count(), parts[i].begin + parts[i].size);
        at += t.master->count();
        if (low >= high) continue;
        w.key(t.name), w.out.begin_object("deepspeed.utils.tensor_fragment", "fragment_address");
        w.number("numel", high - low), w.number("start", low - parts[i].begin), w.out.end();
      }
      w.out.end();
    }
    w.out.end();
  }
  w.out.end();
  put_ds_config(w);
  w.out.end();
  w.commit();
}

void StateFolder::write_universal(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
  const std::string zero = tag() + "/zero/";
  create_folders(folder.path(zero));
  const auto tensor = [&](const std::string& file, const ElementsPtr& e) {
    if (folder.has(file)) return;
    TorchFields w(folder.path(file), progress);
    w.out.begin_dict(), w.key("param"), w.tensor(e, DType::f32), w.out.end();
    w.commit();
  };
  for (const auto* group : filled_)
    for (const Trained& t : *group) {
      create_folders(folder.path(zero + t.name));
      tensor(zero + t.name + "/fp32.pt", t.master);
      for (size_t k = 0; k < keys_.size(); ++k) tensor(fmt::format("{}{}/{}.pt", zero, t.name, keys_[k]), t.states[k]);
      TorchFields w(folder.path(zero + t.name + "/step.pt"), progress);
      w.out.integer(updates());
      w.commit();
    }
  TorchFields w(folder.path(zero + "optimizer_state.pt"), progress);
  w.out.begin_dict();
  put_scaler(w);
  w.real("clip_grad", s_.optimizer.clip_norm), w.number("zero_stage", s_.stage), w.text("ds_version", kZeroVersion);
  const std::vector<std::vector<int64_t>> numbers(filled_.size());
  put_param_groups(w, numbers);
  w.key("optimizer_state_dict"), w.out.begin_dict();  // as in stage 3
  w.key("state"), w.out.begin_dict();
  w.out.integer(0), w.out.begin_dict(), w.number("step", updates()), w.out.end();
  w.out.end();
  put_param_groups(w, numbers);
  w.out.end(), w.out.end();
  w.commit();
}

void StateFolder::write_beside(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
  std::vector<NamedElements> tensors;
  for (const auto& [n, e] : weights_.tensors) tensors.push_back({n, e, s_.compute});
  write_hf(folder, weights_, tensors, progress);
  const Json state = trainer_state_json(step(), count("tokens", 0), s_.trainer_state);
  write_file_atomic(folder.path("trainer_state.json"), state.dump(2) + "\n");
  if (!s_.arguments.is_null()) write_file_atomic(folder.path("training_args.json"), s_.arguments.dump(2) + "\n");
  TorchFields w(folder.path("scheduler.pt"), progress);
  put_scheduler(w);
  w.commit();
}

void StateFolder::write(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
  const std::string in = tag() + "/";
  create_folders(folder.path(in));
  const auto name_of = [&](int64_t rank, const char* kind) {
    return fmt::format("{}zero_pp_rank_{}_mp_rank_00_{}_states.pt", in, rank, kind);
  };
  if (s_.universal || s_.stage < 3) write_model(folder, in + "mp_rank_00_model_states.pt", 0, progress);
  if (s_.universal) {
    write_model(folder, name_of(0, "model"), 0, progress);  // the name that stage 3 reads
    write_universal(folder, progress);
  } else {
    for (int64_t r = 0; r < s_.ranks && s_.stage == 3; ++r) write_model(folder, name_of(r, "model"), r, progress);
    const std::string prefix = s_.compute == DType::bf16 ? "bf16_" : "";
    for (int64_t r = 0; r < s_.ranks && s_.stage > 0; ++r)
      write_shard(folder, fmt::format("{}{}zero_pp_rank_{}_mp_rank_00_optim_states.pt", in, prefix, r), r, progress);
  }
  write_beside(folder, progress);
  write_file_atomic(folder.path(s_.universal ? "latest_universal" : "latest"), tag());
}

}  // namespace

void write_deepspeed_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                           const DeepSpeedState& state, const std::function<void(int64_t)>& progress) {
  StateFolder(checkpoint, model, where, state).write(folder, progress);
}

int64_t deepspeed_state_bytes(const Weights& weights, const DeepSpeedState& s) {
  int64_t elements = 0;
  for (const auto& [name, e] : weights.tensors) elements += e->count();
  const int64_t copies = s.universal || s.stage == 3 ? 1 : 2, states = s.optimizer.type == OptimizerType::lion ? 2 : 3;
  return elements * (size_of(s.compute) * copies + states * size_of(DType::f32));
}

}  // namespace ravine
