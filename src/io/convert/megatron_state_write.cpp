#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "files/atomic.h"
#include "io/convert/hf_folder.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron_distrib.h"
#include "io/convert/megatron_place.h"
#include "io/convert/megatron_rank_file.h"
#include "io/convert/megatron_state.h"
#include "io/convert/ravine_checkpoint.h"

namespace ravine {
namespace {

constexpr const char* kMoments[] = {"exp_avg", "exp_avg_sq"};

// A tensor of one rank with its moments. A rank's tensors have the order of the modules.
struct TrainedTensor {
  std::string name;
  int64_t chunk = 0;
  ElementsPtr values[3];  // masters, first moments, second moments
  bool decays() const { return values[0]->shape().rank() > 1; }
};

class MegatronRunFolder {
 public:
  MegatronRunFolder(const std::string& folder, const Json& model, const std::string& where, const MegatronState& s)
      : s_(s), where_(folder), g_(geometry_of(model, where)), reader_(folder, false) {
    check();
    constexpr StateKind kKinds[] = {StateKind::masters, StateKind::first_moment, StateKind::second_moment};
    for (size_t k = 0; k < 3; ++k) {
      weights_[k] = read_ravine_checkpoint(folder, model, where, kKinds[k]);
      for (const Param& p : g_.model->params().params())
        if (!p.tied && !weights_[k].tensors.contains(p.name))
          throw UserError(fmt::format("no {} of '{}'", k == 0 ? "weights" : kMoments[k - 1], p.name), folder,
                          "Megatron's optimizer has both moments of every parameter",
                          "write the weights alone: leave out --optimizer");
      files_[k] = plan_megatron(weights_[k], g_, s.layout, k > 0);
    }
  }

  void write(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
    for (size_t i = 0; i < files_[0].size(); ++i) {
      std::vector<TrainedTensor> trained;
      for (size_t t = 0; t < files_[0][i].tensors.size(); ++t) {
        const auto& own = files_[0][i].tensors[t];
        trained.push_back(
            {own.name, own.chunk, {own.elements, files_[1][i].tensors[t].elements, files_[2][i].tensors[t].elements}});
      }
      create_folders(folder_of(folder.path(files_[0][i].path)));
      write_rank(folder, files_[0][i], trained, progress);
      if (s_.distributed && s_.states) write_distrib(folder, distrib_file(files_[0][i].path), trained, progress);
    }
    if (s_.layout.place.empty()) return;
    std::vector<NamedElements> types;
    for (const auto& t : files_[0][0].tensors) types.push_back({t.name, t.elements, s_.compute});
    write_config(folder, weights_[0], types);
    copy_beside(folder, weights_[0]);
    write_file_atomic(folder.path(kMegatronTracker), std::to_string(step()));
  }

 private:
  const Json& scalars() const { return reader_.scalars(); }
  int64_t count(const char* key, int64_t otherwise) const { return field_or(scalars(), key, where_, otherwise); }
  int64_t step() const { return reader_.step(); }
  int64_t updates() const { return count("optimizer_steps", step()); }
  int64_t samples() const { return step() * count("global_batch", 1); }
  bool sixteen_bits() const { return s_.compute != DType::f32; }

  void check() const {
    const auto refuse = [&](const std::string& what, const std::string& rule, const std::string& fix) {
      throw UserError(what, where_, rule, fix);
    };
    if (s_.compute != DType::f32 && s_.compute != DType::bf16 && s_.compute != DType::f16)
      refuse(fmt::format("arithmetic in {}", name(s_.compute)), "Megatron trains in f32, bf16 and f16", "give another type");
    for (const std::string& n : reader_.names())
      if (const std::string kind = n.substr(0, n.find('/')); kind != "weights" && kind != "m" && kind != "v")
        refuse(fmt::format("a state '{}' of the optimizer", n), "states of adamw and adam are written",
               "write the weights alone: leave out --optimizer");
    if (!s_.optimizer.groups.empty())
      refuse("optimizer.groups", "Megatron's groups are matrices and vectors",
             "write the weights alone: leave out --optimizer");
  }

  // Returns the two groups: matrices, which decay, and vectors.
  static std::vector<std::vector<const TrainedTensor*>> groups_of(const std::vector<TrainedTensor>& trained) {
    std::vector<std::vector<const TrainedTensor*>> out(2);
    for (const TrainedTensor& t : trained) out[t.decays() ? 0 : 1].push_back(&t);
    std::erase_if(out, [](const auto& group) { return group.empty(); });
    return out;
  }

