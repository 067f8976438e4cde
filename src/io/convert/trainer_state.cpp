#include "io/convert/trainer_state.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/python_json.h"
#include "config/bounds.h"
#include "files/tensor_set.h"
#include "io/adapter_folder.h"
#include "io/adapter_weights.h"
#include "io/convert/hf_folder.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/torch_elements.h"
#include "io/convert/trainer_optimizer.h"
#include "io/convert/zero_checkpoint.h"
#include "io/open_weights.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

bool has_file(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::is_regular_file(fs::path(folder) / name, error);
}

// Returns the number in "checkpoint-12"; nothing for other names.
std::optional<int64_t> step_of_name(const std::string& name) {
  constexpr std::string_view kBefore = "checkpoint-";
  if (!name.starts_with(kBefore) || name.size() > kBefore.size() + 12) return {};
  const std::string digits = name.substr(kBefore.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos || (digits[0] == '0' && digits.size() > 1))
    return {};
  return std::stoll(digits);
}

// Rows in a step of the run of ours that has kept its place in the data; nothing of other runs.
std::optional<int64_t> batch_of_history(const Json& kept) {
  if (!kept.is_object() || !kept.contains("data") || !kept["data"].is_object()) return {};
  const auto segments = kept["data"].find("segments");
  if (segments == kept["data"].end() || !segments->is_array() || segments->empty()) return {};
  const Json& last = segments->back();
  const auto batch = last.is_object() ? last.find("global_batch") : last.end();
  return batch != last.end() && batch->is_number_integer() ? std::optional(batch->get<int64_t>()) : std::nullopt;
}

Json state_file(const std::string& folder) {
  const std::string path = folder + "/trainer_state.json";
  Json state = read_python_json(path, int64_t{64} << 20);
  if (!state.is_object())
    throw UserError("not the state of a Trainer", path, "it must be a JSON object", "use a complete checkpoint");
  return state;
}

int64_t steps_of(const Json& state, const std::string& folder) {
  const auto steps = field<int64_t>(state, "global_step", folder + "/trainer_state.json");
  if (steps < 0 || static_cast<double>(steps) > kMostSteps)
    throw UserError(fmt::format("global_step is {}", steps), folder + "/trainer_state.json",
                    fmt::format("it counts from 0 to {:.0f}", kMostSteps), "use another checkpoint");
  return steps;
}

int64_t whole_or(const Json& state, const char* key, int64_t otherwise) {
  const auto it = state.find(key);
  return it != state.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
}

// Returns torch's GradScaler in the form of LossScale::state; null if there is none. It grows after growth_interval
// steps without an overflow.
Json scale_of(const std::string& folder, int64_t steps) {
  if (!has_file(folder, "scaler.pt")) return {};
  const TorchFile f(folder + "/scaler.pt");
  const auto number = [&](const char* key) {
    const auto v = f.pickle().find(f.pickle().root(), key);
    return v ? torch_number(f, *v) : std::nullopt;
  };
  const auto scale = number("scale"), tracker = number("_growth_tracker");
  if (!scale || !tracker) return {};  // the scaler is disabled
  const int64_t good = std::clamp<int64_t>(static_cast<int64_t>(*tracker), 0, steps);
  return {{"scale", *scale}, {"step", steps}, {"last_overflow", steps - 1 - good}, {"hysteresis", 1}};
}

// Returns ReduceLROnPlateau in the form of PlateauRate::state; null for another scheduler.
Json plateau_of(const Json& scheduler, double rate) {
  if (!scheduler.is_object() || !scheduler.contains("num_bad_epochs")) return {};
  Json out = {{"rate", rate},
              {"bad", whole_or(scheduler, "num_bad_epochs", 0)},
              {"cooling", whole_or(scheduler, "cooldown_counter", 0)},
              {"window", Json::array()}};
  if (const auto best = scheduler.find("best"); best != scheduler.end() && best->is_number()) out["best"] = *best;
  return out;
}

