#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "apps/commands.h"
#include "apps/info_runs.h"
#include "apps/terminal_columns.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/terminal.h"
#include "base/text.h"
#include "files/atomic.h"
#include "probe/chart.h"
#include "probe/run_metrics.h"
#include "runs/run_folder.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

struct PlotFlags {
  std::vector<std::string> runs, keys;
  std::string output;
  bool logarithmic = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("runs", runs, "folders of runs", positional() & required() & reads() & metavar("RUN .."));
    v("keys", keys, "keys of metrics.jsonl to draw; default: loss, valid_loss, grad_norm, lr, tokens_per_second",
      metavar("KEY .."));
    v("output", output, "file for the picture, instead of the terminal: .svg, or .html (self-contained)",
      filled() & writes() & metavar("FILE"));
    v("overwrite", overwrite, "replace an existing file of that name");
    v("log-scale", logarithmic, "draw logarithmic y axes");
  }
};

// Returns the losses for the chart: the logged means if the run logged every few steps, else the losses of steps.
std::vector<double> mean_losses(const RunMetrics& run) {
  std::vector<double> out = run.column("loss");
  const std::vector<double> means = run.column("mean_loss");
  for (size_t i = 0; i < out.size(); ++i)
    if (std::isfinite(means[i])) out[i] = means[i];
  return out;
}

// Adds the curves of one key. valid_loss is drawn with loss, between the steps that have one.
void add_series(const RunMetrics& run, const std::string& key, const std::string& name, Chart& chart, bool means = false) {
  if (!run.value.contains(key)) return;
  const std::vector<double> values = means ? mean_losses(run) : run.column(key);
  Series s{name, {}, {}};
  for (size_t i = 0; i < run.step.size(); ++i) {
    if (key == "valid_loss" && !std::isfinite(values[i])) continue;
    s.x.push_back(run.step[i]);
    s.y.push_back(values[i]);
  }
  chart.series.push_back(std::move(s));
}

std::vector<Chart> charts_of(const std::vector<RunMetrics>& runs, const PlotFlags& flags) {
  std::set<std::string> known;
  for (const RunMetrics& r : runs)
    for (const auto& [key, column] : r.value) known.insert(key);
  std::vector<std::string> keys = flags.keys;
  if (keys.empty())
    for (const char* key : {"loss", "grad_norm", "lr", "tokens_per_second"})
      if (known.contains(key)) keys.emplace_back(key);
  std::vector<Chart> charts;
  for (const std::string& key : keys) {
    if (!known.contains(key) && key.find(',') != std::string::npos)
      throw UserError(fmt::format("no key '{}'", key), "--keys", "keys are separated by blanks, not by commas",
                      fmt::format("write --keys {}", fmt::join(split(key, ','), " ")));
    if (!known.contains(key))
      throw UserError(fmt::format("no key '{}'", key), "--keys", fmt::format("the metrics hold {}", fmt::join(known, ", ")),
                      did_you_mean(key, {known.begin(), known.end()}, "name one of them"));
    Chart chart{.title = escaped(key), .x_label = "step", .logarithmic = flags.logarithmic, .series = {}};
    const bool with_valid = key == "loss" && known.contains("valid_loss");
    for (const RunMetrics& r : runs) {
      add_series(r, key, runs.size() > 1 ? r.name : with_valid ? "loss" : r.name, chart, key == "loss" && flags.keys.empty());
      if (with_valid) add_series(r, "valid_loss", runs.size() > 1 ? r.name + " valid" : "valid_loss", chart);
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

// Called before the work begins.
void check_picture(const PlotFlags& flags) {
  const std::string& path = flags.output;
  if (!path.ends_with(".html") && !path.ends_with(".svg"))
    throw UserError("picture '" + path + "'", "--output", "its name must end in .svg or .html", "choose one of them");
  refuse_existing_file(path, flags.overwrite);
}

void write_picture(const std::vector<Chart>& charts, const std::vector<RunMetrics>& runs, const PlotFlags& flags) {
  const std::string& path = flags.output;
  std::string names;
  for (const RunMetrics& r : runs) names += (names.empty() ? "" : ", ") + r.name;
  write_file_atomic(path, path.ends_with(".html") ? html_page(names, charts) : svg_page(charts),
                    may_overwrite(flags.overwrite));
}

int run_plot(PlotFlags& flags, Config&) {
  if (!flags.output.empty()) check_picture(flags);
  std::vector<RunMetrics> runs;
  for (const std::string& r : flags.runs) {
    if (std::error_code error; std::filesystem::is_regular_file(r, error) && !r.ends_with(".jsonl")) {
      const std::string folder =
          std::filesystem::absolute(r).parent_path().lexically_relative(std::filesystem::current_path()).string();
      throw UserError("a file, not a run", r, "plot takes the folder of a run, or its metrics.jsonl",
                      fmt::format("name the folder: {}", folder));
    }
    const std::string run = resolve_run(r);
    if (const auto inside = run != r || is_run(r) ? std::vector<std::string>() : runs_in(r, false); !inside.empty()) {
      std::string words;
      for (const std::string& one : inside) words += " " + shell_word(one);
      throw UserError("a folder of runs, not a run", r, "plot takes the folders of runs, or their metrics.jsonl",
                      "name them: ravine plot" + words);
    }
    runs.push_back(read_run_metrics(run));
    if (run != r) runs.back().name = std::filesystem::absolute(std::filesystem::path(r) / "").parent_path().filename().string();
    runs.back().name = escaped(runs.back().name);  // it is printed on a terminal
  }
  const std::vector<Chart> charts = charts_of(runs, flags);
  if (!flags.output.empty()) {
    write_picture(charts, runs, flags);
    print_stderr("saved    " + escaped(flags.output));
    return 0;
  }
  const int columns = std::min(terminal_columns().value_or(80), 160);
  for (const Chart& c : charts) {
    const std::string text = terminal_chart(c, columns, 12, shows_colour(STDOUT_FILENO)) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
}

}  // namespace

Command plot_command() {
  return command<PlotFlags>({.name = "plot",
                             .summary = "draw curves of runs: in the terminal, as SVG or as a page of HTML",
                             .example = "ravine plot runs/book --output book.html",
                             .sections = {},
                             .alone = true},
                            "Train", run_plot);
}

}  // namespace ravine