  void put_param_groups(TorchFields& w, const std::vector<std::vector<const TrainedTensor*>>& groups, bool numbers) const {
    const OptimizerOptions& o = s_.optimizer;
    w.key("param_groups"), w.out.begin_list();
    int64_t number = 0;
    for (const auto& group : groups) {
      const double decays = group[0]->decays() ? 1 : 0;
      w.out.begin_dict();
      w.real("wd_mult", decays), w.real("lr_mult", 1);
      w.truth("is_expert_parallel", false), w.truth("is_decoupled_lr", false), w.truth("default_config", true);
      w.real("max_lr", o.lr), w.real("min_lr", s_.scheduler.value("min_lr", 0.0));
      w.real("lr", s_.lr), w.truth("bias_correction", o.bias_correction);
      w.key("betas"), w.out.begin_tuple(), w.out.real(o.betas[0]), w.out.real(o.betas[1]), w.out.end();
      w.real("eps", o.eps[0]), w.real("weight_decay", o.weight_decay * decays);
      w.truth("amsgrad", false), w.truth("maximize", false);
      w.number("step", updates());
      if (numbers) {
        w.key("params"), w.out.begin_list();
        for (size_t i = 0; i < group.size(); ++i) w.out.integer(number++);
        w.out.end();
      }
      w.out.end();
    }
    w.out.end();
  }

  // Writes the states of parameters by number, and the groups of these numbers.
  void put_torch_optimizer(TorchFields& w, const std::vector<std::vector<const TrainedTensor*>>& groups) const {
    std::vector<std::byte> updates_f32(sizeof(float));
    const auto done = static_cast<float>(updates());
    std::memcpy(updates_f32.data(), &done, sizeof(float));
    const ElementsPtr steps = in_memory(DType::f32, {}, updates_f32);
    w.out.begin_dict();
    w.key("state"), w.out.begin_dict();
    int64_t number = 0;
    for (const auto& group : groups)
      for (const TrainedTensor* t : group) {
        w.out.integer(number++), w.out.begin_dict();
        w.key("step"), w.tensor(steps, DType::f32);
        for (size_t k = 0; k < 2; ++k) w.key(kMoments[k]), w.tensor(t->values[k + 1], DType::f32);
        w.out.end();
      }
    w.out.end();
    put_param_groups(w, groups, true);
    w.out.end();
  }

  void put_grad_scaler(TorchFields& w) const {
    const auto it = scalars().find("loss_scale");
    if (!s_.dynamic_scale || it == scalars().end() || !it->is_object()) return;
    std::vector<std::byte> scale(sizeof(float));
    const float value = it->value("scale", 65536.0F);
    std::memcpy(scale.data(), &value, sizeof(float));
    const int64_t good = it->value("step", step()) - 1 - it->value("last_overflow", int64_t{-1});
    w.key("grad_scaler"), w.out.begin_dict();
    w.key("scale"), w.tensor(in_memory(DType::f32, {1}, scale), DType::f32);
    w.number("growth_tracker", std::max<int64_t>(good, 0) % s_.scale_window);
    w.number("hysteresis_tracker", it->value("hysteresis", int64_t{2}));
    w.out.end();
  }

  void put_optimizer(TorchFields& w, const std::vector<TrainedTensor>& trained) const {
    const auto groups = groups_of(trained);
    if (!s_.distributed && !sixteen_bits()) return put_torch_optimizer(w, groups);
    w.out.begin_dict();
    w.key("optimizer");
    if (s_.distributed)
      w.out.begin_dict(), put_param_groups(w, groups, false), w.out.end();
    else
      put_torch_optimizer(w, groups);
    put_grad_scaler(w);
    if (!s_.distributed) {
      w.key("fp32_from_fp16_params"), w.out.begin_list();
      for (const auto& group : groups) {
        w.out.begin_list();
        for (const TrainedTensor* t : group) w.tensor(t->values[0], DType::f32);
        w.out.end();
      }
      w.out.end();
    }
    w.out.end();
  }

