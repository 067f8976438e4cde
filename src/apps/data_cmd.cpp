#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "base/error.h"
#include "base/json.h"
#include "data/dataset.h"
#include "data/loader.h"

namespace ravine {
namespace {

struct ShowFlags {
  int64_t step = 1, rank = 0;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("step", step, "step of the run, as metrics.jsonl counts it", at_least(1));
    v("rank", rank, "rank whose samples are shown", at_least(0));
    v("json", json, "one JSON line per sample: ids, labels, positions, segments, text");
  }
};

// Size of the model's vocabulary, 0 when no model is named: then the tokenizer's counts.
int64_t vocabulary(const ModelOptions& model) {
  if (model.path.empty() && model.config.empty()) return 0;
  std::string file = model.config.empty() ? (std::filesystem::path(model.path) / "config.json").string() : model.config;
  Json config = read_json(file);
  auto it = config.find("vocab_size");
  if (it == config.end() || !it->is_number_integer() || it->get<int64_t>() < 1)
    throw UserError("wrong model config", file + ": vocab_size", "it must be a whole number above 0", "correct the file");
  return it->get<int64_t>();
}

Json segments_of(const Sample& s) {
  Json list = Json::array();
  for (const auto& x : s.segments) list.push_back({x.begin, x.begin + x.length});
  return list;
}

int run_show(ShowFlags& flags, Config& config) {
  if (flags.rank != 0)
    throw UserError(fmt::format("rank {}", flags.rank), "--rank", "this release runs on one rank", "leave it out");
  DatasetOptions options = dataset_options(config, vocabulary(config.model));
  std::string where = config.model.tokenizer.empty() ? config.model.path : config.model.tokenizer;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    if (!where.empty()) tokenizer = open_tokenizer(where);
  } catch (const UserError&) {  // ids suffice for fixed batch files
    if (needs_tokenizer(options)) throw;
  }
  auto data = open_datasets(options, tokenizer.get()).train;
  if (std::count(config.data.skip_steps.begin(), config.data.skip_steps.end(), flags.step)) {
    std::fprintf(stderr, "step %lld is left out (data.skip_steps)\n", static_cast<long long>(flags.step));
    return 0;
  }
  int64_t first = (flags.step - 1) * config.train.global_batch;
  for (int64_t i = first; i < first + config.train.global_batch; ++i) {
    Sample s = data->sample(i);
    auto valid = static_cast<int64_t>(s.labels.size()) - std::count(s.labels.begin(), s.labels.end(), kIgnored);
    std::string text = tokenizer ? tokenizer->decode(s.ids, false) : "";
    std::string line;
    if (flags.json) {
      line = Json{{"step", flags.step},         {"sequence", i},
                  {"origin", data->origin(i)},  {"ids", s.ids},
                  {"labels", s.labels},         {"positions", s.positions},
                  {"segments", segments_of(s)}, {"text", text}}
                 .dump(-1, ' ', true);
    } else {
      line = fmt::format("--- step {}, sequence {} (micro batch {}, row {}): {}\n    {} tokens, {} labels, segments {}\n{}",
                         flags.step, i, (i - first) / config.train.micro_batch, (i - first) % config.train.micro_batch,
                         data->origin(i), s.ids.size(), valid, segments_of(s).dump(),
                         tokenizer ? text : fmt::format("[{}]", fmt::join(s.ids, ", ")));
    }
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  }
  return 0;
}

}  // namespace

Command data_command() {
  return command_of({.name = "data", .summary = "what a run sees", .example = "ravine data show --config run.yaml --step 3"},
                    "Data",
                    {command<ShowFlags>({.name = "data show",
                                         .summary = "the samples of a step, decoded",
                                         .example = "ravine data show --config run.yaml --step 3",
                                         .sections = {"model", "data", "train"}},
                                        "Data", run_show),
                     data_index_command(), data_merge_command()});
}

}  // namespace ravine
