#include "styles/flops_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/clock.h"
#include "engine/ctx.h"
#include "files/atomic.h"

namespace ravine {

// The sums of one module: of its own calls and parameters, or including all modules below it.
struct ModuleWork {
  double params = 0, macs = 0, flops = 0, seconds = 0;
  ModuleWork& operator+=(const ModuleWork& w) {
    params += w.params, macs += w.macs, flops += w.flops, seconds += w.seconds;
    return *this;
  }
};

struct ProfiledModule {
  ModuleWork own;
  std::map<std::string, ProfiledModule> below;  // by the next part of the path
  ModuleWork all() const {
    ModuleWork w = own;
    for (const auto& [name, m] : below) w += m.all();
    return w;
  }
};

namespace {

// Returns a number in DeepSpeed's format: "1.23 M".
std::string number_text(double x) {
  static constexpr struct {
    double from, unit;
    const char* name;
  } units[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e3, 1e3, "K"}, {1, 1, ""}, {1e-3, 1e-3, "m"}};
  const auto text = [&](double unit, const char* name) {
    return fmt::format("{:g} {}", std::round(x / unit * 100) / 100, name);
  };
  for (const auto& u : units)
    if (x >= u.from) return text(u.unit, u.name);
  return x == 0 ? text(1, "") : text(1e-6, "u");
}

std::string params_text(double x) {
  std::string out = number_text(x);
  if (out.ends_with(' ')) out.pop_back();
  std::replace(out.begin(), out.end(), 'G', 'B');
  return out;
}
std::string macs_text(double x) { return number_text(x) + "MACs"; }
std::string flops_text(double x) { return number_text(x) + "FLOPS"; }
std::string seconds_text(double x) { return number_text(x) + "s"; }

double share(double part, double whole) { return whole > 0 ? std::round(10000 * part / whole) / 100 : 0; }

bool multiplies(std::string_view op) {
  return op.ends_with("matmul") || op == "attention" || op == "latent_keys" || op == "loss_head";
}

}  // namespace

class ModuleTree : public Observer {
 public:
  explicit ModuleTree(const Model& model) {
    for (const Param& p : model.params().params())
      if (!p.tied) at(p.name.substr(0, p.name.rfind('.'))).own.params += static_cast<double>(p.shape.count());
  }
  void before(const CallInfo&) override { began_ = seconds_now(); }
  void after(const CallInfo& call) override {
    const bool forward = call.phase == Phase::forward;
    if (forward && call.micro != micro_) forget(root_), seen_.clear(), micro_ = call.micro;
    if (forward) seen_.insert(std::string(call.path));
    const double part = forward ? 1 : part_in_backward(call);
    if (part == 0) return;
    ModuleWork& w = at(call.path).own;
    w.seconds += part * (seconds_now() - began_);
    w.flops += part * call.flops;
    if (multiplies(call.op)) w.macs += part * call.flops / 2;
  }
  const ProfiledModule& root() const { return root_; }

 private:
  ProfiledModule& at(std::string_view path) {
    ProfiledModule* m = &root_;
    while (!path.empty()) {
      const size_t dot = path.find('.');
      m = &m->below[std::string(path.substr(0, dot))];
      path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    }
    return *m;
  }
  // Returns the part of a call in the backward pass that belongs to the forward pass. The head computes the loss within
  // the backward pass: a third of the fused call (one of its three products), or all of an unfused forward call.
  double part_in_backward(const CallInfo& call) const {
    if (call.phase != Phase::backward || seen_.contains(std::string(call.path))) return 0;
    return std::string_view(call.op) == "loss_head" ? 1.0 / 3 : call.role == Role::forward ? 1 : 0;
  }
  static void forget(ProfiledModule& m) {
    m.own = {.params = m.own.params};
    for (auto& [name, below] : m.below) forget(below);
  }
  ProfiledModule root_;
  std::set<std::string> seen_;  // paths with calls of the forward pass
  double began_ = 0;
  int64_t micro_ = -1;
};

