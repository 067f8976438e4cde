#include "apps/check.h"
#include "apps/config_word.h"
#include "apps/rank_job.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/text.h"
#include "checks/repeated_run.h"
#include "files/atomic.h"
#include "probe/curve_band.h"
#include "probe/curves.h"
#include "runs/open.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

struct BaselineFlags {
  ModelFlag model;
  CommonFlags common;
  int64_t steps = 0, runs = 3;
  std::string against, out;
  bool perturb = false, json = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("perturb", perturb, "change roundings: run 2 sums in another order, further runs move each parameter by a rounding");
    v("runs", runs, "number of runs", between(2, 100));
    v("steps", steps, "steps of each run; 0: train.steps", between(0, kMostSteps));
    v("against", against, "log or run to judge by this band", metavar("LOG") & reads());
    v("out", out, "file for the curves, a band for ravine curves --band", filled() & writes() & metavar("FILE"));
    v("overwrite", overwrite, "replace an existing file of that name");
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

// The scatter of runs that should be equal.
struct Band {
  double loss = 0, norm = 0;  // largest differences of a step; of norms relative
  int64_t loss_at = 0;
  bool equal = true;
};

Band band_of(const std::vector<TrainingCurve>& runs) {
  Band b;
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t k = i + 1; k < runs.size(); ++k) {
      b.equal = b.equal && runs[i].loss == runs[k].loss && runs[i].norm == runs[k].norm;
      for (const auto& [step, x] : runs[i].loss)
        if (const auto y = runs[k].loss.find(step); y != runs[k].loss.end() && std::abs(x - y->second) > b.loss)
          b.loss = std::abs(x - y->second), b.loss_at = step;
      for (const auto& [step, x] : runs[i].norm)
        if (const auto y = runs[k].norm.find(step); y != runs[k].norm.end() && y->second > 0)
          b.norm = std::max(b.norm, std::abs(x - y->second) / y->second);
    }
  return b;
}

void report(const BaselineFlags& flags, const Band& band, const std::vector<TrainingCurve>& runs, const CurveVerdict* v) {
  const int64_t steps = static_cast<int64_t>(runs[0].loss.size());
  if (flags.json) {
    Json out{{"agrees", v ? Json(v->agrees()) : Json(!flags.perturb ? band.equal : true)},
             {"runs", runs.size()},
             {"steps", steps},
             {"repeats_bits", flags.perturb ? Json() : Json(band.equal)},
             {"band", {{"loss", band.loss}, {"at", band.loss_at}, {"norm", band.norm}}}};
    if (v) out["curves"] = verdict_json(*v);
    fmt::print("{}\n", out.dump(-1, ' ', true, Json::error_handler_t::replace));
    return;
  }
  if (band.equal)
    fmt::print("baseline {} of {}: all bits equal{}\n", counted(runs.size(), "run"), counted(steps, "step"),
               flags.perturb ? "; no rounding was changed" : "; --perturb shows what another order of sums would make");
  else
    fmt::print("baseline {} of {}: losses at most {:.3g} apart, at step {}; gradient norms {:.3g} %\n",
               counted(runs.size(), "run"), counted(steps, "step"), band.loss, band.loss_at, 100 * band.norm);
  if (v) fmt::print("verdict  {}\n", v->text());
}

int run_baseline(BaselineFlags& flags, Config& config) {
  refuse_without_model(config);
  check_output_file(flags.out, flags.overwrite);
  const int64_t steps = flags.steps > 0 ? flags.steps : config.train.steps;
  RankJob job(config.parallel, config.train.threads);
  bool agrees = true;
  const int status = job.run([&](World* world) {
    std::vector<TrainingCurve> runs;
    for (int64_t i = 0; i < flags.runs; ++i) {
      OtherRoundings way;
      if (flags.perturb && i == 1) way.reorder = true;
      if (flags.perturb && i > 1) way.seed = static_cast<uint64_t>(i - 1);
      runs.push_back(repeat_run(config, flags.common.backend, world, steps, way));
      if (!flags.perturb && i > 0) runs.back().name += fmt::format(", {}", i + 1);
    }
    if (world && world->rank() > 0) return;
    const Band band = band_of(runs);
    agrees = flags.perturb || band.equal;
    if (!flags.out.empty()) write_curve_band(flags.out, "baseline", runs, may_overwrite(flags.overwrite));
    std::optional<CurveVerdict> v;
    if (!flags.against.empty()) {
      CurveOptions options;
      options.band = runs;
      v = judge_curves(read_training_curve(resolve_run(flags.against)), runs[0], {}, options);
      agrees = v->agrees();
    }
    report(flags, band, runs, v ? &*v : nullptr);
    if (!flags.out.empty()) print_stderr("saved    " + escaped(flags.out));
  });
  return status != 0 ? status : agrees ? 0 : 1;
}

}  // namespace

Command check_baseline_command() {
  Command made = command<BaselineFlags>(
      {.name = "check baseline",
       .summary = "run several times, with other roundings, and measure the noise band of losses and norms",
       .example = "ravine check baseline run.yaml --perturb --out band.json",
       .about =
           "Without --perturb equal runs must have equal bits: the exit status is 1 if they differ. With --against it is 1 if that curve leaves the band.",
       .sections = {"model", "lora", "moe", "data", "train", "dpo", "optimizer", "schedule", "precision", "parallel"}},
      "", run_baseline);
  made.rewrite = config_word;
  return made;
}

}  // namespace ravine
