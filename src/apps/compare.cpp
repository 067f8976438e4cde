#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "apps/commands.h"
#include "base/error.h"
#include "base/missing_path.h"
#include "base/text.h"
#include "files/atomic.h"
#include "probe/compare_dumps.h"
#include "probe/compare_page.h"
#include "probe/dump_kinds.h"
#include "probe/named_tensors.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr size_t kShownRows = 12, kShownUnmatched = 10;

struct CompareFlags {
  std::string a, b, report;
  bool overwrite = false, json = false;
  template <class V>
  void each(V&& v) {
    v("a", a,
      "dump of `probe.dump` or `ravine dump`, trace of tools/trace_torch.py, dump of msprobe, MindSpore or PTDBG, folder of .npy files, or file of `ravine trace`",
      positional() & required() & reads() & metavar("A"));
    v("b", b, "what to hold against it, of the same kind", positional() & required() & reads() & metavar("B"));
    v("report", report, "folder for pairs.csv, with a line for each pair, verdict.json, and verdict.html, a page to read",
      filled() & writes() & metavar("DIR"));
    v("overwrite", overwrite, "replace the files that have their names");
    v("json", json, "one JSON object");
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

// pairs.csv, verdict.json and verdict.html of `flags.report`.
struct Report {
  explicit Report(const CompareFlags& flags)
      : pairs(flags.report + "/pairs.csv"),
        verdict(flags.report + "/verdict.json"),
        page(flags.report + "/verdict.html"),
        sides(flags.a, flags.b),
        overwrite(flags.overwrite) {
    for (const std::string& file : {pairs, verdict, page}) refuse_existing_file(file, overwrite);
  }
  void write(const Comparison& c, const Json& said) const {
    create_folders(fs::path(pairs).parent_path().string());
    write_file_atomic(pairs, pairs_csv(c), may_overwrite(overwrite));
    write_file_atomic(verdict, ascii(said) + "\n", may_overwrite(overwrite));
    write_file_atomic(page, comparison_page(c, sides.first, sides.second), may_overwrite(overwrite));
  }
  std::string pairs, verdict, page;
  std::pair<std::string, std::string> sides;
  bool overwrite;
};

Comparison compare_pair(const std::string& a, const std::string& b) {
  if (is_trace(a)) return compare_traces(a, b);
  auto [dump_a, dump_b] = read_dumps(a, b);
  return compare_dumps(std::move(dump_a), std::move(dump_b));
}

int run_compare(CompareFlags& flags, Config&) {
  refuse_other_kinds(flags);
  std::optional<Report> report;
  if (!flags.report.empty()) report.emplace(flags);
  const Comparison c = compare_pair(flags.a, flags.b);
  const Json said = comparison_json(c);
  if (report) report->write(c, said);
  if (flags.json)
    fmt::print("{}\n", ascii(said));
  else
    print_comparison(c);
  return c.agrees() ? 0 : 1;
}

}  // namespace

Command compare_command() {
  return command<CompareFlags>(
      {.name = "compare",
       .summary = "find the first call at which two dumps, or traces, part for no reason in its inputs",
       .example = "ravine compare dumps/a dumps/b --report differences",
       .alone = true},
      "Precision", run_compare);
}

}  // namespace ravine