namespace {

// The sums of the modules of one name, for each depth: layers.0 and layers.1 are both added to `layers`.
using Depths = std::vector<std::map<std::string, ModuleWork>>;

bool is_number(const std::string& s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void add_depths(const std::string& name, const ProfiledModule& m, size_t depth, Depths& out) {
  if (out.size() <= depth) out.resize(depth + 1);
  out[depth][name] += m.all();
  for (const auto& [part, below] : m.below) add_depths(is_number(part) ? name + " layer" : part, below, depth + 1, out);
}

std::string top_of(const std::map<std::string, ModuleWork>& modules, int64_t top, double ModuleWork::*figure,
                   std::string (*text)(double)) {
  std::vector<std::pair<std::string, double>> rows;
  for (const auto& [name, work] : modules) rows.emplace_back(name, work.*figure);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (size_t i = 0; i < rows.size() && i < static_cast<size_t>(top); ++i)
    out += fmt::format("{}'{}': '{}'", i == 0 ? "" : ", ", rows[i].first, text(rows[i].second));
  return "{" + out + "}";
}

std::string aggregated(const std::string& name, const ProfiledModule& root, const FlopsProfilerKeys& keys) {
  Depths depths;
  add_depths(name, root, 0, depths);
  const size_t shown = keys.module_depth < 0 ? depths.size() : std::min(depths.size(), static_cast<size_t>(keys.module_depth));
  std::string out =
      fmt::format("Top {} modules in terms of params, MACs or fwd latency at different model depths:\n", keys.top_modules);
  for (size_t d = 0; d < shown; ++d)
    out += fmt::format("depth {}:\n    params      - {}\n    MACs        - {}\n    fwd latency - {}\n", d,
                       top_of(depths[d], keys.top_modules, &ModuleWork::params, params_text),
                       top_of(depths[d], keys.top_modules, &ModuleWork::macs, macs_text),
                       top_of(depths[d], keys.top_modules, &ModuleWork::seconds, seconds_text));
  return out;
}

void add_tree(const std::string& name, const ProfiledModule& m, const ModuleWork& whole, size_t indent, std::string& out) {
  const ModuleWork w = m.all();
  out += fmt::format("{:{}}{}(\n{:{}}{} = {:g}% Params, {} = {:g}% MACs, {} = {:g}% latency, {}\n", "", indent, name, "",
                     indent + 2, params_text(w.params), share(w.params, whole.params), macs_text(w.macs),
                     share(w.macs, whole.macs), seconds_text(w.seconds), share(w.seconds, whole.seconds),
                     flops_text(w.seconds > 0 ? w.flops / w.seconds : 0));
  for (const auto& [part, below] : m.below) add_tree("(" + part + "): ", below, whole, indent + 2, out);
  out += fmt::format("{:{}})\n", "", indent);
}

// Returns the report of one step, in DeepSpeed's format.
std::string report_of(const OpenedRun& run, const ProfiledModule& root, const FlopsProfilerKeys& keys, int64_t step,
                      const StepTimes& times) {
  const ModuleWork all = root.all();
  const Mesh& mesh = run.ranks.mesh();
  const int64_t micro = run.config().train.micro_batch;
  const MicroTimes t = times.micro.empty() ? MicroTimes{} : times.micro.back();
  const double backward = t.backward + times.reduce, iteration = t.forward + backward + times.update,
               factor = 2 + keys.recompute_fwd_factor;
  std::string out = fmt::format(
      "\n-------------------------- DeepSpeed Flops Profiler --------------------------\nProfile Summary at step {}:\nNotations:\n"
      "data parallel size (dp_size), model parallel size(mp_size),\n"
      "number of parameters (params), number of multiply-accumulate operations(MACs),\n"
      "number of floating-point operations (flops), floating-point operations per second (FLOPS),\n"
      "fwd latency (forward propagation latency), bwd latency (backward propagation latency),\n"
      "step (weights update latency), iter latency (sum of fwd, bwd and step latency)\n\n",
      step);
  const auto row = [&](const std::string& name, const std::string& value) {
    out += fmt::format("{:<70}  {:<8}\n", name + ": ", value);
  };
  row("world size", std::to_string(run.ranks.size()));
  row("data parallel size", std::to_string(mesh.data));
  row("model parallel size", std::to_string(mesh.tensor));
  row("batch size per GPU", std::to_string(micro));
  row("params per GPU", params_text(all.params));
  row("params of model = params per GPU * mp_size", params_text(all.params));
  row("fwd MACs per GPU", macs_text(all.macs));
  row("fwd flops per GPU", number_text(all.flops));
  row("fwd flops of model = fwd flops per GPU * mp_size", number_text(all.flops * mesh.tensor));
  row("fwd latency", seconds_text(t.forward));
  row("fwd FLOPS per GPU = fwd flops per GPU / fwd latency", flops_text(all.flops / t.forward));
  row("bwd latency", seconds_text(backward));
  row(fmt::format("bwd FLOPS per GPU = {:g} * fwd flops per GPU / bwd latency", factor),
      flops_text(factor * all.flops / backward));
  row(fmt::format("fwd+bwd FLOPS per GPU = {:g} * fwd flops per GPU / (fwd+bwd latency)", factor + 1),
      flops_text((factor + 1) * all.flops / (t.forward + backward)));
  row("step latency", seconds_text(times.update));
  row("iter latency", seconds_text(iteration));
  row(fmt::format("FLOPS per GPU = {:g} * fwd flops per GPU / iter latency", factor + 1),
      flops_text((factor + 1) * all.flops / iteration));
  row("samples/second", fmt::format("{:g}", std::round(100 * static_cast<double>(micro * run.ranks.size()) / iteration) / 100));
  const Json& architectures = run.model->config().value("architectures", Json::array());
  const std::string name = architectures.is_array() && !architectures.empty() && architectures[0].is_string()
                               ? architectures[0].get<std::string>()
                               : "Model";
  out += "\n----------------------------- Aggregated Profile per GPU -----------------------------\n" +
         aggregated(name, root, keys);
  if (keys.detailed) {
    out +=
        "\n------------------------------ Detailed Profile per GPU ------------------------------\n"
        "Each module profile is listed after its name in the following order: \n"
        "params, percentage of total params, MACs, percentage of total MACs, fwd latency, percentage of total fwd latency, fwd FLOPS\n\n";
    add_tree(name, root, all, 0, out);
  }
  return out + "------------------------------------------------------------------------------\n";
}

}  // namespace

FlopsProfile::FlopsProfile(FlopsProfilerKeys keys) : keys_(std::move(keys)) {}
FlopsProfile::~FlopsProfile() = default;

void FlopsProfile::begin(OpenedRun& run, int64_t) { run_ = &run; }

void FlopsProfile::begin_step(int64_t step) {
  if (step != keys_.profile_step + 1 || !run_->ranks.first()) return;
  modules_ = std::make_unique<ModuleTree>(*run_->model);
  run_->engine->ctx().add_observer(modules_.get());
}

void FlopsProfile::end_step(const StepResult& result, const UpdateRates&, double) {
  if (!modules_) return;
  run_->engine->ctx().remove_observer(modules_.get());
  const std::string text = report_of(*run_, modules_->root(), keys_, keys_.profile_step + 1, result.times);
  modules_.reset();
  if (keys_.output_file.empty()) return run_->log.line("{}", text);
  try {
    if (const std::string folder = std::filesystem::path(keys_.output_file).parent_path(); !folder.empty())
      create_folders(folder);
    write_file_atomic(keys_.output_file, text);
    run_->log.line("profile  of step {}: {}", keys_.profile_step + 1, keys_.output_file);
  } catch (const Error& e) {
    run_->log.warn("flops_profiler.output_file: {}; the run goes on", e.what());
  }
}

}  // namespace ravine
