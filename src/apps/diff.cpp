#include <filesystem>
#include <set>

#include "apps/command.h"
#include "apps/stored_tensors.h"
#include "base/error.h"
#include "base/json.h"
#include "base/missing_path.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "files/compare.h"
#include "io/checkpoint.h"
#include "runs/run_paths.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

struct DiffFlags {
  std::string a, b, only;
  bool all = false, json = false;
  template <class V>
  void each(V&& v) {
    v("a", a, "file or folder of safetensors: model, checkpoint, trace", positional() & required() & reads() & metavar("A"));
    v("b", b, "file or folder to compare with A", positional() & required() & reads() & metavar("B"));
    v("only", only, "compare only tensors whose names match; patterns of * and ?, separated by commas", metavar("GLOB"));
    v("all", all, "list equal tensors too");
    v("json", json, "print one JSON object");
  }
};

struct Row {
  std::string name, status;  // equal, different, dtype, shape, only in A, only in B
  std::string a, b;          // "f32 [2, 3]"
  Difference d;
  bool measured = false;
};

Row compare_pair(const std::string& name, const StoredTensors& a, const StoredTensors& b) {
  auto kind = [&](const StoredTensors& t) {
    return t.has(name) ? fmt::format("{} {}", ravine::name(t.dtype(name)), t.shape(name).text()) : "";
  };
  Row row{.name = name, .a = kind(a), .b = kind(b)};
  if (!a.has(name) || !b.has(name)) {
    row.status = a.has(name) ? "only in A" : "only in B";
  } else if (!(a.shape(name) == b.shape(name))) {
    row.status = "shape";
  } else {
    std::vector<std::byte> left, right;
    row.d = compare(a.dtype(name), a.bytes(name, left), b.dtype(name), b.bytes(name, right));
    row.measured = true;
    row.status = a.dtype(name) != b.dtype(name) ? "dtype" : row.d.differing > 0 ? "different" : "equal";
  }
  return row;
}

Json to_json(const Row& row) {
  Json j{{"name", row.name}, {"status", row.status}};
  if (!row.a.empty()) j["a"] = row.a;
  if (!row.b.empty()) j["b"] = row.b;
  if (row.measured) {
    j["elements"] = row.d.count;
    j["differing"] = row.d.differing;
    j["max_abs"] = row.d.max_abs;  // null if infinite
    j["max_rel"] = row.d.max_rel;
    j["max_ulp"] = row.d.max_ulp;
    j["cosine"] = row.d.cosine;
    j["nan_on_one_side"] = row.d.nan_on_one;
    j["nan_on_both_sides"] = row.d.nan_on_both;
    if (row.d.at >= 0) j["at"] = row.d.at;
  }
  return j;
}

void print_row(const Row& row, int width) {
  fmt::print("{:<{}}  {:<10}", printable(row.name), width, row.status);
  if (row.status == "equal" || !row.measured) {
    fmt::print("  {}", row.a.empty() ? row.b : row.b.empty() || row.a == row.b ? row.a : row.a + " / " + row.b);
    fmt::print("{}\n", row.d.nan_on_both > 0 ? fmt::format(", {} NaN on both sides", row.d.nan_on_both) : "");
    return;
  }
  fmt::print("  max abs {:<10.4g} max rel {:<10.4g} ulp {:<10} cosine {:<12.9f} {} of {} differ", row.d.max_abs, row.d.max_rel,
             row.d.max_ulp, row.d.cosine, row.d.differing, row.d.count);
  if (row.d.nan_on_one > 0) fmt::print(", {} NaN on one side", row.d.nan_on_one);
  if (row.d.nan_on_both > 0) fmt::print(", {} NaN on both sides", row.d.nan_on_both);
  if (row.status == "dtype") fmt::print("; {} / {}", row.a, row.b);
  fmt::print("\n");
}

