#include "checks/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/counted.h"
#include "base/error.h"
#include "checks/child_run.h"
#include "config/load.h"
#include "io/checkpoint.h"
#include "probe/compare_dumps.h"
#include "probe/run_metrics.h"
#include "probe/stored_dump.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// The figures of a step in metrics.jsonl.
struct StepFigures {
  double loss = 0, norm = 0;
  bool same(const StepFigures& o) const {
    const auto equal = [](double x, double y) {
      return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y) || (std::isnan(x) && std::isnan(y));
    };
    return equal(loss, o.loss) && equal(norm, o.norm);
  }
};

// A side as a run with recorded steps.
struct SideRun {
  std::string name, path, program, folder;  // name: "a" or "b"; folder: of the run
  int64_t ranks = 1;
  std::map<int64_t, StepFigures> steps;
};

int64_t ranks_of(const ParallelOptions& p) { return std::max<int64_t>(1, p.data) * p.tensor * p.pipeline; }

std::map<int64_t, StepFigures> figures_of(const std::string& run) {
  const RunMetrics metrics = read_run_metrics(run);
  const std::vector<double> losses = metrics.column("loss"), norms = metrics.column("grad_norm");
  std::map<int64_t, StepFigures> out;
  for (size_t i = 0; i < metrics.step.size(); ++i) out[static_cast<int64_t>(metrics.step[i])] = {losses[i], norms[i]};
  return out;
}

// Opens a side. A config is trained for the first steps in a folder of its own.
SideRun open_side(const BisectSide& side, const std::string& name, const BisectOptions& o) {
  SideRun run{.name = name, .path = side.path, .program = side.program, .folder = side.path, .ranks = 1, .steps = {}};
  std::error_code error;
  if (!fs::exists(side.path, error))
    throw UserError("no such file or folder", side.path, "a side is a config or a run", "check the path");
  if (fs::is_directory(side.path, error)) {
    const std::string config = (fs::path(side.path) / "config.yaml").string();
    if (!fs::exists(config, error))
      throw UserError("not the folder of a run", side.path, "it must have a config.yaml and a metrics.jsonl",
                      "give a run, or a config (YAML) to train");
    run.ranks = ranks_of(load_config(config).parallel);
  } else {
    run.ranks = ranks_of(load_config(side.path).parallel);
    run.folder = o.folder + "/run_" + name;
    o.report(fmt::format("trains   {} for {}", side.path, counted(o.steps, "step")));
    std::vector<std::string> words = started_on(side.program, run.ranks);
    words.insert(words.end(), {"train", "--config", side.path, "train.output=" + run.folder,
                               fmt::format("train.exit_every={}", o.steps), "log.every=1", "train.valid_every=0"});
    run_child(words, o.folder + "/train_" + name + ".log", "the training of " + side.path, o.stop);
  }
  run.steps = figures_of(run.folder);
  return run;
}

// Returns the newest checkpoint of a run after at most `step` steps, or the folder of the run, whose steps are repeated
// from the beginning.
std::string replay_point(const SideRun& run, int64_t step) {
  for (int64_t s = step; s > 0; --s) {
    const std::string checkpoint = (fs::path(run.folder) / "checkpoints" / checkpoint_name(s)).string();
    if (is_checkpoint(checkpoint)) return checkpoint;
  }
  return run.folder;
}

// Steps [from, to] of both sides, dumped. what: content per tensor. path: glob pattern of calls.
struct DumpOrder {
  int64_t from, to;
  std::string what, path = "*";
  std::vector<std::string> phases = {};
};

class Dumps {
 public:
  Dumps(const SideRun& a, const SideRun& b, const BisectOptions& o) : a_(a), b_(b), o_(o) {}

  // Repeats the steps on both sides, and returns the folders of their dumps.
  std::pair<std::string, std::string> make(const DumpOrder& order) {
    ++count_;
    return {one(a_, order), one(b_, order)};
  }
  Comparison compare(const DumpOrder& order) {
    const auto [a, b] = make(order);
    return compare_dumps(read_dump(a), read_dump(b));
  }

 private:
  std::string one(const SideRun& run, const DumpOrder& order) {
    const std::string out = fmt::format("{}/dump_{}_{}", o_.folder, count_, run.name);
    std::vector<std::string> words = started_on(run.program, run.ranks);
    words.insert(words.end(), {"dump", "--from", replay_point(run, order.from - 1), "--step", std::to_string(order.to),
                               "--steps", fmt::format("{}-{}", order.from, order.to), "--out", out, "--what", order.what,
                               "--paths", order.path, "--limit-mb", "0"});
    for (const std::string& phase : order.phases) words.insert(words.end(), {"--phases", phase});
    run_child(words, fmt::format("{}/dump_{}_{}.log", o_.folder, count_, run.name), "the repeated steps of " + run.path,
              o_.stop);
    return out;
  }

