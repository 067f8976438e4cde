#include "checks/bisect_features.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/counted.h"
#include "base/error.h"
#include "checks/child_run.h"
#include "config/load.h"
#include "engine/recipe.h"
#include "files/atomic.h"
#include "probe/compare_dumps.h"
#include "probe/curves.h"
#include "probe/dump_kinds.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

bool is_unfused(const Config& c, const std::string& op) {
  const auto& all = c.precision.unfused;
  return std::find(all.begin(), all.end(), op) != all.end();
}

// Returns a smallest set of features that still differs, by delta debugging (Zeller 2002). It leaves out halves of the
// set, then quarters, down to single features, as long as the rest still differs.
std::set<int> smallest(std::vector<int> on, const std::function<bool(const std::set<int>&)>& differs) {
  for (size_t part = std::max<size_t>(1, on.size() / 2); !on.empty();) {
    bool less = false;
    for (size_t from = 0; from < on.size() && on.size() > 1; from += part) {
      std::vector<int> rest(on.begin(), on.begin() + static_cast<std::ptrdiff_t>(from));
      rest.insert(rest.end(), on.begin() + static_cast<std::ptrdiff_t>(std::min(on.size(), from + part)), on.end());
      if (rest.empty() || !differs({rest.begin(), rest.end()})) continue;
      on = std::move(rest), less = true;
      break;
    }
    if (!less && part == 1) break;
    part = less ? std::max<size_t>(1, std::min(part, on.size() / 2)) : part / 2;
  }
  return {on.begin(), on.end()};
}

// Trainings of subsets of the features, each once.
class FeatureRuns {
 public:
  FeatureRuns(const Config& config, std::vector<Feature> features, const FeatureOptions& o)
      : config_(config),
        features_(std::move(features)),
        o_(o),
        judged_by_dump_(!o.reference.empty() && dump_kind(o.reference)) {}

  // Returns the difference from the reference as text; "" if there is none beyond roundings.
  std::string difference(std::set<int> on) {
    for (bool more = true; more;) {  // a feature has no effect without the feature in `needs`
      more = false;
      for (const int i : std::set<int>(on))
        if (const int needs = features_[static_cast<size_t>(i)].needs; needs >= 0) more |= on.insert(needs).second;
    }
    if (const auto known = found_.find(on); known != found_.end()) return known->second;
    std::string found;
    try {
      const std::string folder = train(on);
      found = judged_by_dump_ ? against_dump(folder) : against_curve(folder);
    } catch (const ChildFailed& e) {
      if (on.empty()) throw;
      found = e.what();
    }
    o_.report(fmt::format("{:<9}{}", found.empty() ? "equal" : "DIFFERS", names(on)));
    return found_[on] = found;
  }
  std::string names(const std::set<int>& on) const {
    std::vector<std::string> all;
    for (const int i : on) all.push_back(features_[static_cast<size_t>(i)].name);
    return all.empty() ? "without all of them" : fmt::format("{}", fmt::join(all, ", "));
  }
  int64_t runs() const { return static_cast<int64_t>(folders_.size()); }

 private:
  Config with(const std::set<int>& on) const {
    Config c = config_;
    for (size_t i = 0; i < features_.size(); ++i)
      if (!on.contains(static_cast<int>(i))) features_[i].off(c);
    return c;
  }
  std::string train(const std::set<int>& on) {
    if (const auto known = folders_.find(on); known != folders_.end()) return known->second;
    const std::string folder = fmt::format("{}/run_{}", o_.folder, folders_.size());
    Config c = with(on);
    c.train.output = folder;
    c.train.exit_every = o_.steps;
    c.train.valid_every = 0;
    c.log.every = 1;
    c.probe.dump.clear();
    if (judged_by_dump_) {
      DumpOption dump;
      dump.dir = folder + ".dump", dump.what = DumpWhat::tensors, dump.steps = "1";
      c.probe.dump = {dump};
    }
    const std::string file = folder + ".yaml";
    write_file_atomic(file, to_yaml(c));
    const int64_t ranks = std::max<int64_t>(1, c.parallel.data) * c.parallel.tensor * c.parallel.pipeline;
    std::vector<std::string> words = started_on(o_.program, ranks);
    words.insert(words.end(), {"train", "--config", file});
    run_child(words, folder + ".log", "the training " + (on.empty() ? "without all features" : "with " + names(on)), o_.stop);
    return folders_[on] = folder;
  }

