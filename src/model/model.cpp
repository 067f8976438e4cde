#include "model/model.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

void Model::forward(Ctx& c) { forward(c, 0, blocks_.size(), {}); }

Flow Model::forward(Ctx& c, size_t begin, size_t end, Flow flow) {
  prepare(c.batch().max_position, c.types(), c.arena().device());
  for (size_t i = begin; i < end; ++i) {
    if (i + 1 < end) c.store().prefetch(*blocks_[i + 1].unit);
    flow = c.block(blocks_[i].path, *blocks_[i].unit, std::move(flow), blocks_[i].run);
  }
  return flow;
}

double Model::training_flops_per_token(int64_t T) const {
  const auto length = static_cast<double>(T);
  double keys = 0;  // twice the number of keys that a query sees on average, summed over all layers
  for (int64_t i = 0; i < facts_.layers; ++i) {
    const double w = decoder() ? static_cast<double>(decoder()->window(i)) : 0;
    keys += w > 0 && w < length ? 2 * w - w * w / length : length;
  }
  double products = 0;  // FLOPs of weights: forward, dx, and dw if trained
  for (const Param& p : params_.params())
    if (is_matrix(p)) products += (p.policy.trainable ? 6.0 : 4.0) * static_cast<double>(active_elements(p));
  return products + 3.0 * keys * static_cast<double>(facts_.heads * (facts_.head_size + facts_.value_size));
}

std::unique_ptr<Model> open_model(const std::string& path) {
  namespace fs = std::filesystem;
  std::string file = fs::is_directory(path) ? (fs::path(path) / "config.json").string() : path;
  return make_model(read_json(file), file);
}

std::unique_ptr<Model> make_model(const Json& config, const std::string& where) {
  if (!config.is_object())
    throw UserError("not a model config", where, "it must be a JSON object", "give the config.json of a model");
  std::string type =
      config.contains("model_type") && config["model_type"].is_string() ? config["model_type"].get<std::string>() : "";
  std::vector<std::string> known;
  for (const Family& f : families()) {
    known.push_back(f.model_type);
    if (type == f.model_type) return f.make(config, where);
  }
  std::string list;
  for (auto& k : known) list += (list.empty() ? "" : ", ") + k;
  throw UserError(type.empty() ? "config names no model_type" : fmt::format("model_type '{}' is not known", type), where,
                  "model_type must be one of: " + list, "use a model of one of these families");
}

namespace {

// Returns the advice for a pattern that matches none of these names.
std::string likely_pattern(const std::string& pattern, const std::vector<std::string>& names) {
  if (names.empty()) return "there are no parameters";
  std::string word = pattern;
  std::erase_if(word, [](char c) { return c == '*' || c == '?'; });
  const auto within = std::find_if(names.begin(), names.end(),
                                   [&](const std::string& n) { return !word.empty() && n.find(word) != std::string::npos; });
  if (within != names.end()) return fmt::format("write '*{}*', which matches {}", word, *within);
  if (const std::string near = nearest(pattern, names); !near.empty()) return fmt::format("did you mean '{}'?", near);
  return fmt::format("the names are {} .. {}; a pattern is for example 'model.layers.0.*'", names.front(), names.back());
}

}  // namespace

void apply_rules(ParamSet& params, const std::vector<ParamRule>& rules) {
  std::set<const Param*> grouped;
  for (const ParamRule& r : rules) {
    bool any = false;
    std::vector<std::string> names;
    for (Param& p : params.params()) {
      names.push_back(p.name);
      if (!glob_match(r.match, p.name)) continue;
      any = true;
      if (r.freeze) {
        p.policy.trainable = p.policy.updated_by_rule = false;
      } else if (grouped.insert(&p).second) {
        p.policy.lr_mult = r.lr_mult;
        p.policy.wd_mult = r.wd_mult;
        p.policy.from_step = r.from_step;
      }
    }
    if (!any)
      throw UserError("pattern matches no parameter", fmt::format("{}='{}'{}", r.option, r.match, r.given),
                      "it must match at least one parameter name, whole", likely_pattern(r.match, names));
  }
}

}  // namespace ravine