  const SideRun &a_, &b_;
  const BisectOptions& o_;
  int count_ = 0;
};

// Returns 7 for model.layers.7.mlp; -1 outside of layers.
int64_t layer_of(const std::string& path) {
  const size_t at = path.find("layers.");
  int64_t layer = -1;
  if (at != std::string::npos) std::from_chars(path.data() + at + 7, path.data() + path.size(), layer);
  return layer;
}

// Returns the first pair whose bits differ, in the order of the run; null if there is none.
const ComparedPair* first_pair(const Comparison& c) {
  for (const ComparedPair& p : c.pairs)
    if (!p.same()) return &p;
  return nullptr;
}

FirstDifference difference_of(const ComparedPair& p, const Comparison& c) {
  FirstDifference d;
  d.step = p.a.step, d.micro = p.a.micro, d.layer = layer_of(p.a.path), d.rank = p.rank;
  d.phase = name(p.a.phase), d.path = p.a.path, d.op = p.a.op, d.tensor = p.a.tensor, d.output = p.a.output;
  d.inputs_equal = p.a.output && std::all_of(c.pairs.begin(), c.pairs.end(), [&](const ComparedPair& q) {
                     return q.a.output || q.rank != p.rank || q.a.call() != p.a.call() || q.same();
                   });
  return d;
}

const DumpRecord* record_in(const Dump& dump, int rank, const std::string& key) {
  for (const RankDump& r : dump.ranks)
    for (const DumpRecord& record : r.records)
      if (r.rank == rank && record.key() == key) return &record;
  return nullptr;
}

// Fills in the first element that differs, with both values, from dumps that hold the tensors.
void find_element(FirstDifference& d, const std::string& key, const std::pair<std::string, std::string>& folders) {
  const Dump a = read_dump(folders.first), b = read_dump(folders.second);
  const DumpRecord *x = record_in(a, d.rank, key), *y = record_in(b, d.rank, key);
  if (!x || !y || !x->is_stored() || !y->is_stored() || x->shape != y->shape || x->dtype != y->dtype) return;
  StoredDump stored_a(folders.first), stored_b(folders.second);
  const std::span<const std::byte> in_a = stored_a.bytes(*x), in_b = stored_b.bytes(*y);
  const auto size = static_cast<size_t>(size_of(x->dtype));
  const size_t count = std::min(in_a.size(), in_b.size()) / size;
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(in_a.data() + i * size, in_b.data() + i * size, size) == 0) continue;
    const PairErrors e = errors_between(x->dtype, in_a.subspan(i * size, size), x->dtype, in_b.subspan(i * size, size));
    if (e.at >= 0)
      d.a = element_text(x->dtype, e.a_at, 9), d.b = element_text(x->dtype, e.b_at, 9);
    else
      d.a = "0, or NaN with other bits", d.b = d.a;
    auto rest = static_cast<int64_t>(i);
    for (int k = x->shape.rank(); k-- > 0;) d.element.insert(d.element.begin(), rest % x->shape[k]), rest /= x->shape[k];
    return;
  }
}

std::string step_text(const std::string& phase, int64_t layer, const std::string& op, const std::string& path) {
  return fmt::format("{}{}: {} at {}", phase, layer >= 0 ? fmt::format(", layer {}", layer) : "", op,
                     path.empty() ? "-" : path);
}

}  // namespace

std::string Bisection::text() const {
  if (equal) {
    std::string out = fmt::format("All {} are equal bit for bit.", counted(steps, "step"));
    for (size_t side = 0; side < 2; ++side)
      if (further[side] > 0) out += fmt::format(" {} has recorded {}.", "AB"[side], counted(further[side], "further step"));
    return out;
  }
  if (!first) return "Losses or gradient norms differ, and no repeated call does: the record is of another machine or program.";
  const FirstDifference& d = *first;
  std::string out;
  if (d.step == 0) {
    out += fmt::format("The weights before the first step differ, first {}.", d.path);
  } else {
    if (d.step > 1) out += fmt::format("Before step {} all is equal bit for bit. ", d.step);
    out += fmt::format("The first difference is in step {}, {}, tensor '{}'", d.step, step_text(d.phase, d.layer, d.op, d.path),
                       d.tensor);
    if (d.output)
      out += d.inputs_equal ? "; all inputs of the call are equal." : "; the call has other inputs too.";
    else
      out += ", which no call wrote.";
  }
  if (!alone.empty()) out += fmt::format(" One run alone has: {}.", fmt::join(alone, "; "));
  if (!d.element.empty()) out += fmt::format(" Element [{}] is {} in A and {} in B.", fmt::join(d.element, ", "), d.a, d.b);
  if (agrees) return out + " Roundings explain all differences.";
  if (culprit)
    out += fmt::format(" Roundings do not explain step {}, {}{}.", culprit->step,
                       step_text(culprit->phase, layer_of(culprit->path), culprit->op, culprit->path),
                       culprit->hypothesis.empty() ? "" : ": " + culprit->hypothesis);
  return out;
}

