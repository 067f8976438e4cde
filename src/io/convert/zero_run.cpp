// Reads the facts of a DeepSpeed run from its checkpoint: counts, loss scale, schedule.
#include <algorithm>
#include <filesystem>
#include <set>

#include "io/convert/kept_scalars.h"
#include "io/convert/torch_elements.h"
#include "io/convert/zero_checkpoint.h"
#include "io/convert/zero_files.h"

namespace fs = std::filesystem;

namespace ravine {
namespace zero {
namespace {

// Returns the state of a loss scale, from the fields of DeepSpeed's scaler (an object of any class) or of its
// FP16_Optimizer; null if it is static.
Json loss_scale_of(const Pickle& p, std::optional<Pickle::Ref> v) {
  if (v && p.kind(*v) == Pickle::Kind::object) v = p.items(*v).size() > 2 ? std::optional(p.items(*v)[2]) : std::nullopt;
  if (!v || !p.fields(*v)) return Json();
  const auto number = [&](const char* key) { return p.find(*v, key); };
  const auto scale = number("cur_scale"), step = number("cur_iter"), last = number("last_overflow_iter"),
             hysteresis = number("cur_hysteresis");
  if (!scale || !step || !last || !p.real(*scale) || !p.integer(*step) || !p.integer(*last)) return Json();
  return {{"scale", *p.real(*scale)},
          {"step", *p.integer(*step)},
          {"last_overflow", *p.integer(*last)},
          {"hysteresis", hysteresis ? p.integer(*hysteresis).value_or(1) : 1}};
}

// Returns the states of all groups or parameters; `f` receives their file.
std::vector<Pickle::Ref> all_states(const StateFiles& c, const TorchFile*& f) {
  f = c.universal ? c.universal.get() : c.stage == 0 ? c.model[0].get() : c.optimizer[0].get();
  if (c.stage > 0) return optimizer_states(*f, c.stage);
  if (c.universal) {
    const auto inner = optional(*f, "optimizer_state_dict");
    const auto state = inner ? f->pickle().find(*inner, "state") : std::nullopt;
    return state ? numbered_values(f->pickle(), *state) : std::vector<Pickle::Ref>();
  }
  const auto whole = whole_optimizer(*f);
  return whole ? numbered_values(f->pickle(), need(*f, whole->torch, "state")) : std::vector<Pickle::Ref>();
}

// Returns the count of updates in the states of a file. FusedAdam counts only in the state of the last parameter of a
// group; the others stay 0.
std::optional<int64_t> updates_in(const TorchFile& f, const std::vector<Pickle::Ref>& states) {
  std::optional<int64_t> out;
  for (Pickle::Ref state : states)
    if (const auto v = f.pickle().find(state, "step"))
      if (const auto n = torch_whole_number(f, *v)) out = std::max(out.value_or(0), *n);
  return out;
}

// Returns the settings of the torch optimizer's groups. The optimizer is nested in other dicts.
Json groups_of(const Pickle& p, Pickle::Ref dict, int depth = 0) {
  if (!p.fields(dict)) return Json();
  if (const auto groups = p.find(dict, "param_groups")) return group_settings(p, *groups);
  for (const char* key : {"optimizer_state_dict", "base_optimizer_state", "optimizer"})
    if (const auto inner = p.find(dict, key); inner && depth < 4)
      if (Json groups = groups_of(p, *inner, depth + 1); !groups.is_null()) return groups;
  return Json();
}

ZeroRun run_of(const StateFiles& c) {
  ZeroRun run;
  run.folder = c.folder;
  const TorchFile& model = *c.model[0];
  auto number = [&](const char* key) {
    const auto v = optional(model, key);
    return v ? std::max<int64_t>(torch_whole_number(model, *v).value_or(0), 0) : 0;
  };
  run.steps = number("global_steps"), run.skipped = std::min(number("skipped_steps"), run.steps);
  run.samples = number("global_samples");
  run.updates = run.steps - run.skipped;
  const TorchFile* f = nullptr;
  if (const std::vector<Pickle::Ref> states = all_states(c, f); !states.empty()) {
    const Pickle& p = f->pickle();
    const std::optional<int64_t> step = updates_in(*f, states);
    for (size_t r = 1; c.stage > 0 && !c.universal && r < c.optimizer.size(); ++r)
      if (const auto other = updates_in(*c.optimizer[r], optimizer_states(*c.optimizer[r], c.stage)); other != step)
        throw UserError("ranks of different steps", c.optimizer[r]->path(),
                        fmt::format("its states count {} updates, the states in {} count {}", other.value_or(0), f->path(),
                                    step.value_or(0)),
                        "use files of one checkpoint");
    run.updates = step.value_or(run.updates);
    const auto* fields = p.fields(states[0]);
    for (size_t i = 0; fields && i < fields->size(); i += 2)
      if (const auto key = p.text((*fields)[i]); key && *key != "step" && f->is_tensor((*fields)[i + 1]))
        run.states.emplace_back(*key);
  }
  if (c.universal) {
    std::set<std::string> states;
    for (const auto& entry : fs::directory_iterator(c.folder + "/zero")) {
      std::error_code error;
      for (const auto& file : fs::directory_iterator(entry.path(), error))
        if (const std::string stem = file.path().stem().string();
            file.path().extension() == ".pt" && stem != "fp32" && stem != "step")
          states.insert(stem);
    }
    run.states.assign(states.begin(), states.end());
    std::optional<int64_t> counted;
    for (const auto& entry : fs::directory_iterator(c.folder + "/zero")) {
      const std::string path = entry.path().string() + "/step.pt";
      if (!fs::exists(path)) continue;
      const TorchFile file(path);
      const auto step = torch_whole_number(file, file.pickle().root());
      if (!step || (counted && *counted != *step))
        throw UserError("parameters of different steps", path, "all parameters must have the same number of updates",
                        "use files of one checkpoint");
      counted = step;
    }
    run.updates = counted.value_or(run.updates);
  }
  if (run.updates < 0) run.updates = 0;
  const Pickle& p = model.pickle();
  if (const auto v = optional(model, "lr_scheduler")) run.lr_scheduler = plain_values(p, *v);
  run.kept = kept_scalars_in(p);
  const Pickle& of_optimizer = (c.universal ? *c.universal : c.stage == 0 ? model : *c.optimizer[0]).pickle();
  run.groups = groups_of(of_optimizer, of_optimizer.root());
  if (c.universal)
    run.loss_scale = loss_scale_of(c.universal->pickle(), optional(*c.universal, "loss_scaler"));
  else if (c.stage == 0)
    run.loss_scale = loss_scale_of(p, optional(model, "optimizer"));
  else
    run.loss_scale =
        loss_scale_of(c.optimizer[0]->pickle(),
                      c.optimizer[0]->pickle().find(
                          need(*c.optimizer[0], c.optimizer[0]->pickle().root(), "optimizer_state_dict"), "loss_scaler"));
  return run;
}

}  // namespace
}  // namespace zero

ZeroRun read_zero_run(const std::string& path) { return zero::run_of(zero::open_state_files(path)); }

}  // namespace ravine
