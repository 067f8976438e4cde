#include "io/convert/trainer_optimizer.h"

#include <algorithm>
#include <filesystem>

#include "io/convert/kept_scalars.h"
#include "io/convert/torch_elements.h"

namespace ravine {
namespace {

constexpr const char* kWhole = "use a complete checkpoint";
constexpr const char* kWeightsAlone =
    "use its weights alone: --model_name_or_path (model.path) with the folder of the checkpoint";

[[noreturn]] void refuse_file(const TorchFile& f, const std::string& what, const std::string& rule, const std::string& fix) {
  throw UserError(what, f.path(), rule, fix);
}

double number_of(const TorchFile& f, Pickle::Ref group, const char* key) {
  const auto v = f.pickle().find(group, key);
  const auto x = v ? torch_number(f, *v) : std::nullopt;
  if (!x) refuse_file(f, fmt::format("a group without '{}'", key), "groups of torch's AdamW have it", kWeightsAlone);
  return *x;
}

TrainerGroup group_of(const TorchFile& f, Pickle::Ref group) {
  const Pickle& p = f.pickle();
  for (const char* key : {"amsgrad", "maximize"})
    if (const auto v = p.find(group, key); v && p.boolean(*v).value_or(false))
      refuse_file(f, fmt::format("an optimizer with {}", key), "AdamW is gone on with as the Trainer makes it", kWeightsAlone);
  TrainerGroup out{
      .lr = number_of(f, group, "lr"), .weight_decay = number_of(f, group, "weight_decay"), .eps = number_of(f, group, "eps")};
  if (const auto betas = p.find(group, "betas");
      betas && (p.kind(*betas) == Pickle::Kind::tuple || p.kind(*betas) == Pickle::Kind::list))
    for (Pickle::Ref b : p.items(*betas)) out.betas.push_back(torch_number(f, b).value_or(-1));
  if (out.betas.size() != 2 || out.betas[0] < 0 || out.betas[1] < 0)
    refuse_file(f, "a group without two betas", "groups of torch's AdamW have them", kWeightsAlone);
  const auto params = p.find(group, "params");
  if (!params || p.kind(*params) != Pickle::Kind::list)
    refuse_file(f, "a group without parameters", "it has a list 'params'", kWhole);
  for (Pickle::Ref n : p.items(*params)) out.numbers.push_back(p.integer(n).value_or(-1));
  return out;
}

void check_torch_state(const TorchFile& f, Pickle::Ref state, int64_t number) {
  const Pickle& p = f.pickle();
  const auto* fields = p.fields(state);
  if (!fields)
    refuse_file(f, fmt::format("the state of parameter {} is {}", number, p.describe(state)), "it is a dict", kWhole);
  for (size_t i = 0; i + 1 < fields->size(); i += 2) {
    const std::string key(p.text((*fields)[i]).value_or("?"));
    if (key != "step" && key != "exp_avg" && key != "exp_avg_sq")
      refuse_file(f, fmt::format("a state '{}'", printable(key.substr(0, 80))),
                  "step, exp_avg and exp_avg_sq are read, those of torch's AdamW", kWeightsAlone);
  }
  for (const char* key : {"exp_avg", "exp_avg_sq"})
    if (const auto v = p.find(state, key); !v || !f.is_tensor(*v))
      refuse_file(f, fmt::format("parameter {} has no '{}'", number, key), "states of torch's AdamW have it", kWeightsAlone);
}

bool fits(const TrainerOptimizer& o, const std::vector<std::vector<const FileTensor*>>& order) {
  if (o.groups.size() != order.size()) return false;
  for (size_t g = 0; g < order.size(); ++g) {
    if (o.groups[g].numbers.size() != order[g].size()) return false;
    for (size_t i = 0; i < order[g].size(); ++i) {
      const auto state = o.states.find(o.groups[g].numbers[i]);
      if (state == o.states.end() && !o.states.empty()) return false;
      if (state == o.states.end()) continue;
      const auto v = o.file->pickle().find(state->second, "exp_avg");
      if (!(o.file->tensor(*v, "exp_avg").shape == order[g][i]->shape)) return false;
    }
  }
  return true;
}

std::string sizes_text(const auto& groups, const auto& size) {
  std::string out;
  for (const auto& g : groups) out += fmt::format("{}{}", out.empty() ? "" : " and ", size(g));
  return out;
}

struct Matched {
  std::map<int64_t, const FileTensor*> by_number;
  TrainerGrouping grouping = TrainerGrouping::norms_and_biases;
};

Matched matched(const TrainerOptimizer& o, const Model& model, const WeightFiles& files, const std::string& where) {
  std::string usual;
  for (const TrainerGrouping grouping : {TrainerGrouping::norms_and_biases, TrainerGrouping::biases, TrainerGrouping::none}) {
    const TrainerOrder both = trainer_order(model, files, where, grouping);
    std::vector<std::vector<const FileTensor*>> order(both.begin(), both.end());
    if (grouping == TrainerGrouping::none) order.pop_back();
    if (usual.empty()) usual = sizes_text(order, [](const auto& g) { return g.size(); });
    if (!fits(o, order)) continue;
    Matched out{.grouping = grouping};
    for (size_t g = 0; g < order.size(); ++g)
      for (size_t i = 0; i < order[g].size(); ++i) out.by_number[o.groups[g].numbers[i]] = order[g][i];
    return out;
  }
  refuse_file(
      *o.file,
      fmt::format("groups of {} parameters", sizes_text(o.groups, [](const TrainerGroup& g) { return g.numbers.size(); })),
      fmt::format(
          "the Trainer's optimizer of this model has {}, of these shapes, in the order of the model: what decays, and the rest",
          usual),
      std::string("use a checkpoint of this model, or ") + kWeightsAlone);
}

}  // namespace

TrainerOptimizer read_trainer_optimizer(const std::string& folder) {
  TrainerOptimizer out;
  out.file = std::make_shared<TorchFile>(folder + "/optimizer.pt");
  const TorchFile& f = *out.file;
  const Pickle& p = f.pickle();
  const auto state = p.find(p.root(), "state"), groups = p.find(p.root(), "param_groups");
  if (!state || !p.fields(*state) || !groups || p.kind(*groups) != Pickle::Kind::list || p.items(*groups).empty())
    refuse_file(f, "no optimizer of torch", "it holds 'state' and 'param_groups'", kWeightsAlone);
  const auto& fields = *p.fields(*state);
  for (size_t i = 0; i + 1 < fields.size(); i += 2)
    if (const auto number = p.integer(fields[i]))
      check_torch_state(f, fields[i + 1], *number), out.states[*number] = fields[i + 1];
  for (Pickle::Ref group : p.items(*groups)) out.groups.push_back(group_of(f, group));
  size_t count = 0;
  for (const TrainerGroup& g : out.groups) count += g.numbers.size();
  if (!out.states.empty() && out.states.size() != count)
    refuse_file(f, fmt::format("{} parameters, and states of {}", count, out.states.size()), "all of them have one, or none",
                kWhole);
  std::optional<int64_t> updates;
  for (const auto& [number, ref] : out.states) {
    const auto v = p.find(ref, "step");
    const auto step = v ? torch_whole_number(f, *v) : std::nullopt;
    if (!step || *step < 0 || (updates && *updates != *step))
      refuse_file(f, fmt::format("the step of parameter {} is {}", number, step ? std::to_string(*step) : "not there"),
                  fmt::format("it counts updates{}", updates ? fmt::format(", and others have seen {}", *updates) : ""),
                  kWhole);
    updates = step;
  }
  out.updates = updates.value_or(0);
  out.kept = kept_scalars_in(p);
  return out;
}

Json read_trainer_scheduler(const std::string& folder) {
  std::error_code error;
  const std::string path = folder + "/scheduler.pt";
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const TorchFile file(path);
  const Json state = plain_values(file.pickle(), file.pickle().root());
  return state.is_object() ? state : Json();
}

std::map<std::string, ElementsPtr> trainer_moments(const TrainerOptimizer& o, const std::string& key, const Model& model,
                                                   const WeightFiles& files, const std::string& where) {
  std::map<std::string, ElementsPtr> out;
  for (const auto& [number, t] : matched(o, model, files, where).by_number) {
    const auto state = o.states.find(number);
    const std::string name = fmt::format("{} of '{}'", key, t->name);
    out[t->name] = state == o.states.end() ? zeros(DType::f32, t->shape)
                                           : torch_elements(o.file, *o.file->pickle().find(state->second, key), name);
  }
  return out;
}

TrainerGrouping trainer_grouping(const TrainerOptimizer& o, const Model& model, const WeightFiles& files,
                                 const std::string& where) {
  return matched(o, model, files, where).grouping;
}

}  // namespace ravine