Weights adapter_weights(const std::string& path, const TrainedModel& m) {
  const auto adapter = find_adapter(path);
  if (!adapter || adapter->weights_file.empty())
    throw UserError("no adapter in a checkpoint", path,
                    "this run trains an adapter, and resumes from adapter_model.safetensors",
                    "name a checkpoint of the adapter, or leave lora.* out");
  const std::shared_ptr<const TensorFile> file = open_tensor_file(adapter->weights_file);
  Weights w;
  for (const TensorInfo& t : file->tensors()) w.add(t.name, stored(file, t));
  from_files(w, adapter_files_in(*file, *m.model), adapter->weights_file);
  const auto& all = m.model->params().params();
  for (const auto& [name, e] : w.tensors)
    if (std::none_of(all.begin(), all.end(), [&, &n = name](const Param& p) { return p.name == n; }))
      throw UserError("unknown tensor", e->where(), "the adapter of this run has none of that name",
                      "give the options lora.* that the checkpoint was made with (its adapter_config.json)");
  for (const Param& p : m.model->params().params())
    if (changes(p) && !p.tied && !w.tensors.contains(p.name))
      throw UserError("missing tensor", adapter->weights_file, fmt::format("the adapter of this run has '{}'", p.name),
                      "give the options lora.* that the checkpoint was made with (its adapter_config.json)");
  return w;
}

Weights whole_weights(const std::string& path, const TrainedModel& m) {
  if (find_adapter(path))
    throw UserError("an adapter in a checkpoint", path, "this run trains a whole model",
                    "train the adapter: set lora.rank and the other options as in its adapter_config.json");
  const Geometry g = geometry_of(m.model->config(), m.where);
  Weights w = read_hf(path, m.model->config(), m.where);
  from_family_files(w, g);
  check_weights(w, g, false);
  return w;
}

}  // namespace

bool is_trainer_checkpoint(const std::string& folder) {
  return has_file(folder, "optimizer.pt") && has_file(folder, "trainer_state.json") && !is_zero_checkpoint(folder);
}

std::map<int64_t, std::string> trainer_checkpoints(const std::string& folder, bool whole) {
  std::map<int64_t, std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string(), path = folder + "/" + name;
    if (const auto step = step_of_name(name); step && (!whole || is_trainer_checkpoint(path))) out[*step] = path;
  }
  return out;
}

Json trainer_state_of(const std::string& folder) {
  Json out = Json::object();
  if (!has_file(folder, "trainer_state.json")) return out;
  const Json state = state_file(folder);
  for (const char* key :
       {"global_step", "max_steps", "epoch", "num_train_epochs", "train_batch_size", "best_metric", "best_model_checkpoint"})
    if (const auto it = state.find(key);
        it != state.end() && (it->is_number() || (it->is_string() && it->get_ref<const std::string&>().size() < 4096)))
      out[key] = *it;
  return out;
}

Weights read_trainer_checkpoint(const std::string& path, const Json& config, const std::string& config_where, StateKind kind) {
  Weights w = read_hf(path, config, config_where);
  const TrainerOptimizer o = read_trainer_optimizer(path);
  const Json state = state_file(path);
  w.position = {.step = steps_of(state, path),
                .optimizer_steps = o.updates,
                .tokens = std::max<int64_t>(0, whole_or(state, "num_input_tokens_seen", 0))};
  if (o.kept.is_object())
    if (const auto it = o.kept.find("data"); it != o.kept.end()) w.data_history = *it;
  if (!is_moment(kind)) return w;
  if (w.config.is_null())
    throw UserError("no config", path, "the order of the optimizer's states follows from the model",
                    "give --model-config CONFIG.json");
  const Geometry g = geometry_of(w.config, w.config_where);
  w.tensors = trainer_moments(o, kind == StateKind::first_moment ? "exp_avg" : "exp_avg_sq", *g.model, g.model->files(),
                              w.config_where);
  return w;
}

