#include "files/atomic.h"
#include "io/convert/deepspeed_layout.h"
#include "io/convert/deepspeed_state_folder.h"
#include "io/convert/hf_folder.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/trainer_state.h"

namespace ravine {
namespace deepspeed {

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

void StateFolder::write_companion_files(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
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
  write_companion_files(folder, progress);
  write_file_atomic(folder.path(s_.universal ? "latest_universal" : "latest"), tag());
}

}  // namespace deepspeed

void write_deepspeed_state(TargetFolder& folder, const std::string& checkpoint, const Json& model, const std::string& where,
                           const DeepSpeedState& state, const std::function<void(int64_t)>& progress) {
  deepspeed::StateFolder(checkpoint, model, where, state).write(folder, progress);
}

int64_t deepspeed_state_bytes(const Weights& weights, const DeepSpeedState& s) {
  int64_t elements = 0;
  for (const auto& [name, e] : weights.tensors) elements += e->count();
  const int64_t copies = s.universal || s.stage == 3 ? 1 : 2, states = s.optimizer.type == OptimizerType::lion ? 2 : 3;
  return elements * (size_of(s.compute) * copies + states * size_of(DType::f32));
}

}  // namespace ravine
