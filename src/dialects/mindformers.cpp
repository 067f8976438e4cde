#include "dialects/mindformers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/yaml_json.h"
#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

constexpr const char* kTranslated = "mindformers";
constexpr const char* kModes[] = {"train", "finetune", "eval", "predict"};

// Refuses keys with a value that is not allowed.
void hold_values(Translation& t, const MindFormersTable& table) {
  for (const std::string& key : t.given()) {
    const auto only = table.only.find(key);
    if (only == table.only.end() || !t.has(key)) continue;
    if (key.starts_with("eval_dataset") && !t.is_on("do_eval") && t.text("run_mode") != "eval") {
      t.becomes(key, KeyStatus::inert, "it counts with do_eval alone");
      continue;
    }
    const std::vector<Json>& values = only->second.values;
    if (std::find(values.begin(), values.end(), t.value(key)) == values.end())
      t.refuse(key, fmt::format("{} is {}", key, t.value(key).dump()), only->second.rule, only->second.fix);
  }
}

// Refuses a file without the keys that MindFormers requires.
void require_keys(Translation& t, const MindFormersLine& line) {
  const auto section = [&](const std::string& name) {
    return std::any_of(line.given.begin(), line.given.end(), [&](const GivenKey& g) { return g.key.starts_with(name + "."); });
  };
  const auto missing = [&](const std::string& name, const std::string& key) {
    t.refuse({.key = name + "." + key,
              .what = fmt::format("the config '{}' lacks {}", name, key),
              .where = line.config,
              .rule = fmt::format("MindFormers needs {}.{}", name, key),
              .fix = "write it"});
  };
  if (!t.has("trainer.type")) missing("trainer", "type");
  if (!section("model.model_config") && !t.has("pretrained_model_dir")) missing("model", "model_config");
  for (const char* name : {"runner_wrapper", "optimizer", "lr_schedule"})
    if (section(name) && !t.has(std::string(name) + ".type")) missing(name, "type");
}

// Refuses a layout that contradicts the number of ranks or itself.
void refuse_layout(Translation& t, const MindFormersSizes& s, const MindFormersFacts& facts) {
  if (facts.ranks > 0 && s.data * s.tensor * s.pipeline != facts.ranks)
    t.refuse("parallel_config.data_parallel",
             fmt::format("data_parallel {} x model_parallel {} x pipeline_stage {} = {}, and {} ranks", s.data, s.tensor,
                         s.pipeline, s.data * s.tensor * s.pipeline, facts.ranks),
             "the product is the number of ranks", "correct one of them, or start as many ranks");
  if (s.pipeline > 1 && t.whole("parallel_config.micro_batch_num") < s.pipeline)
    t.refuse("parallel_config.micro_batch_num",
             fmt::format("micro_batch_num {} and pipeline_stage {}", t.whole("parallel_config.micro_batch_num"), s.pipeline),
             "a pipeline needs as many micro batches as stages", "raise micro_batch_num");
  if (s.expert > 1 && s.data % s.expert != 0)
    t.refuse("parallel_config.expert_parallel", fmt::format("expert_parallel {} and data_parallel {}", s.expert, s.data),
             "data ranks share the experts", "choose a number that divides data_parallel");
}

// Refuses a strategy that contradicts the weights' shapes. Ravine reads weights without their strategy.
void hold_strategy(Translation& t, const MindFormersFacts& facts) {
  const std::string key = "src_strategy_path_or_dir", path = t.text(key);
  if (path.empty() || !t.refusals().empty()) return;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return t.refuse(key, fmt::format("no {}", path), "it is a strategy file, or a folder of them", "correct the path");
  }
  const auto setting = [&](const char* option) {
    std::string value;
    for (const Setting& s : t.settings())
      if (s.key == option) value = s.value;
    return value.empty() ? Json() : json_of(*load_yaml(value, option, false));
  };
  const Json model = setting("model.config");
  Json weights = setting("model.weights");
  if (weights.is_null()) weights = setting("checkpoint.resume");
  if (!facts.disagreement || !model.is_object() || !weights.is_string() ||
      !std::filesystem::exists(weights.get<std::string>(), error))
    return;
  if (const std::string wrong = facts.disagreement(path, weights.get<std::string>(), model); !wrong.empty())
    t.refuse(key, fmt::format("{} is {}", key, path), "it is of other weights: " + wrong,
             "name the strategy of the weights, or leave it out: shapes say how they are cut");
}

bool is_semi(const Translation& t) {
  const Json& mode = t.value("parallel.parallel_mode");
  if (mode.is_string())
    return mode == "SEMI_AUTO_PARALLEL" || mode == "AUTO_PARALLEL" || mode == "semi_auto_parallel" || mode == "auto_parallel";
  return mode == 1 || mode == 2;
}

}  // namespace