ForeignState open_trainer_state(const std::string& path, const TrainedModel& m, int64_t global_batch, int64_t data_steps) {
  const Json state = state_file(path);
  const TrainerOptimizer o = read_trainer_optimizer(path);
  ForeignState out;
  out.where = path;
  out.step = steps_of(state, path);
  out.scalars = {{"step", out.step},
                 {"tokens", std::max<int64_t>(0, whole_or(state, "num_input_tokens_seen", 0))},
                 {"optimizer_steps", std::min(o.updates, out.step)},
                 {"global_batch", global_batch}};
  if (m.adapter) out.scalars["weights"] = m.weights;
  if (const Json scale = scale_of(path, out.step); !scale.is_null()) out.scalars["loss_scale"] = scale;
  if (const Json plateau = plateau_of(read_trainer_scheduler(path), o.groups[0].lr); !plateau.is_null())
    out.scalars["schedule"] = plateau;
  take_kept_scalars(o.kept, out.scalars);
  if (batch_of_history(o.kept).value_or(global_batch) != global_batch) out.scalars.erase("data");
  if (m.adapter && o.kept.is_object() && o.kept.contains("weights")) out.scalars["weights"] = o.kept["weights"];
  if (data_steps >= 0)
    out.scalars["data"] = {
        {"sources", Json::array()},
        {"segments", {{{"step", out.step}, {"sample", data_steps * global_batch}, {"global_batch", global_batch}}}}};
  const WeightFiles files = m.adapter ? adapter_files(*m.model) : m.model->files();
  const auto take = [&](const Weights& w, const std::string& prefix) {
    for (const Param& p : m.model->params().params()) {
      const auto it = w.tensors.find(p.name);
      if (!p.tied && it != w.tensors.end()) out.tensors.emplace(prefix + p.name, it->second);
    }
  };
  take(m.adapter ? adapter_weights(path, m) : whole_weights(path, m), "weights/");
  for (const auto& [prefix, key] : {std::pair{"m/", "exp_avg"}, {"v/", "exp_avg_sq"}}) {
    Weights w;
    w.tensors = trainer_moments(o, key, *m.model, files, m.where);
    from_files(w, files, m.where);
    take(w, prefix);
  }
  return out;
}

namespace {

class Taking {
 public:
  explicit Taking(std::vector<std::string>& lines) : lines_(lines) {}
  void number(const std::string& option, double& requested, double held) {
    if (requested == held) return;
    lines_.push_back(
        fmt::format("{} is {}, that of the checkpoint, as in the Trainer; {} was asked for", option, held, requested));
    requested = held;
  }
  void flag(const Json& state, const char* key, int64_t requested, const std::string& option) {
    const auto it = state.find(key);
    if (it == state.end() || !it->is_number_integer() || *it == requested || requested <= 0) return;
    lines_.push_back(fmt::format("{} is {}, as was asked for; the checkpoint's run had {}", option, requested, it->dump()));
  }

 private:
  std::vector<std::string>& lines_;
};

}  // namespace