  std::string against_dump(const std::string& folder) const {
    auto [reference, here] = read_dumps(o_.reference, folder + ".dump");
    const Comparison c = compare_dumps(std::move(reference), std::move(here));
    return c.agrees() ? "" : c.verdict;
  }
  std::string against_curve(const std::string& folder) {
    const TrainingCurve here = read_training_curve(folder);
    const TrainingCurve right = read_training_curve(o_.reference.empty() ? train({}) : o_.reference);
    const std::string compute = coarser(here.compute, right.compute);
    const CurveVerdict v = judge_curves(here, right, {}, {.limit = CurveOptions{}.limit, .compute = compute});
    if (!v.agrees()) return v.finding();
    const bool digits = right.kind.starts_with("run of Ravine");  // all digits are there; logs print few
    for (const auto& [step, norm] : here.norm) {
      const auto other = right.norm.find(step);
      if (other == right.norm.end() || norm == other->second) continue;
      const double off = std::abs(norm - other->second) / std::abs(other->second),
                   most = std::max(8 * loss_envelope(compute, step), digits ? 0 : 5e-3);
      if (!(off <= most))
        return fmt::format("The gradient norm of step {} is {:.9g}, and {:.9g} in the reference: {:.2g} of {:.2g} allowed.",
                           step, norm, other->second, off, most);
    }
    return "";
  }
  static std::string coarser(const std::string& a, const std::string& b) {
    for (const char* type : {"bf16", "f16", "f32", "f64"})
      if (a == type || b == type) return type;
    return a;
  }

  const Config& config_;
  std::vector<Feature> features_;
  const FeatureOptions& o_;
  bool judged_by_dump_;
  std::map<std::set<int>, std::string> folders_, found_;
};

// Returns the features that bisect_features knows by name.
std::vector<Feature> named_features(const Config& c, bool with_data) {
  std::vector<Feature> all;
  const auto add = [&](bool on, const std::string& name, std::function<void(Config&)> off, int needs = -1,
                       const std::string& option = "") {
    if (!on) return -1;
    all.push_back({name, option.empty() ? name : option, std::move(off), needs});
    return static_cast<int>(all.size()) - 1;
  };
  for (const std::string op : kUnfusable)
    add(
        !is_unfused(c, op), "fused " + op, [op](Config& x) { x.precision.unfused.push_back(op); }, -1,
        fmt::format("precision.unfused=[{}]", op));
  add(
      c.train.recompute != Recompute::none, "recompute", [](Config& x) { x.train.recompute = Recompute::none; }, -1,
      "train.recompute");
  const int tensor =
      add(c.parallel.tensor > 1, "parallel.tensor", [](Config& x) { x.parallel.tensor = 1, x.parallel.sequence = false; });
  add(
      tensor >= 0 && c.parallel.sequence, "parallel.sequence", [](Config& x) { x.parallel.sequence = false; }, tensor);
  const int pipeline = add(c.parallel.pipeline > 1, "parallel.pipeline", [](Config& x) {
    x.parallel.pipeline = 1, x.parallel.virtual_stages = 1;
    x.parallel.stage_layers.clear();
  });
  add(
      pipeline >= 0 && c.parallel.virtual_stages > 1, "parallel.virtual", [](Config& x) { x.parallel.virtual_stages = 1; },
      pipeline);
  const int data = add(c.parallel.data > 1, "parallel.data", [](Config& x) { x.parallel.data = 1, x.parallel.expert = 1; });
  add(
      data >= 0 && c.parallel.zero > 0, "parallel.zero", [](Config& x) { x.parallel.zero = 0; }, data);
  add(
      data >= 0 && c.parallel.expert > 1, "parallel.expert", [](Config& x) { x.parallel.expert = 1; }, data);
  add(c.precision.compute != DType::f32 && c.precision.compute != DType::f64, "precision.compute",
      [](Config& x) { x.precision.compute = DType::f32; });
  add(c.precision.gradients != GradientType::f32, "precision.gradients",
      [](Config& x) { x.precision.gradients = GradientType::f32; });
  for (size_t i = 0; i < c.precision.recipes.size(); ++i) {
    const RecipeOption& r = c.precision.recipes[i];
    add(
        true, fmt::format("precision.recipes[{}] ({} at {})", i, r.op, r.path),
        [i](Config& x) {
          x.precision.recipes[i].path = "-";  // matches no call, and leaves the indices of the others
        },
        -1, c.precision.recipes.size() == 1 ? "precision.recipes" : fmt::format("precision.recipes[{}]", i));
  }
  add(c.offload.optimizer != OffloadTo::none, "offload.optimizer", [](Config& x) { x.offload.optimizer = OffloadTo::none; });
  add(c.offload.params != OffloadTo::none, "offload.params", [](Config& x) { x.offload.params = OffloadTo::none; });
  if (!with_data) return all;
  add(c.data.pack, "data.pack", [](Config& x) { x.data.pack = false; });
  add(c.train.dropout > 0, "train.dropout", [](Config& x) { x.train.dropout = 0; });
  add(c.train.attention_dropout > 0, "train.attention_dropout", [](Config& x) { x.train.attention_dropout = 0; });
  return all;
}

