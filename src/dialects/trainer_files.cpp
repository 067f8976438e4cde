// Translates flags on log lines, checkpoints and the other files of a run.
#include <fmt/format.h>

#include <algorithm>

#include "config/config.h"
#include "dialects/trainer_lead.h"

namespace ravine {

void TrainerFlagsLead::actions() {
  if (!a_.on("do_train") && !evaluates())
    refuse("do_train", "it is missing, and --do_eval too: the script does nothing; add one of them");
  if (a_.on("do_train") && !a_.has("train_file") && !a_.has("dataset_name") && facts_.runs)
    refuse("train_file", "it is missing; name what is trained on");
  const bool evaluates_at_end = a_.on("do_eval") && a_.text("evaluation_strategy") == "no";
  if (a_.has("eval_steps") || a_.text("evaluation_strategy") != "steps") {
    const int64_t every = strategy("evaluation_strategy", "eval_steps", evaluates_at_end ? steps_ : 0);
    set("train.valid_every", every, "evaluation_strategy");
  } else {
    set("train.valid_every", steps_of("logging_steps"), "evaluation_strategy");
  }
  lines();
  tokens();
  bool find_nan = false;
  for (const auto& word : a_.value("debug").items) {
    if (word->text == "underflow_overflow")
      find_nan = true;
    else if (!word->text.empty())
      refuse("debug", fmt::format("'{}' is no tool that is there; write underflow_overflow", word->text.substr(0, 40)));
  }
  set("train.find_nan", find_nan, "debug");
  if (a_.on("gradient_checkpointing")) set("train.recompute", "full", "gradient_checkpointing");
}

// Translates the interval and the destinations of log lines.
void TrainerFlagsLead::lines() {
  const int64_t lines = strategy("logging_strategy", "logging_steps", std::max<int64_t>(1, steps_));
  if (lines == 0) refuse("logging_steps", "it is 0; write at least 1, or --logging_strategy no");
  set("log.every", std::max<int64_t>(1, lines), "logging_steps");
  bool board = false;
  for (const auto& word : a_.value("report_to").items) {
    board |= word->text == "tensorboard" || word->text == "all";
    if (word->text != "tensorboard" && word->text != "all" && word->text != "none")
      out_.notices.push_back(fmt::format("--report_to {}: nothing is sent over the network; metrics.jsonl has every figure",
                                         word->text.substr(0, 40)));
  }
  if (!(c_ && c_->value("tensorboard.enabled"))) set("log.tensorboard", board, "report_to");
  if (a_.has("logging_dir")) out_.outputs.logging_dir = a_.text("logging_dir");
  mark_unused("logging_dir", board ? "" : "--report_to asks for no event files");
  out_.outputs.first_line = a_.on("logging_first_step");
  if (a_.has("disable_tqdm")) out_.outputs.bar = !a_.on("disable_tqdm");
}

// Translates the flags on token counts in the Trainer's files.
void TrainerFlagsLead::tokens() {
  out_.outputs.tokens_per_second = a_.on("include_tokens_per_second");
  const std::string& word = a_.text("include_num_input_tokens_seen");
  static const std::map<std::string, bool, std::less<>> kWords = {
      {"true", true}, {"True", true}, {"all", true}, {"false", false}, {"False", false}, {"no", false}, {"non_padding", true}};
  const auto found = kWords.find(word);
  if (found == kWords.end())
    refuse("include_num_input_tokens_seen", fmt::format("it is '{}'; write all, non_padding or no", word.substr(0, 80)));
  else if (word == "non_padding" && facts_.columns)
    refuse("include_num_input_tokens_seen", "rows of a file of batches are counted with their padding; write all");
  else
    out_.outputs.counts_tokens = found->second;
}

void TrainerFlagsLead::saving() {
  use("output_dir", "train.output");
  if (!a_.has("output_dir")) refuse("output_dir", "it is missing; name the folder that the run writes");
  set("checkpoint.every", strategy("save_strategy", "save_steps", 0), "save_strategy");
  set("checkpoint.keep", a_.has("save_total_limit") ? a_.whole("save_total_limit") : 0, "save_total_limit");
  best_model();
  const std::string from = a_.has("resume_from_checkpoint") ? a_.text("resume_from_checkpoint") : "";
  const bool newest = from == "True" || from == "true";
  if (a_.on("overwrite_output_dir") && newest)
    refuse("overwrite_output_dir", "--resume_from_checkpoint goes on with what lies there; remove one of them");
  const bool named = !from.empty() && !newest && from != "False" && from != "false";
  set("checkpoint.resume",
      named                           ? resume_path(from)
      : a_.on("overwrite_output_dir") ? kResumeNone
                                      : kResumeNewest,
      named ? "resume_from_checkpoint" : "overwrite_output_dir");
  skip_data();
}

// --ignore_data_skip: the Trainer then resumes from the start of the current epoch.
void TrainerFlagsLead::skip_data() {
  if (!a_.on("ignore_data_skip")) return;
  const int64_t pass = updates_of_pass(a_, facts_);
  if (!facts_.resumed) return mark_unused("ignore_data_skip", "the run goes on from no checkpoint of the Trainer");
  if (pass == 0) return refuse("ignore_data_skip", "how long an epoch is follows from the data; name --train_file");
  set("checkpoint.data_steps", *facts_.resumed / pass * pass, "ignore_data_skip");
}

// Translates the flags on the best model. The refusals are those that TrainingArguments makes.
void TrainerFlagsLead::best_model() {
  const bool loads = a_.on("load_best_model_at_end"), named = a_.has("metric_for_best_model");
  if (!loads && !named) return mark_unused("greater_is_better", "no metric names a best model");
  const std::string metric = named ? a_.text("metric_for_best_model") : "loss";
  if (metric != "loss" && metric != "eval_loss")
    refuse("metric_for_best_model",
           fmt::format("it is '{}', and a validation has a loss alone; write loss", metric.substr(0, 80)));
  const std::string &evaluated = a_.text("evaluation_strategy"), &saved = a_.text("save_strategy");
  if (loads && (evaluated != saved || evaluated == "no"))
    refuse("load_best_model_at_end",
           fmt::format("--evaluation_strategy is {}, --save_strategy {}; give both as steps, or both as epoch",
                       evaluated.substr(0, 80), saved.substr(0, 80)));
  if (loads && evaluated == "steps" && saved == "steps") {
    const int64_t between = steps_of(a_.has("eval_steps") ? "eval_steps" : "logging_steps"), saves = steps_of("save_steps");
    if (between == 0 || saves % between != 0)
      refuse("load_best_model_at_end",
             fmt::format("--save_steps is {}, which must be a multiple of --eval_steps, {}; set --save_steps {}", saves,
                         between, std::max<int64_t>(1, between)));
  }
  TrainerOutputs& to = out_.outputs;
  to.names_best = true, to.loads_best = loads;
  to.greater_is_better = a_.has("greater_is_better") && a_.on("greater_is_better");
}

}  // namespace ravine
