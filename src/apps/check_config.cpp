#include <algorithm>

#include "apps/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "checks/checklist.h"
#include "files/atomic.h"
#include "probe/chart.h"

namespace ravine {
namespace {

struct ConfigFlags {
  std::vector<std::string> sides, allow;
  std::string picture;
  SideFacts facts;
  bool all = false, json = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("sides", sides, "two descriptions of one training",
      positional() & required() & reads() & metavar("A B") &
          detail(
              "Read are a YAML of Ravine or MindFormers, the folder of a run, a launch script or a file of flags of Megatron, MindFormers or the Trainer, a folder with config.json, TrainingArguments as JSON and a DeepSpeed config. Commas join the last three."));
    v("allow", allow, "rows or groups of rows that may differ", metavar("ROW,.."));
    v("samples", facts.samples, "samples of an epoch, for a side that counts epochs of data that are not here",
      between(0, 1e12));
    v("ranks", facts.ranks, "ranks of a side that does not state them; 0: one, or not known", between(0, 1 << 20));
    v("svg", picture, "file for a picture of both learning rates: .svg", filled() & writes() & metavar("FILE"));
    v("overwrite", overwrite, "replace an existing file of that name");
    v("all", all, "show equal rows too");
    v("json", json, "print one JSON object");
  }
};

std::string side_line(const char* letter, const Side& s) {
  return fmt::format("{}        {} ({}){}\n", letter, escaped(s.path), s.kind,
                     s.refused.empty() ? "" : fmt::format(": {} not translated", counted(s.refused.size(), "key")));
}

void print_row(const CheckRow& row) {
  static constexpr const char* kWords[] = {"equal", "allowed", "DIFFERENT", "cannot be told"};
  fmt::print("{:<14} {} ({})\n", kWords[static_cast<size_t>(row.verdict)], row.name, row.group);
  const auto value = [](const char* letter, const RowValue& v) {
    if (!v.text.empty())
      fmt::print("    {} {}{}\n", letter, escaped(v.text), v.where.empty() ? "" : fmt::format("  [{}]", escaped(v.where)));
    else
      fmt::print("    {} does not tell\n", letter);
  };
  value("A", row.a), value("B", row.b);
  if (row.verdict != RowVerdict::equal) fmt::print("    {}\n", row.effect);
  if (!row.advice.empty()) fmt::print("    advice: {}\n", row.advice);
}

Json side_json(const Side& s) {
  return {{"path", s.path},
          {"kind", s.kind},
          {"program", std::string(name(s.program))},
          {"refused", s.refused},
          {"notes", s.notes}};
}

void save_rates(const ConfigFlags& flags, const Side& a, const Side& b) {
  Chart chart{.title = "learning rate", .x_label = "step", .logarithmic = false, .series = {}};
  for (const auto& [letter, side] : {std::pair{"A", &a}, {"B", &b}}) {
    Series series{.name = fmt::format("{}: {}", letter, escaped(side->path)), .x = {}, .y = learning_rates(*side)};
    for (size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i + 1));
    if (!series.y.empty()) chart.series.push_back(std::move(series));
  }
  if (chart.series.empty())
    throw UserError("no learning rates to draw", "--svg", "a side must tell its number of steps", "give --samples");
  write_file_atomic(flags.picture, svg_page({chart}), may_overwrite(flags.overwrite));
  print_stderr("saved    " + escaped(flags.picture));
}

int run_config(ConfigFlags& flags, Config&) {
  if (flags.sides.size() != 2)
    throw UserError(fmt::format("{} given", counted(flags.sides.size(), "side")), "command line", "two sides are compared",
                    "name A and B");
  if (!flags.picture.empty()) {
    if (!flags.picture.ends_with(".svg"))
      throw UserError("picture '" + flags.picture + "'", "--svg", "its name must end in .svg", "write NAME.svg");
    refuse_existing_file(flags.picture, flags.overwrite);
  }
  const Side a = load_side(flags.sides[0], flags.facts), b = load_side(flags.sides[1], flags.facts);
  std::vector<CheckRow> rows = checklist(a, b);
  std::vector<std::string> allowed;
  for (const std::string& words : flags.allow)
    for (std::string& word : split(words, ',')) allowed.push_back(std::move(word));
  allow_rows(rows, allowed);
  if (!flags.picture.empty()) save_rates(flags, a, b);
  size_t counts[4] = {};
  for (const CheckRow& row : rows) ++counts[static_cast<size_t>(row.verdict)];
  if (flags.json) {
    Json list = Json::array();
    for (const CheckRow& row : rows) list.push_back(row_json(row));
    fmt::print("{}\n", Json{{"agrees", agrees(rows)}, {"a", side_json(a)}, {"b", side_json(b)}, {"rows", list}}.dump(
                           -1, ' ', true, Json::error_handler_t::replace));
    return agrees(rows) ? 0 : 1;
  }
  fmt::print("{}{}", side_line("A", a), side_line("B", b));
  for (const auto& [letter, side] : {std::pair{"A", &a}, {"B", &b}})
    for (const std::string& note : side->notes) fmt::print("note     {}: {}\n", letter, escaped(note));
  for (const RowVerdict verdict : {RowVerdict::different, RowVerdict::allowed, RowVerdict::unknown, RowVerdict::equal})
    for (const CheckRow& row : rows)
      if (row.verdict == verdict && (verdict != RowVerdict::equal || flags.all || !row.advice.empty())) print_row(row);
  fmt::print("verdict  {}: {} equal, {} allowed, {} different, {} cannot be told\n",
             agrees(rows) ? "no difference is known" : "the sides DIFFER", counts[0], counts[1], counts[2], counts[3]);
  return agrees(rows) ? 0 : 1;
}

}  // namespace

Command check_config_command() {
  return command<ConfigFlags>(
      {.name = "check config",
       .summary = "hold two descriptions of a training against each other, row by row of the precision checklist",
       .example = "ravine check config pretrain_llama.sh run_llama.yaml --allow parallel --svg rates.svg",
       .about =
           "Reads the configs of Ravine, Megatron, MindFormers and the Trainer with DeepSpeed. Each row shows both values, their places, and what a difference does to the numbers. The exit status is 1 if a row differs.",
       .sections = {},
       .alone = true},
      "", run_config);
}

}  // namespace ravine