// Returns an option that has another value than its default as a feature.
Feature any_option(const Config& c, const std::string& option) {
  const auto value = [&](Config of) {
    std::string yaml;
    for (const Section& section : sections_of(of))
      for (const Option& o : section.options)
        if (o.name() == option) yaml = o.yaml();
    return yaml;
  };
  const std::string now = value(c), none = value(Config());
  if (now.empty())
    throw UserError(fmt::format("no feature '{}'", option), "--features", "it is a feature of the config, or an option",
                    "leave out --features: all features that are on are listed");
  if (now == none)
    throw UserError(fmt::format("{} is {}", option, now), "--features", "a feature differs from its default", "leave it out");
  return {option, option, [option, none](Config& x) { x = parse_config(to_yaml(x), "config", {{option, none}}); }, -1};
}

}  // namespace

std::vector<Feature> features_of(const Config& c, bool with_data, const std::vector<std::string>& only) {
  const std::vector<Feature> named = named_features(c, with_data || !only.empty());
  if (only.empty()) return named;
  std::vector<Feature> out;
  std::map<int, int> index;  // in `out`, by index in `named`
  for (const std::string& word : only) {
    bool known = false;
    for (size_t i = 0; i < named.size(); ++i) {
      const Feature& f = named[i];
      if (f.name != word && f.option != word && !f.option.starts_with(word + "=") && !f.option.starts_with(word + "["))
        continue;
      known = true;
      if (!index.emplace(static_cast<int>(i), static_cast<int>(out.size())).second) continue;
      out.push_back(f);
      const auto needs = index.find(f.needs);
      out.back().needs = needs == index.end() ? -1 : needs->second;
    }
    if (!known) out.push_back(any_option(c, word));
  }
  return out;
}

std::vector<std::set<int>> guilty_sets(int count, const std::function<bool(const std::set<int>&)>& differs) {
  std::vector<std::set<int>> found;
  std::set<int> all;
  for (int i = 0; i < count; ++i) all.insert(i);
  if (count == 0 || !differs(all)) return found;
  std::vector<int> rest;
  for (int i = 0; i < count; ++i)
    if (differs({i}))
      found.push_back({i});
    else
      rest.push_back(i);
  if (found.empty() || (rest.size() > 1 && differs({rest.begin(), rest.end()}))) found.push_back(smallest(rest, differs));
  return found;
}

FeatureBisection bisect_features(const std::string& config_file, const FeatureOptions& o) {
  const Config config = load_config(config_file);
  const std::vector<Feature> features = features_of(config, !o.reference.empty(), o.only);
  FeatureBisection out;
  for (const Feature& f : features) out.tried.push_back(f.name);
  FeatureRuns runs(config, features, o);
  std::set<int> all;
  for (size_t i = 0; i < features.size(); ++i) all.insert(static_cast<int>(i));
  if (!o.reference.empty() && runs.difference(all).empty()) {
    out.runs = runs.runs();
    return out;
  }
  out.finding = runs.difference({});
  out.without_all = !out.finding.empty();
  if (!out.without_all) {
    const auto differs = [&](const std::set<int>& on) { return !runs.difference(on).empty(); };
    for (const std::set<int>& set : guilty_sets(static_cast<int>(features.size()), differs)) {
      std::vector<std::string> names;
      for (const int i : set) {
        names.push_back(features[static_cast<size_t>(i)].name);
        out.options.push_back(features[static_cast<size_t>(i)].option);
      }
      out.guilty.push_back(std::move(names));
    }
    if (!features.empty()) out.finding = runs.difference(all);
  }
  out.runs = runs.runs();
  return out;
}

std::string FeatureBisection::text() const {
  if (without_all)
    return "The training without all features differs from the reference already, so no feature is to blame: compare weights, data and "
           "settings first (ravine check config). " +
           finding;
  if (guilty.empty()) return fmt::format("None of {} changes the result beyond roundings.", counted(tried.size(), "feature"));
  std::vector<std::string> sets;
  for (const auto& set : guilty) sets.push_back(set.size() == 1 ? set[0] : fmt::format("{} together", fmt::join(set, " and ")));
  return fmt::format("The result is changed by {}. {}", fmt::join(sets, "; by "), finding);
}

Json feature_bisection_json(const FeatureBisection& r) {
  return {{"agrees", r.agrees()},         {"features", r.options}, {"guilty", r.guilty}, {"tried", r.tried},
          {"without_all", r.without_all}, {"runs", r.runs},        {"verdict", r.text()}};
}

}  // namespace ravine
