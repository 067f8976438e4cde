#include "dialects/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "config/config.h"
#include "config/yaml_json.h"
#include "dialects/deepspeed_json.h"
#include "dialects/trainer_lead.h"

namespace ravine {

void TrainerFlagsLead::all() {
  steps_ = updates_of_run(a_, facts_);
  model();
  data();
  length();
  sampling();
  batches_of_ranks();
  actions();
  saving();
  if (c_ && c_->has_section("optimizer")) {
    mark_unused("optim", "the optimizer of the DeepSpeed config counts");
  } else {
    optimizer();
  }
  if (c_ && c_->has_section("scheduler")) {
    for (const char* flag : {"lr_scheduler_type", "lr_scheduler_kwargs"})
      mark_unused(flag, "the scheduler of the DeepSpeed config counts");
  } else {
    schedule();
  }
  if (!(c_ && c_->value("gradient_clipping"))) use("max_grad_norm", "optimizer.clip_norm");
  if (!c_) precision();
  weight_type();
  mark_unused("warmup_ratio", a_.number("warmup_steps") > 0 ? "--warmup_steps counts" : "");
  for (const TrainerFlag& f : trainer_flags()) line(f);
}

void TrainerFlagsLead::model() {
  if (a_.has("model_name_or_path")) {
    use("model_name_or_path", "model.path");
    mark_unused("config_name", a_.has("config_name") ? "the folder of --model_name_or_path has its own" : "");
  } else if (a_.has("config_name")) {
    std::error_code error;
    const std::filesystem::path path = a_.text("config_name");
    set("model.config", std::filesystem::is_directory(path, error) ? (path / "config.json").string() : path.string(),
        "config_name");
  } else if (a_.has("model_type")) {
    refuse("model_type", "a new model takes its shape from a config.json; give --config_name FILE in its place");
  } else {
    refuse("model_name_or_path", "it is missing; name a model folder, or a new model by --config_name FILE");
  }
  if (a_.has("model_name_or_path") || a_.has("config_name"))
    mark_unused("model_type", "--model_name_or_path or --config_name says it, in run_clm.py too");
  use("tokenizer_name", "model.tokenizer");
}

bool TrainerFlagsLead::evaluates() const { return trainer_evaluates(a_); }

void TrainerFlagsLead::data() {
  std::error_code error;
  const bool named = a_.has("dataset_name");
  if (named && !std::filesystem::exists(a_.text("dataset_name"), error))
    refuse("dataset_name",
           fmt::format(
               "{} is no folder here, and nothing is fetched from a hub; save the set to files, and name them by --train_file",
               a_.text("dataset_name").substr(0, 80)));
  if (named && a_.has("train_file")) refuse("train_file", "--dataset_name is given too; name the data once");
  const std::string_view train = named ? "dataset_name" : "train_file";
  if (a_.has(train)) set("data.train", Json::array({a_.text(train)}), train);
  const bool streams = a_.on("streaming");
  if (streams && named) set("data.shuffle", false, "streaming");  // a stream is not shuffled
  if (streams && named && a_.on("do_train") && a_.whole("max_steps") <= 0)
    refuse("streaming", "a stream has no length; set --max_steps");
  mark_unused("streaming", !streams ? "it is off" : named ? "" : "run_clm.py streams a --dataset_name alone");
  if (a_.has("validation_file")) set("data.valid", Json::array({a_.text("validation_file")}), "validation_file");
  if (a_.has("validation_file"))
    mark_unused("validation_split_percentage", "--validation_file is given");
  else if (a_.was_given("validation_split_percentage") || (evaluates() && !facts_.columns))
    set("data.valid_fraction", a_.number("validation_split_percentage") / 100, "validation_split_percentage");
  else
    mark_unused("validation_split_percentage", "nothing is evaluated, so nothing is held out");
  if (a_.has("block_size"))
    use("block_size", "data.sequence_length");
  else
    set("data.sequence_length", facts_.columns ? *facts_.columns : std::min<int64_t>(1024, facts_.positions.value_or(1024)),
        "block_size");
  set("data.predict_next_block", false, "train_file");  // run_clm.py shifts labels within a block
  set("data.append_eos", false, "train_file");          // run_clm.py adds no token between texts
  set("data.cache", !a_.on("overwrite_cache"), "overwrite_cache");
  if (a_.has("max_eval_samples")) {
    const int64_t micro = a_.whole("per_device_train_batch_size");
    set("train.valid_batches", (a_.whole("max_eval_samples") + micro - 1) / micro, "max_eval_samples");
    out_.outputs.valid_rows = a_.whole("max_eval_samples");
  }
}

// Returns the number of steps in a flag; a value below 1 is a share of the run, rounded up.
int64_t TrainerFlagsLead::steps_of(std::string_view flag) {
  const double x = a_.number(flag);
  if (x >= 1 && std::floor(x) != x)
    refuse(flag, fmt::format("it is {}; a number above 1 is whole, one below is a share of the run", x));
  if (x >= 1 || x == 0) return static_cast<int64_t>(x);
  if (steps_ == 0) refuse(flag, "it is a share of the run, whose length is not known; set --max_steps");
  return static_cast<int64_t>(std::ceil(x * static_cast<double>(steps_)));
}

// Returns the interval of a strategy in steps.
int64_t TrainerFlagsLead::strategy(std::string_view flag, std::string_view steps, int64_t never) {
  const std::string& word = a_.text(flag);
  if (word == "no") return mark_unused(steps, fmt::format("--{} is no", flag)), never;
  if (word == "epoch") {
    mark_unused(steps, fmt::format("--{} is epoch", flag));
    const int64_t pass = updates_of_pass(a_, facts_);
    if (pass == 0) refuse(flag, "how long an epoch is follows from the data; name --train_file");
    return pass;
  }
  if (word != "steps") refuse(flag, fmt::format("it is '{}'; it must be no, steps or epoch", word.substr(0, 80)));
  return steps_of(steps);
}

void TrainerFlagsLead::length() {
  const int64_t micro = a_.whole("per_device_train_batch_size");
  set("train.micro_batch", micro, "per_device_train_batch_size");
  set("train.global_batch", micro * a_.whole("gradient_accumulation_steps") * facts_.ranks, "gradient_accumulation_steps");
  if (a_.whole("max_steps") > 0)
    mark_unused("num_train_epochs", "--max_steps counts");
  else if (steps_ == 0)
    refuse("num_train_epochs", "how many steps that is follows from the data; name it by --train_file, or set --max_steps");
  if (steps_ > 0) set("train.steps", steps_, a_.whole("max_steps") > 0 ? "max_steps" : "num_train_epochs");
  // 4.37 averages the means of micro batches; 5.x averages over all labels.
  set("train.loss_average", facts_.version == TransformersVersion::v4_37 ? "micro" : "tokens", "transformers_version");
  set("data.pass_end", std::string(pass_end(a_, facts_)), "dataloader_drop_last");
  if (a_.has("data_seed") && a_.whole("data_seed") != a_.whole("seed"))
    refuse("data_seed",
           fmt::format("one seed draws weights and order; leave it out, or give --seed {}", a_.whole("data_seed")));
  use("seed", "train.seed");
  if (a_.was_given("ddp_timeout") && a_.whole("ddp_timeout") > 3600)
    out_.notices.push_back(fmt::format("{}: a silent rank is waited for an hour at most", written("ddp_timeout")));
  if (a_.was_given("ddp_timeout"))
    set("parallel.patience", std::clamp<int64_t>(a_.whole("ddp_timeout"), 2, 3600), "ddp_timeout");
  if (!a_.on("average_tokens_across_devices") && facts_.ranks > 1 && facts_.version != TransformersVersion::v4_37)
    refuse("average_tokens_across_devices", "the labels of all ranks count alike in a step; leave it out");
}

// Sets the order of samples.
void TrainerFlagsLead::sampling() {
  const std::string& strategy = a_.text("train_sampling_strategy");
  if (strategy == "sequential")
    set("data.shuffle", false, "train_sampling_strategy");
  else if (strategy == "random")
    mark_unused("train_sampling_strategy", "random is what runs");
  else
    refuse("train_sampling_strategy", "samples are not grouped by length; write random or sequential");
}

// Refuses flags that divide batches or weights over ranks in another way.
void TrainerFlagsLead::batches_of_ranks() {
  const char* whose = "batch sizes are those of a rank";
  const std::string fix = "leave it out, and divide --per_device_train_batch_size by the ranks";
  const auto split = [&](const char* flag, const std::string& what) {
    if (facts_.ranks > 1)
      refuse(flag, fmt::format("{}{}; {}", what, whose, fix));
    else
      mark_unused(flag, "one rank has whole batches");
  };
  if (a_.on("split_batches"))
    split("split_batches", "");
  else
    mark_unused("split_batches", whose);
  if (a_.whole("tp_size") > 1)
    refuse("tp_size", "ranks are data ranks; leave it out, or train with `ravine train` and parallel.tensor");
  else
    mark_unused("tp_size", "weights are whole on each rank, as without it");
  if (!a_.has("accelerator_config")) return;
  Json config;
  try {
    const std::string& text = a_.text("accelerator_config");
    std::error_code error;
    config = std::filesystem::is_regular_file(text, error) ? read_json(text) : parse_json(text, "--accelerator_config");
  } catch (const UserError& e) {
    return refuse("accelerator_config", fmt::format("{}; leave it out", e.what()));
  }
  mark_unused("accelerator_config", "its fields have their defaults");
  const Json defaults = {{"split_batches", false},       {"dispatch_batches", nullptr},
                         {"even_batches", true},         {"use_seedable_sampler", true},
                         {"non_blocking", false},        {"gradient_accumulation_kwargs", nullptr},
                         {"use_configured_state", false}};
  if (!config.is_null() && !config.is_object()) return refuse("accelerator_config", "it is no JSON object; leave it out");
  for (const auto& [field, value] : config.items()) {
    const auto standard = defaults.find(field);
    if (field == "split_batches" && value == Json(true))
      split("accelerator_config", "it has split_batches, and ");
    else if (standard == defaults.end() || *standard != value)
      refuse("accelerator_config", fmt::format("its '{}' has no counterpart; leave the field out", field.substr(0, 80)));
  }
}

void TrainerFlagsLead::precision() {
  const bool alone = !a_.on("do_train");
  const bool half = a_.on("fp16") || (alone && a_.on("fp16_full_eval"));
  const bool brain = a_.on("bf16") || (alone && a_.on("bf16_full_eval"));
  if (half && brain) refuse("fp16", "--bf16 is given too; a run has one arithmetic");
  set("precision.compute", half ? "f16" : brain ? "bf16" : "f32", brain ? "bf16" : "fp16");
  for (const char* flag : {"fp16_full_eval", "bf16_full_eval"})
    mark_unused(flag, alone ? "" : "it counts without --do_train: a run validates in the arithmetic of its training");
  if (a_.text("half_precision_backend") == "apex" && a_.text("fp16_opt_level") != "O1")
    refuse("fp16_opt_level", "apex is not there, and --fp16 does what its O1 does; leave it out");
  mark_unused("half_precision_backend", "there is one arithmetic of 16 bits, which --fp16 and --bf16 choose");
  if (!half) return;  // the settings of torch's GradScaler follow
  set("precision.scale_rule", "deepspeed-0.13", "fp16");
  set("precision.scale_window", 2000, "fp16");
  set("precision.scale_hysteresis", 1, "fp16");
  set("precision.scale_min", 1e-30, "fp16");
}

// Transformers computes in the type of the loaded weights, unless a flag sets another type.
void TrainerFlagsLead::weight_type() {
  for (const char* flag : {"torch_dtype", "dtype"}) {
    if (!a_.has(flag)) continue;
    const std::string& word = a_.text(flag);
    if (word != "auto" && word != "float32" && word != "bfloat16" && word != "float16") {
      refuse(flag, fmt::format("it is '{}'; write auto, float32, bfloat16 or float16", word.substr(0, 80)));
      continue;
    }
    const std::string type = word == "auto" ? facts_.dtype : word;
    const bool half = type == "float16";
    if (c_)
      mark_unused(flag, "the DeepSpeed config, --bf16 and --fp16 choose the arithmetic; weights are kept in f32");
    else if (a_.on("fp16") || a_.on("bf16"))
      mark_unused(flag, "--bf16 and --fp16 choose the arithmetic; weights that are trained are kept in f32");
    else if (!a_.has("model_name_or_path"))
      mark_unused(flag, "a new model begins in f32, in run_clm.py too");
    else if (half && a_.on("do_train"))
      refuse(flag, "weights of float16 are not trained without a loss scale; add --fp16");
    else if (half || type == "bfloat16")
      compute_in(half ? "f16" : "bf16", flag);
    else
      mark_unused(flag, "weights are f32 in any case");
  }
}

void TrainerFlagsLead::compute_in(const std::string& type, std::string_view flag) {
  set("precision.compute", type, flag);
  out_.notices.push_back(fmt::format(
      "{}: the arithmetic is {}; weights and states stay f32, which Transformers would keep in it too", written(flag), type));
}

void TrainerFlagsLead::line(const TrainerFlag& f) {
  if (!a_.was_given(f.name)) return;
  const YamlNode& v = a_.value(f.name);
  const auto own = inert_.find(std::string(f.name));
  const bool changed = f.fallback.empty() || json_of(v) != json_of(*default_of(f));
  if (f.fate == DeepSpeedFate::refused_if_on && changed && !(v.kind == YamlNode::Kind::text && v.text.empty()) &&
      !is_zero(f, v))
    refuse(f.name, std::string(f.effect));
  const bool used = is_used(f.fate) && own == inert_.end();
  out_.fates[written(f.name)] = {used ? KeyStatus::used : KeyStatus::inert,
                                 own != inert_.end() ? own->second : std::string(f.effect), json_of(v)};
}

namespace {

// Sets checkpoint.layout: the Trainer's format, or DeepSpeed's with a DeepSpeed config, if it can store this run's
// state.
void choose_files(const TrainerFacts& facts, bool deepspeed, TrainerOutcome& out) {
  std::string type = "adamw";
  for (const TrainerOutcome::Choice& c : out.choices)
    if (c.option == "optimizer.type" && c.value.is_string()) type = c.value.get<std::string>();
  const bool filed = type == "adamw" || (deepspeed && (type == "adam" || type == "lion"));
  const char* whose = deepspeed ? "DeepSpeed's" : "the Trainer's";
  if (!deepspeed && facts.own_form)
    return out.notices.emplace_back("checkpoints have Ravine's own form, as those that lie in --output_dir"), void();
  // The parameter order is not known if the model cannot be opened; the error is reported when the run opens it.
  if (filed && facts.ordered.value_or(true))
    return out.set("checkpoint.layout", deepspeed ? "deepspeed" : "trainer", deepspeed ? "--deepspeed" : "--output_dir");
  if (!filed)
    out.notices.push_back(fmt::format("checkpoints have Ravine's own form: {} have states of {} here, not of {}", whose,
                                      deepspeed ? "adamw, adam and lion" : "adamw", type));
  else
    out.notices.push_back(fmt::format(
        "checkpoints have Ravine's own form: the order of this family's parameters in {} files is not known", whose));
}

// Sets the options for --do_eval without --do_train: the loss on the validation data. Flags that only training reads
// are inert, and set no option.
void lead_evaluation(const TrainerArguments& a, const TrainerFacts& facts, TrainerOutcome& out) {
  const auto of_training = [](std::string_view option) {
    if (option.starts_with("train.output") || option.starts_with("train.valid_batches")) return false;
    return option.starts_with("train.") || option.starts_with("optimizer.") || option.starts_with("schedule.") ||
           option.starts_with("checkpoint.") || option.starts_with("log.");
  };
  const auto written = [&](const char* flag) {
    const auto found = a.given.find(flag);
    return found == a.given.end() ? "--" + std::string(flag) : found->second;
  };
  const std::string batch = written("per_device_eval_batch_size"), valid = written("validation_file"),
                    eval = written("do_eval");
  for (auto& [key, fate] : out.fates)
    if (fate.status == KeyStatus::used && key != eval && of_training(fate.effect))
      fate.status = KeyStatus::inert, fate.effect = "--do_train is missing: nothing is trained";
  std::erase_if(out.choices, [&](const TrainerOutcome::Choice& c) { return of_training(c.option); });
  const int64_t rows = a.whole("per_device_eval_batch_size");
  out.set("train.steps", 1, eval);
  out.set("train.micro_batch", rows, batch);
  out.set("train.global_batch", rows * facts.ranks, batch);
  if (a.has("max_eval_samples"))
    out.set("train.valid_batches", (a.whole("max_eval_samples") + rows - 1) / rows, written("max_eval_samples"));
  if (const auto fate = out.fates.find(batch); fate != out.fates.end())
    fate->second = {KeyStatus::used, "train.micro_batch", fate->second.value};
  out.set("checkpoint.resume", kResumeNone, eval);
  if (a.has("validation_file")) {
    out.set("data.train", Json::array({a.text("validation_file")}), valid);
    for (const char* flag : {"train_file", "dataset_name"})
      if (const auto fate = out.fates.find(written(flag)); fate != out.fates.end())
        fate->second = {KeyStatus::inert, "--validation_file is given, and nothing is trained", fate->second.value};
  } else if (facts.runs && (facts.columns || (!a.has("train_file") && !a.has("dataset_name")))) {
    out.refusals.push_back(key_refusal(valid, "command line", "it is missing; name the data that the loss is asked of"));
  }
}

}  // namespace

bool trainer_evaluates(const TrainerArguments& args) { return args.on("do_eval") || args.text("evaluation_strategy") != "no"; }

bool only_evaluates(const TrainerArguments& args) { return trainer_evaluates(args) && !args.on("do_train"); }

TrainerLine read_trainer_line(const std::vector<PlacedWord>& words) {
  TrainerLine line;
  line.args = read_trainer_flags(words, line.refusals);
  line.misread = !line.refusals.empty();
  const std::string& version = line.args.text("transformers_version");
  if (version.starts_with("5"))
    line.version = TransformersVersion::v5_23;
  else if (!version.starts_with("4."))
    line.refusals.push_back(key_refusal("--transformers_version", "command line", "it is 4.37 or 5.23; write one of them"));
  if (!line.args.has("deepspeed")) return line;
  std::string name;
  const YamlNode::Ptr root = read_deepspeed_json(line.args.text("deepspeed"), name, line.notices);
  line.config = take_deepspeed_keys(*root, name, compared_with_flag, line.refusals, line.notices);
  return line;
}

Translation translate_trainer(TrainerLine line, const TrainerFacts& line_facts) {
  DeepSpeedConfig* config = line.config ? &*line.config : nullptr;
  const bool evaluation = only_evaluates(line.args);
  TrainerFacts facts = line_facts;
  if (evaluation || line.misread) facts.samples = 1;  // the number of training steps is not needed
  if (line.misread) facts.runs = false;
  TrainerOutcome out;
  out.refusals = std::move(line.refusals);
  if (config) fill_auto(*config, line.args, facts, out.refusals);
  TrainerFlagsLead(line.args, config, facts, out, line.misread).all();
  if (config) lead_deepspeed(*config, line.args, out);
  if (evaluation)
    lead_evaluation(line.args, facts, out);
  else
    choose_files(facts, config != nullptr, out);

  DialectTable table;
  std::vector<GivenKey> given;
  for (const TrainerFlag& f : trainer_flags()) {
    const auto as = line.args.given.find(f.name);
    table.push_back(used(as == line.args.given.end() ? "--" + std::string(f.name) : as->second, KeyType::any, ""));
    if (as != line.args.given.end()) given.push_back({as->second, json_of(line.args.value(f.name)), "command line"});
  }
  for (const DeepSpeedGiven& g : config ? config->keys : std::vector<DeepSpeedGiven>{}) {
    table.push_back(used(g.written, KeyType::any, ""));
    given.push_back({g.written, json_of(*g.value), g.source});
  }
  Translation t = translate(std::move(table), given, "the Trainer");
  t.evaluates = evaluation;
  t.trainer = out.outputs;
  t.trainer.results = true;
  for (const TrainerOutcome::Choice& c : out.choices) t.set(c.option, c.value, c.from);
  for (const auto& [key, fate] : out.fates) {
    t.becomes(key, fate.status, fate.effect);
    t.shows(key, fate.value);
  }
  for (const KeyRefusal& r : out.refusals) t.refuse(r);
  for (const auto* notices : {&line.notices, &out.notices})
    for (const std::string& text : *notices) t.notice(text);
  return t;
}

}  // namespace ravine