Bisection bisect(const BisectSide& a, const BisectSide& b, const BisectOptions& options) {
  const SideRun run_a = open_side(a, "a", options), run_b = open_side(b, "b", options);
  Bisection out;
  int64_t last_equal = 0, differing = 0, last = 0;
  for (const auto& [step, figures] : run_a.steps) {
    const auto other = run_b.steps.find(step);
    if (other == run_b.steps.end()) continue;
    ++out.steps, last = step;
    if (!figures.same(other->second)) {
      differing = step;
      break;
    }
    last_equal = step;
  }
  if (out.steps == 0)
    throw UserError("no step in common", a.path + ", " + b.path, "both must have recorded a step", "train with log.every=1");
  const auto behind = [&](const SideRun& run) {
    return static_cast<int64_t>(std::distance(run.steps.upper_bound(last), run.steps.end()));
  };
  out.further = {behind(run_a), behind(run_b)};
  Dumps dumps(run_a, run_b, options);
  if (differing == 0) {  // weights may differ behind equal losses
    options.report(fmt::format("steps    {} have equal losses and norms; weights and optimizer states are compared",
                               counted(out.steps, "recorded step")));
    const Comparison states = dumps.compare({.from = last, .to = last, .what = "checksum", .phases = {"update"}});
    out.equal = out.agrees = !first_pair(states) && states.agrees();
    if (out.equal) return out;
    last_equal = 0, differing = last;
  }
  int64_t from = last_equal + 1;
  const auto repeat = [&] {
    options.report(fmt::format("repeats  steps {} to {} of both", from, differing));
    return dumps.compare({.from = from, .to = differing, .what = "statistics"});
  };
  Comparison c = repeat();
  if (const ComparedPair* p = first_pair(c); p && from > 1 && p->a.op == kStateOp && p->a.step < from) {
    // An earlier update has made other weights.
    options.report(fmt::format("states   of steps 1 to {}", from - 1));
    const Comparison states = dumps.compare({.from = 1, .to = from - 1, .what = "checksum", .phases = {"update"}});
    if (const ComparedPair* first = first_pair(states)) {
      from = differing = std::max<int64_t>(1, first->a.step);
      c = repeat();
    }
  }
  out.agrees = c.agrees();
  out.alone = c.uncovered;
  if (!c.culprits.empty()) out.culprit = c.culprits.front();
  const ComparedPair* pair = first_pair(c);
  if (!pair) return out;
  out.first = difference_of(*pair, c);
  if (c.layouts_differ) return out;
  options.report(fmt::format("values   of {} at {}, step {}", out.first->op, out.first->path.empty() ? "-" : out.first->path,
                             out.first->step));
  find_element(*out.first, pair->a.key(),
               dumps.make({.from = out.first->step,
                           .to = out.first->step,
                           .what = "tensors",
                           .path = out.first->path.empty() ? "*" : out.first->path,
                           .phases = {out.first->phase}}));
  return out;
}

Json bisection_json(const Bisection& r) {
  Json j{{"equal", r.equal}, {"agrees", r.agrees}, {"steps", r.steps},  {"verdict", r.text()},
         {"alone", r.alone}, {"first", nullptr},   {"culprit", nullptr}};
  if (r.first) {
    const FirstDifference& d = *r.first;
    j["first"] = {{"step", d.step},
                  {"micro", d.micro},
                  {"phase", d.phase},
                  {"layer", d.layer >= 0 ? Json(d.layer) : Json()},
                  {"path", d.path},
                  {"op", d.op},
                  {"tensor", d.tensor},
                  {"rank", d.rank},
                  {"output", d.output},
                  {"inputs_equal", d.inputs_equal},
                  {"element", d.element},
                  {"a", d.a},
                  {"b", d.b}};
  }
  if (r.culprit) {
    const Culprit& c = *r.culprit;
    j["culprit"] = {{"step", c.step},
                    {"phase", c.phase},
                    {"path", c.path},
                    {"op", c.op},
                    {"kind", std::string(name(c.kind))},
                    {"hypothesis", c.hypothesis}};
  }
  return j;
}

}  // namespace ravine
