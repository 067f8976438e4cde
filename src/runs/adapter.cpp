#include "runs/adapter.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "io/adapter_weights.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

// Returns the last name parts of the query and value modules, as in model files: PEFT's default for most families.
std::vector<std::string> usual_targets(const Model& base) {
  std::set<std::string> ends;
  for (const FileTensor& t : base.files().tensors)
    for (const Param* p : t.params)
      if (p->name.ends_with(".q_proj.weight") || p->name.ends_with(".v_proj.weight") || p->name.ends_with(".q_b_proj.weight") ||
          p->name.ends_with(".kv_b_proj.weight")) {
        const std::string module = t.name.substr(0, t.name.rfind('.'));
        ends.insert(module.substr(module.rfind('.') + 1));
      }
  return {ends.begin(), ends.end()};
}

// Calls f(key, option, setting) for every option of an adapter, with the same field of its settings.
template <class F>
void each_setting(LoraOptions& o, LoraSettings& s, F&& f) {
  f("rank", o.rank, s.rank), f("alpha", o.alpha, s.alpha), f("dropout", o.dropout, s.dropout);
  f("rslora", o.rslora, s.rslora), f("targets", o.targets, s.targets), f("save", o.save, s.save);
  f("rank_pattern", o.rank_pattern, s.rank_pattern), f("alpha_pattern", o.alpha_pattern, s.alpha_pattern);
  f("layers", o.layers, s.layers);
}

// Throws a UserError if an option of an adapter differs from its default, although there is no adapter.
void refuse_unused(const Config& c) {
  LoraOptions given = c.lora, none;
  const std::vector<Option> all = options_of(given, "lora"), without = options_of(none, "lora");
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].yaml() == without[i].yaml()) continue;
    const auto where = c.sources.find(all[i].name());
    throw UserError(all[i].name() + " without an adapter", where == c.sources.end() ? "lora" : where->second,
                    "it is a setting of adapters, and this run trains none",
                    "set lora.rank, or lora.path to the folder of one, or leave it out");
  }
}

// Returns x sorted, if it is a list: the order of names and layers has no meaning.
template <class T>
T in_order(T x) {
  if constexpr (requires { x.push_back(x.front()); }) std::sort(x.begin(), x.end());
  return x;
}

// Throws a UserError if tied embedding and head have adapters: merging would change both uses of the table.
void refuse_merged_tie(const Config& c, const Model& base, const LoraSettings& lora) {
  if (!c.lora.merge || !parts_tables(base, lora)) return;
  throw UserError("the adapter of a tied embedding or head, merged", "lora.merge",
                  "embedding and head are one table, and the adapter would change only one of its two uses",
                  "set model.tie=untied, or leave lora.merge out: merge-lora stores both tables");
}

}  // namespace

const std::string& base_of(const Config& c) { return c.model.path.empty() ? c.model.weights : c.model.path; }

std::optional<LoraSettings> lora_of(const Config& c, const Model& base) {
  const LoraOptions& o = c.lora;
  if (!o.enabled()) {
    refuse_unused(c);
    return std::nullopt;
  }
  if (base_of(c).empty() || (c.lora.merge && c.model.path.empty()))
    throw UserError("an adapter without a base", "lora.rank",
                    c.lora.merge ? "it is merged into the weights of model.path" : "an adapter is trained on stored weights",
                    "set model.path to the folder of the base model");
  LoraOptions requested = o;  // with the module names of the family
  requested.targets = family_spelling(base, o.targets), requested.save = family_spelling(base, o.save);
  LoraSettings s;
  s.where = "lora.targets", s.from_options = true;
  each_setting(requested, s, [&](const std::string& key, const auto& option, auto& setting) {
    setting = option;
    const std::string name = "lora." + key;
    if (const auto source = c.sources.find(name); source != c.sources.end())
      s.sources[key] = fmt::format("{}, {}", name, source->second);
  });
  if (s.targets.empty()) s.targets = usual_targets(base);
  s.ties_weights = is_tied(base) && saves_table(base, s);
  if (o.path.empty()) return refuse_merged_tie(c, base, s), s;
  LoraSettings stored = adapter_settings(o.path, base);
  auto modules = [&](const LoraSettings& lora) {
    std::vector<std::string> names;
    for (const auto& [name, spec] : adapter_specs(base, lora)) names.push_back(name);
    return names;
  };
  each_setting(requested, stored, [&]<class T>(const std::string& key, const T& option, T& setting) {
    const auto where = c.sources.find("lora." + key);
    if (where == c.sources.end()) return;
    if (key == "dropout") {  // used by training only: any value is allowed
      setting = option;
      return;
    }
    if (key == "targets") {  // other names of the same modules are allowed
      LoraSettings other = stored;
      other.targets = requested.targets, other.targets_whole = false;
      if (requested.targets.empty() || modules(other) == modules(stored)) return;
    }
    if (const T given = in_order(option), there = in_order(setting); given != there)
      throw UserError(fmt::format("lora.{} is {}", key, Json(given).dump()), where->second,
                      fmt::format("{} says {}", stored.where, Json(there).dump()), "leave it out, or use another adapter");
  });
  refuse_merged_tie(c, base, stored);
  return stored;
}

void keep_in_config(const LoraSettings& s, Config& c) {
  LoraSettings requested_settings = s;
  each_setting(c.lora, requested_settings, [&](const std::string& key, auto& option, const auto& setting) {
    if (key != "targets" || !s.targets_whole) option = setting;
  });
}

std::string adapter_text(const LoraSettings& lora, const Model& model) {
  int64_t trained = 0, all = 0, bytes = 0;
  for (const Param& p : model.params().params()) {
    if (p.tied) continue;
    all += p.shape.count();
    if (p.policy.trainable) trained += p.shape.count();
  }
  for (const FileTensor& t : adapter_files(model).tensors) bytes += 4 * t.shape.count();
  std::string targets;
  for (const std::string& t : lora.targets) targets += (targets.empty() ? "" : ", ") + t;
  return fmt::format("rank {}, {} {:g} on {}{}{}: {} of {} parameters are trained, {} in a file", lora.rank,
                     lora.rslora ? "rank-stabilised, alpha" : "alpha", lora.alpha, targets,
                     lora.layers.empty() ? "" : fmt::format(" of layers {}", fmt::join(lora.layers, ", ")),
                     lora.save.empty() ? "" : fmt::format(", {} whole", fmt::join(lora.save, ", ")),
                     human_count(static_cast<double>(trained)), human_count(static_cast<double>(all)),
                     human_bytes(static_cast<double>(bytes)));
}

std::string base_text(const Model& model) {
  const BlockedBase base = blocked_base(model);
  if (base.elements == 0) return "";
  return fmt::format("base in nf4: {} of its weights in {}, scales counted; bf16 would take {}",
                     human_count(static_cast<double>(base.elements)), human_bytes(static_cast<double>(base.bytes)),
                     human_bytes(2 * static_cast<double>(base.elements)));
}

}  // namespace ravine
