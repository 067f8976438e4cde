#include "apps/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "checks/data_checks.h"

namespace ravine {
namespace {

struct DataFlags {
  std::vector<std::string> sources;
  std::string tokenizer;
  int64_t rows = 0, samples = 2, seed = 42;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("sources", sources, "a training or its data; two of them are held against each other",
      positional() & required() & reads() & metavar("A [B]") &
          detail(
              "Read are the configs of `ravine check config`, .bin/.idx prefixes, MindRecord files, .jsonl and .parquet with input_ids or text, .npy, .safetensors, and dumps of Ravine that hold ids."));
    v("tokenizer", tokenizer, "tokenizer file or folder; empty: that of the config", reads() & metavar("DIR"));
    v("samples", samples, "rows to draw and to show as text", between(0, 1000));
    v("seed", seed, "seed of the draw", at_least(0));
    v("rows", rows, "rows to read; 0: all", between(0, 1e12));
    v("json", json, "print one JSON object");
  }
};

// Returns the kind of a broken rule, as scripts read it.
std::string kind_of_check(const std::string& name) {
  for (const auto& [check, kind] : {std::pair{"ids", "range"},
                                    {"special ids", "special_ids"},
                                    {"labels", "shift"},
                                    {"template", "template"},
                                    {"duplicates", "duplicate"}})
    if (name == check) return kind;
  return name;
}

Json finding_json(const DataFinding& f) {
  return {{"check", f.name}, {"kept", f.kept ? Json(*f.kept) : Json()}, {"text", f.text}};
}

int run_data(DataFlags& flags, Config&) {
  if (flags.sources.size() > 2)
    throw UserError(fmt::format("{} sources", flags.sources.size()), "command line", "one is checked, or two are compared",
                    "name one or two");
  bool kept = true;
  Json all = Json::object(), sources = Json::array(), broken = Json::array();
  std::vector<TokenSource> opened;
  for (const std::string& path : flags.sources) {
    TokenSource source = open_tokens(path, flags.tokenizer, {});
    if (!flags.json) {
      fmt::print("{:<12} {} ({}): {}\n", opened.empty() ? "A" : "B", escaped(path), source.kind,
                 counted(static_cast<size_t>(source.tokens->rows()), "row"));
      for (const std::string& note : source.notes) fmt::print("note         {}\n", escaped(note));
    }
    Json findings = Json::array(), shown = Json::array();
    for (const DataFinding& f : check_tokens(source, flags.rows)) {
      kept = kept && f.kept.value_or(true);
      findings.push_back(finding_json(f));
      if (!f.kept.value_or(true)) broken.push_back({{"kind", kind_of_check(f.name)}, {"where", path}, {"text", f.text}});
      if (!flags.json)
        fmt::print("{:<12} {}{}\n", f.name, !f.kept ? "cannot be told: " : *f.kept ? "" : "NOT KEPT: ", escaped(f.text));
    }
    for (const int64_t i : drawn_rows(source.tokens->rows(), flags.samples, static_cast<uint64_t>(flags.seed))) {
      const std::string text = shown_ids(source.tokens->row(i).ids, source.tokenizer.get());
      shown.push_back({{"row", i}, {"place", source.tokens->location(i)}, {"text", text}});
      if (!flags.json) fmt::print("row {:<8} {}\n    {}\n", i, escaped(source.tokens->location(i)), text);
    }
    sources.push_back(
        {{"path", path}, {"kind", source.kind}, {"rows", source.tokens->rows()}, {"checks", findings}, {"samples", shown}});
    opened.push_back(std::move(source));
  }
  all["sources"] = sources;
  if (opened.size() == 2) {
    const StreamComparison c = compare_streams(opened[0], opened[1], flags.rows);
    Json json = {{"equal_tokens", c.equal}, {"a_ended", c.a_ended}, {"b_ended", c.b_ended}};
    if (c.split) {
      kept = false;
      json["row_a"] = c.split->row_a, json["row_b"] = c.split->row_b, json["place_a"] = c.split->place_a,
      json["place_b"] = c.split->place_b;
      json["text_a"] = c.split->text_a, json["text_b"] = c.split->text_b;
      broken.push_back({{"kind", "stream"},
                        {"where", fmt::format("{}; {}", c.split->place_a, c.split->place_b)},
                        {"text", fmt::format("{} tokens are equal, then they part", c.equal)}});
      if (!flags.json)
        fmt::print("streams      NOT KEPT: {} tokens are equal, then they part\n    A {}: {}\n    B {}: {}\n", c.equal,
                   escaped(c.split->place_a), c.split->text_a, escaped(c.split->place_b), c.split->text_b);
    } else if (!flags.json) {
      fmt::print("streams      all {} common tokens are equal{}\n", c.equal,
                 c.a_ended && c.b_ended ? ""
                 : c.a_ended            ? "; B has more"
                                        : "; A has more");
    }
    all["streams"] = json;
  }
  all["agrees"] = kept;
  all["findings"] = broken;
  if (flags.json)
    fmt::print("{}\n", all.dump(-1, ' ', true, Json::error_handler_t::replace));
  else
    fmt::print("verdict      {}\n", kept ? "the data keep all rules that can be told" : "the data do NOT keep all rules");
  return kept ? 0 : 1;
}

}  // namespace

Command check_data_command() {
  return command<DataFlags>(
      {.name = "check data",
       .summary = "check token ids, special ids, label shift, chat template and duplicates; find where two streams part",
       .example = "ravine check data run.yaml data/books_text_document --tokenizer llama",
       .about =
           "Reads the samples of a training in their order, or data as they are stored. Shows rows drawn at random as text. The exit status is 1 if a rule is broken, or if two streams part.",
       .sections = {},
       .alone = true},
      "", run_data);
}

}  // namespace ravine
