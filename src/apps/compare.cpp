#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "apps/commands.h"
#include "apps/rank_job.h"
#include "apps/replayed_run.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/launcher.h"
#include "base/missing_path.h"
#include "base/text.h"
#include "files/atomic.h"
#include "probe/compare_dumps.h"
#include "probe/compare_page.h"
#include "probe/dump_kinds.h"
#include "probe/named_tensors.h"
#include "probe/spread.h"
#include "probe/whole_run.h"
#include "styles/styles.h"
#include "train/trainer.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr size_t kShownRows = 12, kShownUnmatched = 10;

struct CompareFlags {
  CommonFlags common;
  std::string a, b, from, run, report;
  bool overwrite = false, json = false;
  template <class V>
  void each(V&& v) {
    v("a", a, "dump or trace to compare: of Ravine, PyTorch, msprobe, MindSpore or PTDBG, or a folder of .npy files",
      positional() & required() & reads() & metavar("A") &
          detail("Read are folders of probe.dump and ravine dump, traces of tools/trace_torch.py, and files of ravine trace."));
    v("b", b, "dump or trace to compare with A, of the same kind", positional() & required() & reads() & metavar("B"));
    v("from", from, "checkpoint of the run of dump A: its kernels run on the inputs of both dumps",
      filled() & metavar("CHECKPOINT") & reads_folder() &
          detail(
              "Give RUN/checkpoints/step_N, or RUN. Its steps are made again. This tells an error that a call makes from an error that it inherits."));
    v("run", run, kReplayRun, metavar("RUN") & reads_folder());
    v("report", report, "folder to write: pairs.csv (a line for each pair), verdict.json and verdict.html (a report)",
      filled() & writes() & metavar("DIR"));
    v("overwrite", overwrite, "replace existing files of these names");
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

std::string ascii(const Json& j) { return j.dump(-1, ' ', true, Json::error_handler_t::replace); }

bool is_trace(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? path.ends_with(".safetensors") : !dump_kind(path) && is_npy_folder(path);
}

void refuse_other_kinds(const CompareFlags& flags) {
  for (const std::string& side : {flags.a, flags.b}) {
    std::error_code error;
    if (!fs::exists(side, error)) throw UserError("no such file or folder", side, "it must exist", missing_path_advice(side));
    if (!is_trace(side) && !dump_kind(side))
      throw UserError(
          "neither a dump nor a trace", side,
          "compare reads folders of probe.dump, tools/trace_torch.py, msprobe, MindSpore and PTDBG, of .npy files, and files of ravine trace",
          "weights, models and checkpoints are compared by ravine diff");
  }
  if (is_trace(flags.a) != is_trace(flags.b))
    throw UserError("a dump and a trace", flags.a + ", " + flags.b, "both must be of one kind",
                    "trace both models, or dump both runs");
}

std::string row_text(const ComparedPair& p) {
  std::string out = fmt::format(
      "{:>9} {:>10} {:>9}  step {} {} {} {}{}: {}", p.error == 0 ? "0" : fmt::format("{:.2e}", p.error),
      p.judged ? fmt::format("{:.2e}", p.own + p.inherited) : "-",
      p.judged ? (std::isfinite(p.ratio()) ? fmt::format("{:.2g}", p.ratio()) : "inf") : "-", p.a.step, name(p.a.phase),
      escaped(p.a.path), escaped(p.a.op), p.a.n > 0 ? fmt::format("[{}]", p.a.n) : "", escaped(p.a.tensor));
  if (p.exact)
    out += fmt::format("  cosine {:.9f}, max abs {:.3g} at {}, ulp {}", p.exact->cosine, p.exact->max_abs, p.exact->at,
                       p.exact->max_ulp);
  return out;
}

void print_comparison(const Comparison& c) {
  fmt::print("{}\n", escaped(c.verdict));
  std::vector<const ComparedPair*> rows;
  for (const ComparedPair& p : c.pairs)
    if (p.a.output && !p.same()) rows.push_back(&p);
  if (!rows.empty())
    fmt::print("\n{:>9} {:>10} {:>9}  {}\n", "error", "bound", "of it", "what was written, in the order of the run");
  for (size_t i = 0; i < std::min(rows.size(), kShownRows); ++i) fmt::print("{}\n", row_text(*rows[i]));
  if (rows.size() > kShownRows) fmt::print("and {} more: --report DIR has all\n", rows.size() - kShownRows);
  if (!c.unmatched.empty()) fmt::print("\nwithout a partner:\n");
  for (size_t i = 0; i < std::min(c.unmatched.size(), kShownUnmatched); ++i) fmt::print("  {}\n", escaped(c.unmatched[i]));
  if (c.unmatched.size() > kShownUnmatched)
    fmt::print("  and {} more: --json lists all\n", c.unmatched.size() - kShownUnmatched);
}

// Writes pairs.csv, verdict.json and verdict.html of `flags.report`.
struct Report {
  explicit Report(const CompareFlags& flags)
      : pairs(flags.report + "/pairs.csv"),
        verdict(flags.report + "/verdict.json"),
        page(flags.report + "/verdict.html"),
        sides(flags.a, flags.b),
        overwrite(flags.overwrite) {
    for (const std::string& file : {pairs, verdict, page}) refuse_existing_file(file, overwrite);
  }
  void write(const Comparison& c, const Json& as_json) const {
    create_folders(fs::path(pairs).parent_path().string());
    write_file_atomic(pairs, pairs_csv(c), may_overwrite(overwrite));
    write_file_atomic(verdict, ascii(as_json) + "\n", may_overwrite(overwrite));
    write_file_atomic(page, comparison_page(c, sides.first, sides.second), may_overwrite(overwrite));
  }
  std::string pairs, verdict, page;
  std::pair<std::string, std::string> sides;
  bool overwrite;
};

// Returns the last step for which both dumps have calls.
int64_t last_common_step(const Dump& a, const Dump& b) {
  std::set<int64_t> steps;
  int64_t last = 0;
  auto each = [](const Dump& dump, auto f) {
    for (const RankDump& rank : dump.ranks)
      for (const DumpRecord& r : rank.records)
        if (r.op != kStateOp && r.op != kGradientOp) f(r.step);
  };
  each(a, [&](int64_t step) { steps.insert(step); });
  each(b, [&](int64_t step) { last = steps.contains(step) ? std::max(last, step) : last; });
  return last;
}

int ranks_of(const Dump& dump) {
  return dump.ranks.empty() ? 1 : dump.ranks.front().session.value("ranks", static_cast<int>(dump.ranks.size()));
}

// Runs the steps of both dumps again and returns the result; nothing on ranks other than 0. `status` is the exit status
// of the job.
std::optional<Substituted> substituted_in(const CompareFlags& flags, const Dump& a, const Dump& b, int& status) {
  Config config = config_of_replay(flags.from, flags.run, flags.common.threads);
  config.probe.dump.clear();
  validate(config);
  if (!same_layout(a, b))
    throw UserError("other ranks or micro batches in A than in B", flags.a + ", " + flags.b,
                    "--from needs the same ranks and micro batches in both", "leave out --from");
  const int64_t last = last_common_step(a, b), done = step_before_replay(flags.from);
  if (last <= done)
    throw UserError(fmt::format("the dumps have no calls behind step {}", done), flags.from, "their steps are run again",
                    "name an earlier checkpoint, or the run");
  std::optional<Substituted> out;
  RecordedSteps recorded(flags.from, flags.run);
  RankJob job(config.parallel, config.train.threads);
  Log log;
  status = job.run([&](World* world) {
    for (const auto& [dump, name] : {std::pair{&a, &flags.a}, {&b, &flags.b}})
      if (const int ranks = ranks_of(*dump); ranks != (world ? world->size() : 1))
        throw UserError(fmt::format("a dump of {} and a job of {}", counted(ranks, "rank"), world ? world->size() : 1), *name,
                        "each rank repeats the calls that the same rank of the dump recorded",
                        fmt::format("mpirun -n {} ravine compare .., with a checkpoint of a run of as many", ranks));
    Substituted found;
    Substitution substitution(a, b, found);
    Spread spread(a, b, found);
    auto replay = [&](std::initializer_list<StepObserver*> observers) {
      Trainer trainer(config, flags.common.backend, log, world, style_of(config));
      for (StepObserver* observer : observers) trainer.add_observer(*observer);
      trainer.replay(last, [&](int64_t step, double loss, double rate) { recorded.hold(step, loss, rate, log); });
    };
    replay({&substitution, &spread});
    if (world ? any(world->all(), spread.wants_more()) : spread.wants_more()) {
      log.line("again    with every parameter moved by a rounding, for bounds that no kernel tells");
      spread.perturb();
      replay({&spread});
    }
    const std::vector<std::string> all = world ? gather_texts(world->all(), ascii(found.json())) : std::vector<std::string>{};
    if (world && world->rank() > 0) return;
    for (const std::string& one : all) found.add(Json::parse(one));
    out = std::move(found);
  });
  return out;
}

int print_verdict_json(const CompareFlags& flags, const std::optional<Report>& report, const Comparison& c) {
  const Json as_json = comparison_json(c);
  if (report) report->write(c, as_json);
  if (flags.json)
    fmt::print("{}\n", ascii(as_json));
  else
    print_comparison(c);
  return c.agrees() ? 0 : 1;
}

int run_compare(CompareFlags& flags, Config&) {
  refuse_other_kinds(flags);
  if (flags.from.empty() && launched_as_several())
    throw UserError("compare on several ranks", "mpirun", "without --from it does the same on each", "run it without mpirun");
  if (!flags.from.empty() && is_trace(flags.a))
    throw UserError("two traces, and --from", flags.from, "the steps of dumps are run again", "leave out --from");
  std::optional<Report> report;
  if (!flags.report.empty() && launched_rank() <= 0) report.emplace(flags);
  if (is_trace(flags.a)) return print_verdict_json(flags, report, compare_traces(flags.a, flags.b));
  auto [a, b] = read_dumps(flags.a, flags.b);
  if (flags.from.empty()) return print_verdict_json(flags, report, compare_dumps(std::move(a), std::move(b)));
  int status = 0;
  const std::optional<Substituted> substituted = substituted_in(flags, a, b, status);
  if (status != 0 || !substituted) return status;
  return print_verdict_json(flags, report, compare_dumps(std::move(a), std::move(b), &*substituted));
}

}  // namespace

Command compare_command() {
  return command<CompareFlags>(
      {.name = "compare",
       .summary = "find the first call whose outputs differ between two dumps or traces more than its inputs explain",
       .example = "ravine compare dumps/a dumps/b --report differences",
       .about =
           "Walks through the calls of both sides in the order of their execution. The first call with equal inputs and other outputs is where the runs begin to differ."},
      "Precision", run_compare);
}

}  // namespace ravine
