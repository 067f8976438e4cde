#include <algorithm>
#include <cmath>

#include "apps/commands.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "files/atomic.h"
#include "probe/curve_band.h"
#include "probe/curves.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

struct CurvesFlags {
  std::vector<std::string> curves;
  std::string picture, band;
  CurveOptions options;
  bool suggest = false, json = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("curves", curves, "run A to test, run B to compare it with, and repeats of B if there are any",
      positional() & required() & reads() & metavar("A B [C ..]") &
          detail(
              "Read are folders of runs, TensorBoard's files, trainer_state.json, .csv or .jsonl with step and loss, and logs of Megatron or MindFormers."));
    v("band", band, "file of check baseline or check lr0, whose curves show the allowed differences",
      metavar("FILE") & reads());
    v("limit", options.limit, "largest difference of the smoothed losses after step 50; not used if B has repeats",
      between(1e-9, 1e6));
    v("compute", options.compute, "number format of the arithmetic, for curves that do not state it; empty: bf16",
      one_of({"", "f32", "bf16", "f16", "f64"}));
    v("suggest-threshold", suggest, "suggest health.skip_norm for such runs, and list the steps that it would have skipped");
    v("svg", picture, "file for a picture of losses, their difference and norms: .svg, or .html (self-contained)",
      filled() & writes() & metavar("FILE"));
    v("overwrite", overwrite, "replace an existing file of that name");
    v("json", json, "print one JSON object");
  }
};

void print_verdict(const CurveVerdict& v, const TrainingCurve& a, const TrainingCurve& b, size_t repeats) {
  fmt::print("curves   {} ({}, {}) against {} ({}, {}){}: {} in common, {} to {}\n", escaped(a.name), a.kind,
             counted(a.loss.size(), "step"), escaped(b.name), b.kind, counted(b.loss.size(), "step"),
             repeats > 0 ? fmt::format(" and {}", counted(repeats, "repeat")) : "",
             counted(static_cast<size_t>(v.steps), "step"), v.first, v.last);
  fmt::print("exact    the first {} are equal\n", counted(static_cast<size_t>(v.exact), "step"));
  if (v.early.steps > 0)
    fmt::print("early    up to step 50 at most {:.2g} of what {} explains{}\n", v.early.ratio,
               v.from_repeats ? "their scatter" : v.compute,
               v.early.at > 0 ? fmt::format(", at step {}: {:.3g} %", v.early.at, 100 * v.early.relative) : "");
  if (v.late.steps > 0)
    fmt::print(
        "late     from step {}: smoothed at most {:+.3g} of +-{:.3g}, last third {:+.3g} +- {:.2g}, drift {:+.3g} +- {:.2g}{}\n",
        v.late.from, v.late.most, v.late.band, v.late.mean, v.late.error, v.late.drift, v.late.drift_error,
        v.late.noise_ratio > 0 ? fmt::format(", {:.2g} times the repeats' own", v.late.noise_ratio) : "");
  if (v.norm) fmt::print("norm     {:.3g} % apart on average\n", 100 * *v.norm);
  for (const CurveRule& r : v.rules)
    fmt::print("rule     {}: {} {:.3g}, limit {:.3g}: {}\n", r.who, r.what, r.measured, r.limit,
               r.kept() ? "kept" : "not kept");
  fmt::print("verdict  {}\n", v.text());
}

void print_threshold(const SkipThreshold& t) {
  fmt::print("skip     health.skip_norm={:g}: of norms like these {:.2g} in a million lie above\n", t.threshold, t.per_million);
  for (const SkipThreshold::Run& r : t.runs) {
    std::string steps;
    for (size_t i = 0; i < std::min<size_t>(r.above.size(), 8); ++i)
      steps += fmt::format("{}{}", i > 0 ? ", " : "", r.above[i]);
    fmt::print("         {}: {} of {} skipped{}{}\n", escaped(r.name), r.above.size(),
               counted(static_cast<size_t>(r.steps), "step"),
               steps.empty() ? "" : ": " + steps + (r.above.size() > 8 ? ", .." : ""),
               r.in_a_row > 1 ? fmt::format("; {} in a row (health.skip_count)", r.in_a_row) : "");
  }
}

Json threshold_json(const SkipThreshold& t) {
  Json runs = Json::array();
  for (const SkipThreshold::Run& r : t.runs)
    runs.push_back({{"name", r.name}, {"steps", r.steps}, {"above", r.above}, {"in_a_row", r.in_a_row}});
  return {{"skip_norm", t.threshold}, {"per_million", t.per_million}, {"runs", runs}};
}

int run_curves(CurvesFlags& flags, Config&) {
  if (flags.curves.size() < 2 && !flags.suggest)
    throw UserError("one curve", "command line", "two or more are compared", "name the other one too; `ravine plot` draws one");
  const std::string& picture = flags.picture;
  if (!picture.empty()) {
    if (!picture.ends_with(".svg") && !picture.ends_with(".html"))
      throw UserError("picture '" + picture + "'", "--svg", "its name must end in .svg or .html", "choose one of them");
    if (flags.curves.size() < 2)
      throw UserError("a picture of one curve", "--svg", "it shows the difference of two curves", "use `ravine plot`");
    refuse_existing_file(picture, flags.overwrite);
  }
  if (!flags.band.empty()) flags.options.band = read_curve_band(flags.band);
  std::vector<TrainingCurve> curves;
  for (const std::string& path : flags.curves) curves.push_back(read_training_curve(resolve_run(path)));
  for (TrainingCurve& c : curves)
    if (std::count_if(curves.begin(), curves.end(), [&](const TrainingCurve& other) { return other.name == c.name; }) > 1)
      c.name = flags.curves[static_cast<size_t>(&c - curves.data())];
  Json all = Json::object();
  bool agrees = true;
  if (curves.size() > 1) {
    const std::vector<TrainingCurve> repeats(curves.begin() + 2, curves.end());
    const CurveVerdict v = judge_curves(curves[0], curves[1], repeats, flags.options);
    agrees = v.agrees();
    all = verdict_json(v);
    if (!flags.json) print_verdict(v, curves[0], curves[1], repeats.size());
    if (!picture.empty()) {
      std::vector<TrainingCurve> shown = curves;
      for (TrainingCurve& c : shown) c.name = escaped(c.name);
      const std::vector<Chart> charts = curve_charts(shown[0], shown[1], {shown.begin() + 2, shown.end()}, v);
      write_file_atomic(picture,
                        picture.ends_with(".html") ? html_page(shown[0].name + ", " + shown[1].name, charts) : svg_page(charts),
                        may_overwrite(flags.overwrite));
      print_stderr("saved    " + escaped(picture));
    }
  }
  if (flags.suggest) {
    const SkipThreshold t = suggest_threshold(curves);
    if (flags.json)
      all["threshold"] = threshold_json(t);
    else
      print_threshold(t);
  }
  if (flags.json) fmt::print("{}\n", all.dump(-1, ' ', true, Json::error_handler_t::replace));
  return agrees ? 0 : 1;
}

}  // namespace

Command curves_command() {
  return command<CurvesFlags>(
      {.name = "curves",
       .summary = "test if the losses of two runs differ by no more than rounding explains",
       .example = "ravine curves runs/here megatron.log --svg difference.svg",
       .about =
           "Judges whether two loss curves agree within the rounding noise that their own steps show, and where they diverge. The exit status is 1 if they diverge.",
       .sections = {},
       .alone = true},
      "Precision", run_curves);
}

}  // namespace ravine
