#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "apps/show_sample.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "config/count_steps.h"
#include "data/loader.h"
#include "data/open_datasets.h"
#include "io/checkpoint.h"
#include "io/model_folder.h"
#include "runs/open.h"
#include "runs/vocabulary.h"
#include "step/layout.h"
#include "text/tokenizers/open_tokenizer.h"
#include "train/advice.h"

namespace ravine {
namespace {

enum class Colour : uint8_t { always, never };
constexpr auto names_of(Colour) {
  return std::to_array<ValueName<Colour>>({{Colour::always, "always"}, {Colour::never, "never"}});
}

struct ShowFlags {
  ModelFlag model;
  int64_t step = 1, rank = 0, ranks = 0;
  bool json = false;
  std::optional<Colour> color;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("step", step, "step of the run, as metrics.jsonl counts it", between(1, kMostSteps));
    v("rank", rank, "data-parallel rank whose samples are shown", between(0, kMostRanks));
    v("ranks", ranks, "number of data-parallel ranks; 0: parallel.data", between(0, kMostRanks));
    v("color", color, "show learned tokens in green; auto: on a terminal, elsewhere between ⟦ and ⟧", no_value(kAuto));
    v("json", json, "print one JSON line per sample: ids, labels, positions, segments, text");
  }
};

// Returns the number of embedding rows of the model; 0 if no model is named: then the tokenizer's size is used.
int64_t vocabulary(const Config& c, const Tokenizer* tokenizer) {
  const ModelOptions& model = c.model;
  if (model.path.empty() && model.config.empty()) return 0;
  if (model.config.empty()) check_model_folder(model.path, "model.path");
  const Json config = requested_model_config(c);
  auto it = config.find("vocab_size");
  if (it == config.end() || !it->is_number_integer() || it->get<int64_t>() < 1)
    throw UserError("wrong model config", model_label(model) + ": vocab_size", "it must be a whole number above 0",
                    "correct the file");
  return run_vocabulary(c, config, tokenizer ? tokenizer->size() : 0);
}

// Returns the facts of the named model; nothing if there is none or its family is unknown, which train reports.
std::optional<ModelFacts> model_facts(const Config& c) {
  if (c.model.path.empty() && c.model.config.empty()) return {};
  try {
    return make_model(requested_model_config(c), model_label(c.model))->facts();
  } catch (const UserError&) {
    return {};
  }
}

Json segments_of(const Sample& s) {
  Json list = Json::array();
  for (const auto& x : s.segments) list.push_back({x.begin, x.begin + x.length});
  return list;
}

// Returns the samples that the run of this config has used so far; nothing before its first checkpoint. Only a
// train.output that is set is used: the default may hold an unrelated run.
DataHistory history_of(const Config& config, const Dataset& data) {
  DataHistory history;
  int64_t done = 0;
  const std::vector<std::string> there = checkpoints_to_try(config.train.output + "/checkpoints");
  if (!there.empty() && !config.sources.contains("train.output")) {
    print_stderr(fmt::format(
        "the run in {} is not looked at; what that one took, where it was resumed with another batch or blend: train.output={}",
        config.train.output, config.train.output));
  } else if (!there.empty()) {
    CheckpointReader reader(there[0], false);
    done = reader.step();
    if (reader.scalars().contains("data")) history = DataHistory::from_json(reader.scalars()["data"], checkpoint_name(done));
  }
  if (history.empty()) done = 0;
  data.note_sources(history, done, config.train.global_batch);
  return history;
}

int run_show(ShowFlags& flags, Config& config) {
  int64_t ranks = flags.ranks > 0 ? flags.ranks : std::max<int64_t>(1, config.parallel.data), micro = config.train.micro_batch;
  if (flags.rank >= ranks)
    throw UserError(fmt::format("rank {}", flags.rank), "--rank",
                    fmt::format("there are {} data-parallel ranks, from 0", ranks), "name one of them, or set --ranks");
  config.parallel.data = ranks;
  std::string where = config.model.tokenizer.empty() ? config.model.path : config.model.tokenizer;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    if (!where.empty()) tokenizer = open_tokenizer(where);
  } catch (const UserError&) {  // fixed batch files need no tokenizer
    if (needs_tokenizer(dataset_options(config, vocabulary(config, nullptr)))) throw;
  }
  DatasetOptions options = dataset_options(config, vocabulary(config, tokenizer.get()));
  if (const auto facts = model_facts(config)) {
    refuse_long_sequences(config, *facts);
    options.max_positions = facts->max_positions;
  }
  Datasets opened = open_datasets(options, tokenizer.get());
  for (const std::string& note : opened.notes) print_stderr(escaped(note));
  for (const std::string& line : opened.warnings) print_stderr("warning: " + escaped(line));
  const std::unique_ptr<Dataset> data = std::move(opened.train);
  count_steps(config, data->sample_count());
  if (std::count(config.data.skip_steps.begin(), config.data.skip_steps.end(), flags.step)) {
    std::fprintf(stderr, "step %lld is left out (data.skip_steps)\n", static_cast<long long>(flags.step));
    return 0;
  }
  const double per_pass = static_cast<double>(data->sample_count()) / static_cast<double>(config.train.global_batch);
  if (const double passes = passes_over(config, *data); passes > 0)
    print_stderr(fmt::format("{} of {}: a pass takes {:.{}f} steps of {}, train.steps={} are {}",
                             counted(data->sample_count(), "sequence"), counted(data->columns(), "token"), per_pass,
                             per_pass < 10 ? 2 : 0, config.train.global_batch, config.train.steps, passes_text(passes)));
  for (const std::string& line : scarce_data(config, *data)) print_stderr("warning: " + line);
  DataHistory history = history_of(config, *data);
  data->follow(history);
  int64_t start = history.first_sample(flags.step - 1), batch = history.global_batch(flags.step - 1);
  if (batch % (micro * ranks) != 0)
    throw UserError(fmt::format("a step of {} sequences", batch), "train.micro_batch",
                    fmt::format("it is not shared evenly by {} ranks in micro batches of {}", ranks, micro),
                    "choose --ranks and train.micro_batch so that it is");
  Marks marks = flags.color == Colour::always || (!flags.color && shows_colour(STDOUT_FILENO)) ? Marks::colours
                : !flags.color                                                                 ? Marks::brackets
                                                                                               : Marks::none;
  const LoaderOptions sharing{.rank = flags.rank, .ranks = ranks, .round_robin = takes_turns(config.parallel)};
  std::vector<int64_t> samples;
  for (const int64_t batch_index : share_of_rank(sharing, batch / micro))
    for (int64_t row = 0; row < micro; ++row) samples.push_back(start + batch_index * micro + row);
  for (const int64_t i : samples) {
    Sample s = data->sample(i);
    auto valid = static_cast<int64_t>(s.labels.size()) - std::count(s.labels.begin(), s.labels.end(), kIgnored);
    std::string line;
    if (flags.json) {
      line = Json{{"step", flags.step},         {"sequence", i},
                  {"origin", data->origin(i)},  {"ids", s.ids},
                  {"labels", s.labels},         {"positions", s.positions},
                  {"segments", segments_of(s)}, {"text", tokenizer ? tokenizer->decode(s.ids, false) : ""}}
                 .dump(-1, ' ', true);
    } else {
      line = fmt::format("--- step {}, sequence {} (micro batch {}, row {}): {}\n    {}, {}, segments {}\n{}", flags.step, i,
                         (i - start) / micro, (i - start) % micro, escaped(data->origin(i)), counted(s.ids.size(), "token"),
                         counted(valid, "label"), segments_of(s).dump(), sample_text(s, tokenizer.get(), marks));
    }
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  }
  return 0;
}

}  // namespace

Command data_command() {
  return command_of(
      {.name = "data", .summary = "the data that a run trains on", .example = "ravine data show --config run.yaml --step 3"},
      "Data",
      {command<ShowFlags>({.name = "data show",
                           .summary = "show the samples of a step as text, with the learned tokens marked",
                           .example = "ravine data show --config run.yaml --step 3",
                           .sections = {"model", "data", "train", "parallel"}},
                          "Data", run_show),
       data_index_command(), data_merge_command()});
}

}  // namespace ravine