void refuse_no_tensors(const std::string& path) {
  const char* rule = "diff compares files of tensors (.safetensors, .bin, .pt, .ckpt), models and checkpoints";
  std::error_code error;
  if (!fs::exists(path, error)) throw UserError("no such file or folder", path, rule, missing_path_advice(path));
  for (const char* end : {".json", ".jsonl", ".txt", ".yaml", ".yml", ".csv", ".svg", ".html", ".md"})
    if (path.ends_with(end))
      throw UserError("no file of tensors", path, rule,
                      "name such a file or folder; texts are compared by diff without ravine");
}

// Returns RUN/model or RUN/adapter if the run has written one, else its newest checkpoint.
std::string weights_of(const std::string& run) {
  std::error_code error;
  for (const char* made : {"model/config.json", "adapter/adapter_config.json"})
    if (const fs::path file = fs::path(run) / made; fs::exists(file, error)) return shell_word(file.parent_path().string());
  const auto newest = first_step_to_try(run + "/checkpoints");
  return shell_word(run + (newest ? "/checkpoints/" + checkpoint_name(*newest) : "/model"));
}

int run_diff(DiffFlags& flags, Config&) {
  flags.a = resolve_run(flags.a);
  flags.b = resolve_run(flags.b);
  if (std::error_code error; fs::exists(flags.a + "/metrics.jsonl", error) && fs::exists(flags.b + "/metrics.jsonl", error))
    throw UserError("two runs", flags.a + ", " + flags.b, "diff compares tensors of files, models and checkpoints",
                    fmt::format("their weights: `ravine diff {} {}`, their curves: `ravine plot {} {}`", weights_of(flags.a),
                                weights_of(flags.b), shell_word(flags.a), shell_word(flags.b)));
  for (const std::string& side : {flags.a, flags.b}) refuse_no_tensors(side);
  const StoredTensors a(flags.a), b(flags.b);
  std::set<std::string> names;
  auto wanted = [&](const std::string& name) {
    for (const std::string& pattern : split(flags.only, ','))
      if (glob_match(pattern, name)) return true;
    return flags.only.empty();
  };
  for (const StoredTensors* side : {&a, &b})
    for (const std::string& name : side->names())
      if (wanted(name)) names.insert(name);
  if (names.empty() && !flags.only.empty())
    throw UserError("no tensor matches", "--only", fmt::format("no name in '{}' or '{}' matches the pattern", flags.a, flags.b),
                    "list them with `ravine info`");

  int width = 0;
  for (const std::string& name : names) width = std::max(width, static_cast<int>(printable(name).size()));
  Row worst;
  int64_t equal = 0;
  Json listed = Json::array();
  for (const std::string& name : names) {
    const Row row = compare_pair(name, a, b);
    const bool same = row.status == "equal";
    equal += same;
    if (row.measured && row.d.differing > 0 && (worst.name.empty() || row.d.max_abs > worst.d.max_abs)) worst = row;
    if (same && !flags.all && !flags.json) continue;
    if (flags.json)
      listed.push_back(to_json(row));
    else
      print_row(row, width);
  }
  const auto total = static_cast<int64_t>(names.size());
  if (flags.json) {
    Json j{{"equal", equal == total}, {"tensors_equal", equal}, {"tensors_compared", total}, {"tensors", std::move(listed)}};
    fmt::print("{}\n", j.dump(-1, ' ', true, Json::error_handler_t::replace));
  } else if (equal == total) {
    fmt::print("{} bitwise equal\n", total == 1 ? std::string("the one tensor is") : fmt::format("all {} tensors are", total));
  } else {
    fmt::print("{} of {} tensors are bitwise equal, {} are not", equal, total, total - equal);
    if (!worst.name.empty()) fmt::print("; largest distance {:.4g} in {}", worst.d.max_abs, printable(worst.name));
    fmt::print("\n");
  }
  return equal == total ? 0 : 1;
}

}  // namespace

Command diff_command() {
  return command<DiffFlags>({.name = "diff",
                             .summary = "compare two checkpoints, model folders or trace files, tensor by tensor",
                             .example = "ravine diff runs/a/model runs/b/model --only 'model.layers.0.*'",
                             .alone = true},
                            "Precision", run_diff);
}

}  // namespace ravine