std::vector<std::string> take_trainer_settings(const std::string& path, Config& c) {
  const TrainerOptimizer o = read_trainer_optimizer(path);
  const Json scheduler = read_trainer_scheduler(path);
  const TrainerGroup& first = o.groups[0];
  const auto refuse = [&](const std::string& what, const std::string& rule) {
    throw UserError(what, o.file->path(), rule,
                    "use its weights alone: --model_name_or_path (model.path) with the folder of the checkpoint");
  };
  double decay = first.weight_decay, of_rest = o.groups.back().weight_decay;
  if (!first.numbers.empty() && o.groups.size() == 2 && of_rest != 0 && of_rest != decay)
    refuse(fmt::format("weight decays {} and {}", decay, of_rest), "norms and biases decay like the others, or not at all");
  for (const TrainerGroup& g : o.groups)
    if (g.lr != first.lr || g.betas != first.betas || g.eps != first.eps)
      refuse("groups of several rates, betas or eps", "the Trainer's have the same");
  std::vector<std::string> lines;
  Taking taking(lines);
  double lr = c.optimizer.lr;
  if (scheduler.is_object())
    if (const auto base = scheduler.find("base_lrs");
        base != scheduler.end() && base->is_array() && !base->empty() && (*base)[0].is_number())
      lr = (*base)[0].get<double>();
  taking.number("optimizer.lr", c.optimizer.lr, lr);
  for (size_t i = 0; i < 2 && i < c.optimizer.betas.size(); ++i)
    taking.number(fmt::format("optimizer.betas[{}]", i), c.optimizer.betas[i], first.betas[i]);
  if (c.optimizer.eps.empty()) c.optimizer.eps = {1e-8};
  taking.number("optimizer.eps", c.optimizer.eps[0], first.eps);
  taking.number("optimizer.weight_decay", c.optimizer.weight_decay, decay);
  const bool one = o.groups.size() == 1 || o.groups[1].numbers.empty(), all = one || of_rest == decay;
  if (decay != 0 && !find_adapter(path) && !first.numbers.empty() && all != (c.optimizer.decay == DecayOf::all)) {
    c.optimizer.decay = all ? DecayOf::all : DecayOf::matrices;
    lines.push_back(fmt::format("optimizer.decay is {}, that of the checkpoint", name(c.optimizer.decay)));
  }
  const Json state = state_file(path);
  taking.flag(state, "train_batch_size", c.train.micro_batch, "train.micro_batch (--per_device_train_batch_size)");
  taking.flag(state, "max_steps", c.train.steps, "train.steps (--max_steps)");
  taking.flag(state, "logging_steps", c.log.every, "log.every (--logging_steps)");
  taking.flag(state, "save_steps", c.checkpoint.every, "checkpoint.every (--save_steps)");
  if (const auto batch = batch_of_history(o.kept); batch && *batch != c.train.global_batch)
    lines.push_back(fmt::format(
        "the data go on behind {} steps of {} rows, as the Trainer counts them; the checkpoint's run had {} in a step",
        steps_of(state, path), c.train.global_batch, *batch));
  if (!o.kept.is_null()) return lines;  // written by a run of Ravine
  if (const int64_t at = scheduler.is_object() ? whole_or(scheduler, "last_epoch", o.updates) : o.updates;
      at != o.updates && !scheduler.contains("num_bad_epochs"))
    lines.push_back(fmt::format("the scheduler of the checkpoint is at {}, its optimizer at {}: the rate follows the latter",
                                at, o.updates));
  if (has_file(path, "training_args.bin"))
    lines.emplace_back("training_args.bin is not read: it is a pickle of classes, and the flags count");
  if (has_file(path, "rng_state.pth") || has_file(path, "rng_state_0.pth"))
    lines.emplace_back("rng_state.pth is not read: what is drawn here follows from train.seed and the step");
  if (c.precision.compute == DType::f16 && !has_file(path, "scaler.pt"))
    lines.emplace_back("there is no scaler.pt: the loss scale begins anew");
  if (const auto type = find_adapter(path) ? std::nullopt : weights_type(path); type && size_of(*type) < 4)
    lines.push_back(fmt::format("weights are stored in {}: masters in f32 begin from these values", name(*type)));
  return lines;
}

std::string unlike_trainer_groups(const std::string& path, const TrainedModel& m, const Config& c) {
  const TrainerOptimizer o = read_trainer_optimizer(path);
  if (m.adapter || c.optimizer.weight_decay == 0 || c.optimizer.decay == DecayOf::all) return "";
  if (trainer_grouping(o, *m.model, m.model->files(), m.where) != TrainerGrouping::biases) return "";
  return "norms decayed in the checkpoint's run, as Transformers 4.37 has it for this family, and do not from here on";
}

}  // namespace ravine
