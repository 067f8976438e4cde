// `ravine eval`: benchmarks, by the protocol of ModelLink or of lm-evaluation-harness.
#include "eval/evaluation.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "apps/adapters.h"
#include "apps/commands.h"
#include "apps/model_job.h"
#include "apps/rank_job.h"
#include "apps/stop_signals.h"
#include "base/counted.h"
#include "base/missing_path.h"
#include "base/text.h"
#include "engine/make_recipe.h"
#include "eval/compare.h"
#include "eval/result_folder.h"
#include "files/checksum.h"
#include "infer/generation_config.h"
#include "io/adapter_folder.h"
#include "io/model_folder.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace {

struct EvalFlags {
  CommonFlags common;
  std::string model, tasks, output, texts, completions;
  std::vector<std::string> adapter, compare, data;
  Protocol protocol = Protocol::generate;
  EvalSplit split = EvalSplit::val;
  // Empty: not given.
  std::vector<int64_t> shots, max_new_tokens, batch;
  int64_t limit = 0;
  bool allow_code = false, overwrite = false, json = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", same_as("model.path") & metavar("DIR") & reads_folder());
    v("adapter", adapter, "LoRA adapter of PEFT for this model, or OUTPUT/adapter of a run",
      named() & metavar("[NAME=]DIR") & reads_folder());
    v("tasks", tasks, "tasks, joined by commas: mmlu, gsm8k, boolq, ceval, bbh, agieval, human_eval, piqa, hellaswag",
      filled() & metavar("TASK,.."));
    v("data", data, "folder with a subfolder for each task, in the layout of the task's authors",
      filled() & metavar("DIR") & reads_folder() &
          detail("If several folders fit a task, the last folder counts whose name is part of the task's."));
    v("protocol", protocol, "generate: parse an answer (ModelLink); likelihood: compare choices (lm-evaluation-harness)");
    v("shots", shots, "worked examples per prompt; default: as in the protocol", between(0, 1000) & length(1) & metavar("N"));
    v("limit", limit, "number of items of each file, the first ones; 0: all", at_least(0) & metavar("N"));
    v("max-new-tokens", max_new_tokens, "limit of new tokens of an answer; default: ModelLink's for the task",
      between(1, kMostTokens) & length(1) & metavar("N"));
    v("batch", batch, "items per batch; default: 16", between(1, kMostMicroBatches) & length(1) & metavar("N"));
    v("template", texts, "JSON file with the few-shot texts of tasks and the text around each prompt",
      reads() & metavar("FILE.json") & detail("A file may also hold one text with {instruction} alone."));
    v("split", split, "test: the test questions of ceval, whose answers are not public; writes the file to submit");
    v("completions", completions, "score the outputs in a file of {\"id\", \"output\"} lines instead of a model's",
      reads() & metavar("FILE.jsonl"));
    v("allow-code", allow_code, "human_eval: run the code that the model writes, in a sandbox without network and files");
    v("output", output, "folder for results.json, results.csv and samples; the same command continues in it",
      filled() & metavar("DIR") & writes());
    v("overwrite", overwrite, "replace an evaluation with other settings in that folder");
    v("compare", compare, "compare two folders of results, item by item, with McNemar's test; no model is run",
      metavar("DIR") & reads());
    v("json", json, "print the results as JSON on stdout");
    common.each(v);
  }
};

template <class T>
std::optional<T> given(const std::vector<T>& v) {
  return v.empty() ? std::nullopt : std::optional<T>(v[0]);
}

void check_eval_flags(const EvalFlags& f) {
  auto need = [](const std::string& value, const char* flag, const char* why) {
    if (value.empty())
      throw UserError(fmt::format("{} is not given", flag), "command line", why,
                      "for example: ravine eval --model my-llama --tasks boolq --data benchmarks --output results");
  };
  need(f.tasks, "--tasks", "it says what is asked");
  need(f.data.empty() ? "" : f.data[0], "--data", "it holds the benchmarks");
  need(f.output, "--output", "results are written there");
  if (f.completions.empty()) need(f.model, "--model", "somebody has to answer");
  for (const std::string& data : f.data)
    if (std::error_code error; std::filesystem::is_regular_file(data, error)) {
      const std::string folder = std::filesystem::path(data).parent_path().string();
      throw UserError("a file", data, "--data holds a folder for each task",
                      fmt::format("name the folder that it lies in, {}", folder.empty() ? "." : folder));
    } else if (!std::filesystem::is_directory(data, error)) {
      throw UserError("no such folder", data, "--data holds a folder for each task", missing_path_advice(data, Hub::datasets));
    }
}

std::vector<std::string> task_names(const std::string& tasks) {
  std::vector<std::string> names;
  for (const std::string& word : split(tasks, ','))
    if (!word.empty()) names.push_back(word);
  return names;
}

EvaluationOptions evaluation_options(const EvalFlags& f) {
  EvaluationOptions o;
  o.tasks = task_names(f.tasks);
  o.data = f.data;
  o.output = f.output;
  o.of.protocol = f.protocol;
  o.of.shots = given(f.shots);
  o.of.limit = f.limit;
  o.of.split = f.split;
  if (!f.texts.empty()) o.of.templates = Templates::read(f.texts);
  o.max_new_tokens = given(f.max_new_tokens);
  o.batch = given(f.batch);
  o.completions = f.completions;
  o.allow_code = f.allow_code;
  return o;
}

// Options of this command that change the numbers that a model computes.
constexpr std::array<std::string_view, 5> kArithmeticOptions{"lora.base", "precision.compute", "precision.bf16_products",
                                                             "precision.recipes", "precision.unfused"};

