#include "train/adapter.h"

#include <set>

#include "base/log.h"
#include "io/adapter_weights.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

// The ends of the modules that hold queries and values, as files name them: what PEFT takes for most families.
std::vector<std::string> usual_targets(const Model& base) {
  std::set<std::string> ends;
  for (const FileTensor& t : base.files().tensors)
    for (const Param* p : t.params)
      if (p->name.ends_with(".q_proj.weight") || p->name.ends_with(".v_proj.weight")) {
        const std::string module = t.name.substr(0, t.name.rfind('.'));
        ends.insert(module.substr(module.rfind('.') + 1));
      }
  return {ends.begin(), ends.end()};
}

std::string text_of(bool x) { return x ? "true" : "false"; }
template <class T>
std::string text_of(const T& x) {
  return Json(x).dump();
}

// Adapters of embedding and head that are one table would be merged into both.
void refuse_merged_tie(const Config& c, const Model& base, const LoraSettings& lora) {
  if (!c.lora.merge || !parts_tables(base, lora)) return;
  throw UserError("the adapter of a tied embedding or head, merged", "lora.merge",
                  "embedding and head are one table, and an adapter stands beside one of its uses",
                  "set model.tie=untied, or leave lora.merge out: merge-lora stores both tables");
}

}  // namespace

std::optional<LoraSettings> lora_of(const Config& c, const Model& base) {
  const LoraOptions& o = c.lora;
  if (!o.asked()) {
    const LoraOptions none;
    auto unused = [&](const char* key, const auto& given, const auto& absent) {
      if (given == absent) return;
      const auto where = c.sources.find(fmt::format("lora.{}", key));
      throw UserError(fmt::format("lora.{} without an adapter", key), where == c.sources.end() ? "lora" : where->second,
                      "it says how an adapter is made", "set lora.rank, or lora.path to the folder of one, or leave it out");
    };
    unused("alpha", o.alpha, none.alpha), unused("dropout", o.dropout, none.dropout),
        unused("targets", o.targets, none.targets);
    unused("rslora", o.rslora, none.rslora), unused("rank_pattern", o.rank_pattern, none.rank_pattern);
    unused("alpha_pattern", o.alpha_pattern, none.alpha_pattern), unused("layers", o.layers, none.layers);
    unused("save", o.save, none.save), unused("merge", o.merge, none.merge);
    return std::nullopt;
  }
  if (c.model.path.empty())
    throw UserError("an adapter without a base", "lora.rank", "adapters stand beside weights that are there",
                    "set model.path to the folder of the base model");
  const std::vector<std::string> targets = family_spelling(base, o.targets), save = family_spelling(base, o.save);
  LoraSettings s{.rank = o.rank,
                 .alpha = o.alpha,
                 .dropout = o.dropout,
                 .rslora = o.rslora,
                 .targets = targets.empty() ? usual_targets(base) : targets,
                 .rank_pattern = o.rank_pattern,
                 .alpha_pattern = o.alpha_pattern,
                 .layers = o.layers,
                 .save = save,
                 .ties_weights = false,
                 .where = "lora.targets",
                 .places = {},
                 .from_options = true};
  for (const char* key : {"targets", "rank_pattern", "alpha_pattern", "layers", "save"}) {
    const std::string option = fmt::format("lora.{}", key);
    if (const auto source = c.sources.find(option); source != c.sources.end())
      s.places[key] = fmt::format("{}, {}", option, source->second);
  }
  s.ties_weights = is_tied(base) && saves_table(base, s);
  if (o.path.empty()) return refuse_merged_tie(c, base, s), s;
  LoraSettings stored = adapter_settings(o.path);
  auto agree = [&](const char* key, const auto& given, const auto& there) {
    const auto where = c.sources.find(fmt::format("lora.{}", key));
    if (where != c.sources.end() && given != there)
      throw UserError(fmt::format("lora.{} is {}", key, text_of(given)), where->second,
                      fmt::format("{} says {}", stored.where, text_of(there)), "leave it out, or use another adapter");
  };
  auto modules = [&](const LoraSettings& lora) {
    std::vector<std::string> names;
    for (const auto& [name, spec] : adapter_specs(base, lora)) names.push_back(name);
    return names;
  };
  auto sorted = [](auto list) {
    std::sort(list.begin(), list.end());
    return list;
  };
  agree("rank", o.rank, stored.rank), agree("alpha", o.alpha, stored.alpha);
  agree("rslora", o.rslora, stored.rslora);
  if (!targets.empty()) {  // other words for the same modules agree
    LoraSettings asked = stored;
    asked.targets = targets, asked.targets_whole = false;
    if (modules(asked) != modules(stored)) agree("targets", sorted(targets), sorted(stored.targets));
  }
  agree("layers", sorted(o.layers), sorted(stored.layers));
  agree("save", sorted(save), sorted(stored.save));
  agree("rank_pattern", o.rank_pattern, stored.rank_pattern);
  agree("alpha_pattern", o.alpha_pattern, stored.alpha_pattern);
  if (c.sources.contains("lora.dropout")) stored.dropout = o.dropout;  // of training alone, it changes no function
  refuse_merged_tie(c, base, stored);
  return stored;
}

void keep_in_config(const LoraSettings& s, Config& c) {
  LoraOptions& o = c.lora;
  o.rank = s.rank, o.alpha = s.alpha, o.dropout = s.dropout, o.rslora = s.rslora;
  if (!s.targets_whole) o.targets = s.targets;
  o.rank_pattern = s.rank_pattern, o.alpha_pattern = s.alpha_pattern, o.layers = s.layers, o.save = s.save;
}

std::string adapter_text(const LoraSettings& lora, const Model& model) {
  int64_t trained = 0, all = 0, bytes = 0;
  for (const Param& p : model.params().params()) {
    if (p.tied) continue;
    all += p.shape.count();
    if (p.trainable) trained += p.shape.count();
  }
  for (const FileTensor& t : adapter_files(model).tensors) bytes += 4 * t.shape.count();
  std::string targets;
  for (const std::string& t : lora.targets) targets += (targets.empty() ? "" : ", ") + t;
  return fmt::format("rank {}, {} {:g} on {}{}: {} of {} parameters are trained, {} in a file", lora.rank,
                     lora.rslora ? "rank-stabilised, alpha" : "alpha", lora.alpha, targets,
                     lora.layers.empty() ? "" : fmt::format(" of layers {}", fmt::join(lora.layers, ", ")),
                     human_count(static_cast<double>(trained)), human_count(static_cast<double>(all)),
                     human_bytes(static_cast<double>(bytes)));
}

}  // namespace ravine
