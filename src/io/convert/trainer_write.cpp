#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/atomic.h"
#include "io/convert/hf_folder.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron_adapter.h"
#include "io/convert/ravine_checkpoint.h"
#include "io/convert/torch_fields.h"
#include "io/convert/torch_random.h"
#include "io/convert/trainer_order.h"
#include "io/convert/trainer_state.h"
#include "model/adapters.h"

namespace ravine {
namespace {

class TrainerFolder {
 public:
  TrainerFolder(const std::string& checkpoint, const TrainedModel& m, const TrainerState& s)
      : m_(m),
        s_(s),
        where_(checkpoint),
        reader_(checkpoint, false),
        files_(m.adapter ? adapter_files(*m.model) : m.model->files()),
        order_(trainer_order(*m.model, files_, m.where)) {
    for (const std::string& n : reader_.names())
      if (const std::string kind = n.substr(0, n.find('/')); kind != "weights" && kind != "m" && kind != "v")
        throw UserError(fmt::format("a state '{}' of the optimizer", n), where_, "only states of adamw are written",
                        "write the weights alone: --to hf");
    weights_ = read(m.adapter ? StateKind::trained : StateKind::masters);
    states_[0] = read(StateKind::first_moment), states_[1] = read(StateKind::second_moment);
  }

  void write(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
    write_weights(folder, progress);
    write_optimizer(folder, progress);
    write_scheduler(folder, progress);
    if (s_.dynamic_scale) write_scaler(folder, progress);
    for (int64_t r = 0; r < s_.ranks; ++r) {
      const std::string file = s_.ranks == 1 ? "rng_state.pth" : fmt::format("rng_state_{}.pth", r);
      TorchFields w(folder.path(file), progress);
      put_random_states(w, static_cast<uint32_t>(s_.seed + step() + r));
      w.commit();
    }
    if (!s_.arguments.is_null()) write_file_atomic(folder.path("training_args.json"), s_.arguments.dump(2) + "\n");
    const Json state = trainer_state_json(step(), count("tokens", 0), s_.trainer_state);
    write_file_atomic(folder.path("trainer_state.json"), state.dump(2) + "\n");  // written last, as in the Trainer
  }

 private:
  int64_t count(const char* key, int64_t otherwise) const { return field_or(reader_.scalars(), key, where_, otherwise); }
  int64_t step() const { return reader_.step(); }
  int64_t updates() const { return count("optimizer_steps", step()); }
  Weights read(StateKind kind) const {
    Weights w = read_ravine_checkpoint(where_, m_.model->config(), m_.where, kind);
    to_files(w, files_);
    return w;
  }
  void write_weights(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
    std::vector<NamedElements> tensors;
    for (const auto& [n, e] : weights_.tensors) tensors.push_back({n, e, DType::f32});
    if (!m_.adapter) return write_hf(folder, weights_, tensors, progress);
    copy_companion_files(folder, weights_);
    weights_.config = s_.adapter_config;
    write_adapter(folder, weights_, tensors, progress);
  }
  void write_optimizer(TargetFolder& folder, const std::function<void(int64_t)>& progress);
  void write_scheduler(TargetFolder& folder, const std::function<void(int64_t)>& progress) const;
  void write_scaler(TargetFolder& folder, const std::function<void(int64_t)>& progress) const;