  Json arguments() const {
    const MegatronLayout& l = s_.layout;
    Json out = {{"iteration", step()},
                {"consumed_train_samples", samples()},
                {"consumed_valid_samples", 0},
                {"skipped_train_samples", 0},
                {"global_batch_size", count("global_batch", 1)},
                {"data_parallel_size", s_.ranks},
                {"world_size", s_.ranks * l.tensor * l.pipeline},
                {"use_distributed_optimizer", s_.distributed},
                {"overlap_grad_reduce", false},
                {"accumulate_allreduce_grads_in_fp32", s_.compute == DType::bf16},
                {"optimizer", "adam"},
                {"adam_beta1", s_.optimizer.betas[0]},
                {"adam_beta2", s_.optimizer.betas[1]},
                {"adam_eps", s_.optimizer.eps[0]},
                {"lr", s_.optimizer.lr},
                {"weight_decay", s_.optimizer.weight_decay},
                {"clip_grad", s_.optimizer.clip_norm},
                {"no_save_optim", !s_.states},
                {"no_save_rng", true},
                {"ckpt_format", "torch"}};
    out.update(s_.arguments);
    return out;
  }

  void write_rank(TargetFolder& folder, const MegatronFile& f, const std::vector<TrainedTensor>& trained,
                  const std::function<void(int64_t)>& progress) const {
    if (folder.has(f.path)) return;
    TorchFields w(folder.path(f.path), progress, true);
    w.out.begin_dict();
    put_model(w, f, g_, s_.layout, s_.compute, arguments());
    if (s_.states) w.key("optimizer"), put_optimizer(w, trained);
    if (s_.states && !s_.scheduler.empty()) {
      Json scheduler = s_.scheduler;
      scheduler["num_steps"] = samples();
      w.key("opt_param_scheduler"), w.json(scheduler);
    }
    w.number("num_floating_point_operations_so_far", 0);
    w.text(kOwnScalars, kept_scalars(scalars()).dump());
    w.out.end();
    w.commit();
  }

  // Writes the types of parameters and gradients, by which the distributed optimizer names a buffer.
  void put_types(TorchFields& w) const {
    const DType gradients = s_.compute == DType::bf16 ? DType::f32 : s_.compute;
    if (s_.layout.names == MegatronNames::legacy) return w.out.type(gradients);
    w.out.begin_tuple(), w.out.type(s_.compute), w.out.type(gradients), w.out.end();
  }

  void write_distrib(TargetFolder& folder, const std::string& file, const std::vector<TrainedTensor>& trained,
                     const std::function<void(int64_t)>& progress) const {
    if (folder.has(file)) return;
    const bool legacy = s_.layout.names == MegatronNames::legacy;
    TorchFields w(folder.path(file), progress, true);
    w.out.begin_dict();
    std::vector<std::vector<const TrainedTensor*>> chunks(static_cast<size_t>(s_.layout.virtual_stages));
    for (const TrainedTensor& t : trained) chunks[static_cast<size_t>(t.chunk)].push_back(&t);
    std::vector<DistribPlaces> places;
    for (const auto& chunk : chunks) {
      std::vector<int64_t> counts;
      for (const TrainedTensor* t : chunk) counts.push_back(t->values[0]->count());
      places.push_back(distrib_places(counts, {.alignment = legacy ? 1 : 64}));
      if (legacy) places.back().count = round_up(places.back().count, s_.ranks);
    }
    if (legacy) {
      w.key("per_bucket_numel"), w.out.begin_list();
      for (const DistribPlaces& p : places) {
        w.out.begin_dict(), put_types(w);
        w.out.begin_list(), w.out.integer(p.count), w.out.end();
        w.out.end();
      }
      w.out.end();
    } else {
      w.truth("buckets_coalesced", true);
    }
    for (size_t c = 0; c < chunks.size(); ++c) {
      w.out.integer(static_cast<int64_t>(c)), w.out.begin_dict();
      put_types(w), w.out.begin_dict();
      for (size_t k = 0; k < 3; ++k) {
        w.key(k == 0 ? "param" : kMoments[k - 1]);
        if (legacy) w.out.begin_list();
        w.tensor(flat(chunks[c], places[c], k), DType::f32);
        if (legacy) w.out.end();
      }
      if (!legacy) w.number("numel_unpadded", places[c].count);
      w.out.end(), w.out.end();
    }
    w.out.end();
    w.commit();
  }