// Returns the settings that results depend on.
Json eval_settings(const EvalFlags& f, const Config& config, const std::string& adapter) {
  auto text = [](const std::string& path) {
    const bool itself = path.empty() || path.find("{instruction}") != std::string::npos;
    return itself ? path : checksum_text(checksum_of_file(path));
  };
  auto model = [](const std::string& path) {
    return path.empty() ? std::string() : std::filesystem::weakly_canonical(path).string() + " " + files_of_model(path);
  };
  const bool loads_model = f.completions.empty();
  Json j{{"model", loads_model ? model(config.model.path) : ""},
         {"adapter", loads_model ? model(adapter) : ""},
         {"tokenizer", loads_model ? model(config.model.tokenizer) : ""},
         {"protocol", std::string(name(f.protocol))},
         {"split", std::string(name(f.split))},
         {"shots", f.shots},
         {"limit", f.limit},
         {"max-new-tokens", f.max_new_tokens},
         {"template", text(f.texts)},
         {"completions", text(f.completions)},
         {"backend", std::string(name(f.common.backend))}};
  Config all = config;
  for (const Section& section : sections_of(all))
    for (const Option& option : section.options)
      if (std::find(kArithmeticOptions.begin(), kArithmeticOptions.end(), option.name()) != kArithmeticOptions.end())
        j[option.name()] = option.yaml();
  return j;
}

void show(const std::vector<TaskResult>& results, const EvalFlags& f, const Evaluation& evaluation) {
  if (f.split == EvalSplit::test)
    print_stderr(fmt::format("saved    {} answers for CEval to score: {}", evaluation.items(),
                             escaped((std::filesystem::path(f.output) / "ceval_submission.json").string())));
  if (results.empty()) return;
  fmt::print("{}", f.json ? results_json(results).dump(1) + "\n" : results_table(results));
  print_stderr("saved    " + escaped(f.output));
}

void run_with_model(World* world, EvalFlags& flags, const Config& config, const std::string& adapter, LoadedModel& loaded) {
  check_model_folder(config.model.path, "--model");
  const ChatPaths paths = chat_paths(config.model.path, adapter);
  const std::string tokenizer_path = config.model.tokenizer.empty() ? paths.tokenizer : config.model.tokenizer;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path);
  Evaluation evaluation(evaluation_options(flags));
  loaded = open_model_job(world, config.model.path, config, flags.common.backend, OpenFor::running, describe(flags), adapter);
  const Ranks& ranks = loaded.ranks();
  if (ranks.mesh().data > 1)
    throw UserError(fmt::format("{} data ranks", ranks.mesh().data), "parallel.data",
                    "all ranks of an evaluation run one model",
                    "divide the model by parallel.tensor or parallel.pipeline, or evaluate some of the tasks in each job");
  std::unique_ptr<FolderLock> lock;
  if (ranks.first()) lock = open_result_folder(flags.output, eval_settings(flags, config, adapter), flags.overwrite);
  const Recipe recipe = make_recipe(config.precision, loaded.kernels);
  const EvaluatedModel answerer{&loaded, tokenizer.get(), &recipe,
                                read_generation_config(paths.generation, loaded.model->facts()).end_ids};
  Log log;
  log.quiet(!ranks.first());
  StopSignals signals;
  const std::vector<TaskResult> results = evaluation.run(&answerer, log, [&] { return signals.requested(); });
  if (ranks.first()) show(results, flags, evaluation);
}

int compare(const EvalFlags& flags) {
  if (flags.compare.size() != 2)
    throw UserError(counted(flags.compare.size(), "folder"), "--compare", "two evaluations are compared",
                    "write --compare A B");
  const std::vector<TaskComparison> all = compare_evaluations(flags.compare[0], flags.compare[1]);
  fmt::print("{}", flags.json ? comparison_json(all).dump(1) + "\n" : comparison_table(all));
  return 0;
}

int score_completions(const EvalFlags& flags, const Config& config) {
  Evaluation evaluation(evaluation_options(flags));
  const auto lock = open_result_folder(flags.output, eval_settings(flags, config, ""), flags.overwrite);
  Log log;
  StopSignals signals;
  show(evaluation.run(nullptr, log, [&] { return signals.requested(); }), flags, evaluation);
  return 0;
}

int run_eval(EvalFlags& flags, Config& config) {
  if (!flags.compare.empty()) return compare(flags);
  check_eval_flags(flags);
  if (!flags.completions.empty()) return score_completions(flags, config);
  const ResolvedAdapters resolved = resolve_model_and_adapters(flags.model, flags.adapter);
  const std::string adapter = one_adapter(resolved, "eval");
  config.model.path = flags.model = resolved.model;
  RankJob job(config.parallel, config.train.threads);
  LoadedModel loaded;
  return job.run([&](World* world) {
    run_with_model(world, flags, config, adapter, loaded);
    loaded = {};
  });
}

}  // namespace

Command eval_command() {
  return command<EvalFlags>(
      {.name = "eval",
       .summary = "benchmarks: MMLU, CEval, GSM8K, BoolQ, BBH, AGIEval, HumanEval, PIQA, HellaSwag",
       .example = "ravine eval --model my-llama --tasks boolq,mmlu --data benchmarks --output results",
       .about =
           "Reads the files of each task as its authors publish them. --output keeps all answers; the same command goes on with an evaluation that was stopped.",
       .sections = {"model.path", "model.tokenizer", "lora.base", "precision.compute", "precision.bf16_products",
                    "precision.recipes", "precision.unfused", "parallel.tensor", "parallel.pipeline", "parallel.virtual",
                    "parallel.stage_layers", "parallel.patience", "parallel.interface"},
       .lasting = true,
       .stoppable = true},
      "Run", run_eval);
}

}  // namespace ravine