  const TrainedModel& m_;
  const TrainerState& s_;
  std::string where_;
  CheckpointReader reader_;
  WeightFiles files_;
  TrainerOrder order_;
  Weights weights_, states_[2];
};

void TrainerFolder::write_optimizer(TargetFolder& folder, const std::function<void(int64_t)>& progress) {
  TorchFields w(folder.path("optimizer.pt"), progress);
  std::vector<std::byte> steps(sizeof(float));
  const auto updates = static_cast<float>(this->updates());
  std::memcpy(steps.data(), &updates, sizeof(updates));
  const ElementsPtr step = in_memory(DType::f32, Shape{}, std::move(steps));
  int64_t number = 0;
  w.out.begin_dict();
  w.key("state"), w.out.begin_dict();
  for (const auto& group : order_)
    for (const FileTensor* t : group) {
      w.out.integer(number++), w.out.begin_dict();
      w.key("step"), w.tensor(step, DType::f32);
      for (size_t k = 0; k < 2; ++k) {
        const auto it = states_[k].tensors.find(t->name);
        if (it == states_[k].tensors.end())
          throw UserError(fmt::format("a moment of '{}' is missing", t->name), where_,
                          "every trained parameter has both moments", kComplete);
        w.key(k == 0 ? "exp_avg" : "exp_avg_sq"), w.tensor(it->second, DType::f32);
      }
      w.out.end();
    }
  w.out.end();
  const OptimizerOptions& o = s_.optimizer;
  number = 0;
  w.key("param_groups"), w.out.begin_list();
  for (size_t g = 0; g < order_.size(); ++g) {
    w.out.begin_dict();
    w.real("lr", s_.lr);
    w.key("betas"), w.out.begin_tuple(), w.out.real(o.betas[0]), w.out.real(o.betas[1]), w.out.end();
    w.real("eps", o.eps.empty() ? 1e-8 : o.eps[0]);
    w.real("weight_decay", g == 0 || o.decay == DecayOf::all ? o.weight_decay : 0);
    w.truth("amsgrad", false), w.none("foreach"), w.truth("maximize", false), w.truth("capturable", false);
    w.truth("differentiable", false), w.none("fused"), w.truth("decoupled_weight_decay", true);
    w.real("initial_lr", o.lr);
    w.key("params"), w.out.begin_list();
    for (size_t i = 0; i < order_[g].size(); ++i) w.out.integer(number++);
    w.out.end(), w.out.end();
  }
  w.out.end();
  Json kept = kept_scalars(reader_.scalars());
  if (m_.adapter) kept["weights"] = m_.weights;
  w.text(kOwnScalars, kept.dump());
  w.out.end();
  w.commit();
}

// Writes torch's LambdaLR.
void TrainerFolder::write_scheduler(TargetFolder& folder, const std::function<void(int64_t)>& progress) const {
  TorchFields w(folder.path("scheduler.pt"), progress);
  const auto each = [&](const char* key, const std::function<void()>& value) {
    w.key(key), w.out.begin_list();
    for (size_t i = 0; i < order_.size(); ++i) value();
    w.out.end();
  };
  w.out.begin_dict();
  each("base_lrs", [&] { w.out.real(s_.optimizer.lr); });
  w.number("last_epoch", updates()), w.number("_step_count", updates() + 1);
  w.truth("_get_lr_called_within_step", false);
  each("_last_lr", [&] { w.out.real(s_.lr); });
  each("lr_lambdas", [&] { w.out.none(); });
  w.out.end();
  w.commit();
}

// Writes torch's GradScaler.
void TrainerFolder::write_scaler(TargetFolder& folder, const std::function<void(int64_t)>& progress) const {
  const auto it = reader_.scalars().find("loss_scale");
  const Json scale = it != reader_.scalars().end() && it->is_object() ? *it : Json::object();
  const int64_t good = scale.value("step", step()) - 1 - scale.value("last_overflow", int64_t{-1});
  TorchFields w(folder.path("scaler.pt"), progress);
  w.out.begin_dict();
  w.real("scale", scale.value("scale", 65536.0)), w.real("growth_factor", 2), w.real("backoff_factor", 0.5);
  w.number("growth_interval", s_.scale_window);
  w.number("_growth_tracker", std::max<int64_t>(good, 0) % std::max<int64_t>(s_.scale_window, 1));
  w.out.end();
  w.commit();
}

}  // namespace

Json trainer_state_json(int64_t step, int64_t tokens, const Json& more) {
  Json state = {{"best_metric", nullptr},
                {"best_model_checkpoint", nullptr},
                {"epoch", 0.0},
                {"global_step", step},
                {"is_hyper_param_search", false},
                {"is_local_process_zero", true},
                {"is_world_process_zero", true},
                {"log_history", Json::array()},
                {"max_steps", step},
                {"num_input_tokens_seen", tokens},
                {"num_train_epochs", 1},
                {"eval_steps", 500},
                {"logging_steps", 500},
                {"save_steps", 500},
                {"total_flos", 0},
                {"train_batch_size", nullptr},
                {"trial_name", nullptr},
                {"trial_params", nullptr},
                // Needed by Transformers 5 to save again; 4.37 does not know the field. The file is in the form of 5.
                {"stateful_callbacks",
                 {{"TrainerControl",
                   {{"args",
                     {{"should_training_stop", false},
                      {"should_epoch_stop", false},
                      {"should_save", false},
                      {"should_evaluate", false},
                      {"should_log", false}}},
                    {"attributes", Json::object()}}}}}};
  if (more.is_object()) state.update(more);
  return state;
}

void write_trainer_state(TargetFolder& folder, const std::string& checkpoint, const TrainedModel& model,
                         const TrainerState& state, const std::function<void(int64_t)>& progress) {
  TrainerFolder(checkpoint, model, state).write(folder, progress);
}

}  // namespace ravine