  // Returns the flat buffer of a chunk, with zeros in its gaps.
  static ElementsPtr flat(const std::vector<const TrainedTensor*>& chunk, const DistribPlaces& places, size_t k) {
    std::vector<Copy> copies;
    const auto zeros_to = [&](int64_t from, int64_t to) {
      if (from < to) copies.push_back({zeros(DType::f32, {to - from}), 0, 0, from, 0, 1, to - from});
    };
    int64_t filled = 0;
    for (size_t i = chunk.size(); i-- > 0;) {
      const ElementsPtr e = as_type(chunk[i]->values[k], DType::f32);
      zeros_to(filled, places.begin[i]);
      copies.push_back({e, 0, 0, places.begin[i], 0, 1, e->count()});
      filled = places.begin[i] + e->count();
    }
    zeros_to(filled, places.count);
    return assembled({places.count}, std::move(copies), "flat buffer");
  }

  const MegatronState& s_;
  std::string where_;
  Geometry g_;
  CheckpointReader reader_;
  Weights weights_[3];
  std::vector<MegatronFile> files_[3];
};

}  // namespace

MegatronState megatron_state_of(const Config& c, double lr, std::vector<std::string>& notes) {
  MegatronState s;
  s.compute = c.precision.compute.value_or(DType::f32);
  s.optimizer = c.optimizer, s.lr = lr;
  s.dynamic_scale = s.compute == DType::f16 && c.precision.loss_scale.value_or(0) == 0;
  s.scale_window = c.precision.scale_window;
  const ScheduleOptions& o = c.schedule;
  const bool own = o.type == ScheduleType::OptimizerParamScheduler;
  const std::string type(name(o.type));
  const auto batch = static_cast<double>(c.train.global_batch);
  const double length = own && o.classes.lr_decay_steps > 0 ? o.classes.lr_decay_steps
                                                            : static_cast<double>(o.steps > 0 ? o.steps : c.train.steps);
  const double warmup = own ? o.classes.lr_warmup_steps : type == "constant" ? 0 : static_cast<double>(o.warmup_steps);
  // A fraction of the run may not be an integer number of samples: Megatron stores it so, and compares with it.
  const auto in_samples = [&](double steps) {
    const double n = steps * batch, whole = std::round(n);
    return std::abs(n - whole) < 1e-9 * std::max(1.0, whole) ? Json(static_cast<int64_t>(whole)) : Json(n);
  };
  s.scheduler = {{"max_lr", c.optimizer.lr},
                 {"min_lr", own                          ? o.classes.min_lr
                            : type.starts_with("cosine") ? o.min_lr_ratio * c.optimizer.lr
                                                         : 0.0},
                 {"lr_warmup_steps", in_samples(warmup)},
                 {"lr_decay_style", own                            ? std::string(name(o.classes.lr_decay_style))
                                    : type.starts_with("cosine")   ? "cosine"
                                    : type.starts_with("constant") ? "constant"
                                                                   : "linear"},
                 {"lr_decay_steps", in_samples(length)},
                 {"start_wd", c.optimizer.weight_decay},
                 {"end_wd", c.optimizer.weight_decay},
                 {"wd_incr_style", "constant"},
                 {"wd_incr_steps", in_samples(static_cast<double>(c.train.steps))}};
  s.arguments = {{"micro_batch_size", c.train.micro_batch}, {"train_iters", c.train.steps}, {"seed", c.train.seed}};
  if (!own && type != "constant")
    notes.push_back(
        fmt::format("opt_param_scheduler says what of Megatron's is nearest to schedule.type {}: its flags count with "
                    "--override-opt_param-scheduler",
                    type));
  if (c.optimizer.decay == DecayOf::all && c.optimizer.weight_decay > 0)
    notes.push_back("Megatron decays matrices alone, the run decayed norms and biases too");
  if (c.optimizer.type == OptimizerType::adam && c.optimizer.weight_decay > 0)
    notes.push_back("the run's decay is in its gradients (adam), Megatron's is not (adamw)");
  return s;
}

void write_megatron_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                          const MegatronState& state, const std::function<void(int64_t)>& progress) {
  MegatronRunFolder(checkpoint, model, where, state).write(folder, progress);
}

int64_t megatron_state_bytes(const Weights& weights, const MegatronState& s) {
  int64_t elements = 0;
  for (const auto& [name, e] : weights.tensors) elements += e->count();
  const int64_t states = s.distributed || s.compute != DType::f32 ? 3 : 2;
  return elements * (size_of(s.compute) + states * size_of(DType::f32));
}

}  // namespace ravine