bool gives(const Translation& t, const std::string& key) {
  const std::vector<std::string> keys = t.given();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string callback_of(const Translation& t, const std::string& type) {
  for (const std::string& key : t.given())
    if (key.starts_with("callbacks[") && key.ends_with("].type") && t.text(key) == type)
      return key.substr(0, key.find(']') + 1);
  return "";
}

namespace {

// Refuses counts below 1.
void check_counts(Translation& t) {
  for (const char* counts :
       {"train_dataset.repeat", "micro_batch_interleave_num", "parallel_config.data_parallel", "parallel_config.model_parallel",
        "parallel_config.pipeline_stage", "parallel_config.expert_parallel", "parallel_config.micro_batch_num"})
    if (t.has(counts) && t.whole(counts) < 1)
      t.refuse(counts, fmt::format("{} is {}", counts, t.whole(counts)), "it is 1 or more", "correct the value");
  if (const int64_t repeat = t.whole("train_dataset.repeat"); static_cast<double>(repeat) > kMostSteps)
    t.refuse("train_dataset.repeat", fmt::format("repeat is {}", repeat), fmt::format("it is at most {:.0f}", kMostSteps),
             "correct the value");
}

// Returns gradient_accumulation_steps as it counts in this job; 1 if it has no effect. s: its
// ranks are set. parallel: use_parallel.
int64_t accumulation_of(Translation& t, const MindFormersSizes& s, bool parallel) {
  int64_t accumulation = 1;
  const std::string key = "runner_config.gradient_accumulation_steps";
  if (const Json& given = t.value(key); !given.is_null()) {
    if (!given.is_number_integer())
      t.refuse(key, fmt::format("gradient_accumulation_steps is {}", given.dump()), "it is a whole number", "write a number");
    else if (given.get<int64_t>() < 1)
      t.refuse(key, fmt::format("gradient_accumulation_steps is {}", given.dump()), "it is 1 or more", "correct the value");
    else
      accumulation = given.get<int64_t>();
  }
  if (accumulation > 1 && !s.semi) {
    const std::string mode = parallel ? "data parallel" : "stand-alone";
    t.becomes(key, KeyStatus::inert, fmt::format("it needs semi_auto_parallel; of a {} job MindFormers sets it to 1", mode));
    t.notice(fmt::format("gradient_accumulation_steps is {}: it counts in semi_auto_parallel mode alone, and is taken as 1",
                         accumulation));
    accumulation = 1;
  } else if (accumulation > 1 && s.pipeline > 1) {
    t.becomes(key, KeyStatus::inert, "stages have micro_batch_num in its place");
    t.notice("gradient_accumulation_steps counts nothing with pipeline stages, where micro_batch_num does");
    accumulation = 1;
  }
  return accumulation;
}

}  // namespace

MindFormersSizes mindformers_sizes(Translation& t, const MindFormersFacts& facts, const std::string& data_set) {
  MindFormersSizes s;
  s.sequence = t.whole("model.model_config.seq_length");
  s.epochs = t.whole("runner_config.epochs");
  s.micro = t.whole("runner_config.batch_size");
  if (s.epochs < 1 || static_cast<double>(s.epochs) > kMostSteps)
    t.refuse("runner_config.epochs", fmt::format("epochs is {}", s.epochs), fmt::format("it is 1 to {:.0f}", kMostSteps),
             "correct the value"),
        s.epochs = 1;
  check_counts(t);
  if (s.micro < 1)
    t.refuse("runner_config.batch_size", fmt::format("batch_size is {}", s.micro), "it is 1 or more", "correct the value");
  const bool parallel = t.is_on("use_parallel"), semi = parallel && is_semi(t);
  s.semi = semi;
  if (semi) {
    s.data = std::max<int64_t>(1, t.whole("parallel_config.data_parallel"));
    s.tensor = std::max<int64_t>(1, t.whole("parallel_config.model_parallel"));
    s.pipeline = std::max<int64_t>(1, t.whole("parallel_config.pipeline_stage"));
    s.expert = std::max<int64_t>(1, t.whole("parallel_config.expert_parallel"));
    s.ranks = s.data * s.tensor * s.pipeline;
  } else if (parallel) {
    s.ranks = s.data = std::max<int64_t>(1, facts.ranks);
  }
  const int64_t accumulation = accumulation_of(t, s, parallel);
  if (const int64_t count = t.whole("parallel_config.micro_batch_num"); count > 1 && s.pipeline == 1) {
    t.becomes("parallel_config.micro_batch_num", KeyStatus::inert, "without stages it is 1, in MindFormers too");
    t.notice(fmt::format("micro_batch_num is {}: it counts with pipeline_stage alone, and is taken as 1", count));
  }
  const int64_t copies = std::max<int64_t>(1, t.whole("micro_batch_interleave_num"));
  s.micro_batches = (s.pipeline > 1 ? std::max<int64_t>(1, t.whole("parallel_config.micro_batch_num")) : accumulation) * copies;
  if (data_set != "train_dataset") s.micro_batches = 1;
  s.global = s.micro * s.data * s.micro_batches;
  if (semi) refuse_layout(t, s, facts);
  if (!parallel && facts.ranks > 1)
    t.refuse("use_parallel", fmt::format("use_parallel is off, and {} ranks", facts.ranks),
             "several ranks train together with it", "set use_parallel: True");

  const auto take_rows = [&](int64_t rows, const std::string& from) {
    s.steps_per_epoch = s.global > 0 ? rows / s.global : 0;
    if (static_cast<double>(s.epochs) * static_cast<double>(s.steps_per_epoch) > kMostSteps)
      return t.refuse("runner_config.epochs", fmt::format("{} epochs of {} steps", s.epochs, s.steps_per_epoch),
                      fmt::format("a run has at most {:.0f} steps", kMostSteps), "lower epochs or repeat");
    s.steps = s.epochs * s.steps_per_epoch;
    if (s.steps == 0)
      t.refuse(from, fmt::format("{} rows, and {} in a step", rows, s.global), "an epoch has at least one step",
               "lower runner_config.batch_size");
  };
  if (t.text(data_set + ".data_loader.type") == "BlendedMegatronDatasetDataLoader") {
    const std::string sizes = data_set + ".data_loader.sizes";
    const Json& given = t.value(sizes);
    if (given.is_array() && !given.empty() && given[0].is_number_integer() && given[0].get<int64_t>() > 0)
      take_rows(given[0].get<int64_t>(), sizes);
    else
      t.refuse(sizes, "no sizes", "an epoch of token files has as many samples as sizes says", "write sizes: [SAMPLES, 0, 0]");
    return s;
  }
  const auto [paths, where] = mindformers_paths(t, data_set);
  if (facts.data && !paths.empty()) {
    const std::optional<MindFormersFacts::Data> data = facts.data(t.text(data_set + ".data_loader.type"), paths);
    if (data) {
      s.ids = data->ids;
      const std::string columns = data_set + ".input_columns";
      if (const Json& named = t.value(columns); named.is_array() && !data->names.empty())
        for (const Json& name : named)
          if (name.is_string() &&
              std::find(data->names.begin(), data->names.end(), name.get<std::string>()) == data->names.end())
            t.refuse(columns, fmt::format("input_columns has {}", name.get<std::string>()),
                     fmt::format("{} has {}", paths[0], fmt::join(data->names, ", ")), "name columns that are there");
      int64_t rows = data->rows;
      if (const int64_t limit = t.whole(data_set + ".data_loader.num_samples"); limit > 0) rows = std::min(rows, limit);
      take_rows(data_set == "train_dataset" ? rows * std::max<int64_t>(1, t.whole("train_dataset.repeat")) : rows, where);
    }
  }
  return s;
}

Translation translate_mindformers(const MindFormersLine& line, const MindFormersFacts& facts) {
  const MindFormersTable table = mindformers_table(line.given);
  Translation t = translate(table.rows, line.given, kTranslated);
  for (const std::string& key : t.given())
    if (!t.has(key) && t.refusals().empty()) t.becomes(key, KeyStatus::standard, "it has no value, so its default counts");
  hold_values(t, table);
  for (const char* key : {"callbacks", "eval_callbacks"})
    if (const Json& list = t.value(key); !list.is_null() && !list.empty())
      t.refuse(key, fmt::format("{} is {}", key, list.dump()), "each of its items is a map with the type of a callback",
               "write - type: MFLossMonitor");
  const std::string mode = t.text("run_mode");
  if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes)) {
    const std::string rule = "it is one of train, predict, finetune, eval";
    t.refuse("run_mode", mode.empty() ? std::string("no run_mode") : fmt::format("run_mode is {}", mode), rule,
             "write one of them");
    return t;
  }
  t.ranks = facts.ranks;
  if (mode == "predict") {
    set_mindformers_prediction(t);
    return t;
  }
  require_keys(t, line);
  const bool evaluates = mode == "eval";
  const MindFormersSizes sizes = mindformers_sizes(t, facts, evaluates ? "eval_dataset" : "train_dataset");
  t.ranks = facts.ranks > 0 ? facts.ranks : sizes.ranks;
  if (facts.runs && !evaluates && sizes.ids > 0 && sizes.ids != sizes.sequence + 1)
    t.refuse("model.model_config.seq_length", fmt::format("seq_length is {}, and rows have {} ids", sizes.sequence, sizes.ids),
             "a row has seq_length + 1: the last is predicted, and not read",
             fmt::format("set seq_length to {}", std::max<int64_t>(1, sizes.ids - 1)));
  set_mindformers_model(t);
  if (evaluates) {
    set_mindformers_evaluation(t, sizes, facts);
    hold_strategy(t, facts);
    return t;
  }
  set_mindformers_updates(t, sizes);
  set_mindformers_files(t, sizes, facts.runs);
  hold_strategy(t, facts);
  return t;
}

}  // namespace ravine
