#include "dialects/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "config/config.h"
#include "config/yaml_json.h"
#include "dialects/deepspeed_json.h"

namespace ravine {
namespace {

using Kind = YamlNode::Kind;

struct HfOptimizer {
  std::string_view name, ours;  // ours "": refused
  std::string_view says = {};   // why it is refused, or what is told of it
};

// optim of TrainingArguments.
constexpr HfOptimizer kHfOptimizers[] = {
    {"adamw_torch", "adamw"},
    {"adamw_hf", "adamw"},
    {"adamw_torch_fused", "adamw"},
    {"adamw_torch_xla", "adamw"},
    {"adamw_torch_npu_fused", "adamw"},
    {"adamw_apex_fused", "adamw"},
    {"paged_adamw_32bit", "adamw", "states are paged by the system, or lie on the disk with offload.optimizer"},
    {"paged_adamw", "adamw", "states are paged by the system, or lie on the disk with offload.optimizer"},
    {"lion_32bit", "lion"},
    {"paged_lion_32bit", "lion", "states are paged by the system, or lie on the disk with offload.optimizer"},
    {"adafactor", "adafactor"},
    {"sgd", "sgd"},
    {"adagrad", "adagrad"},
    {"adamw_bnb_8bit", "", "states are kept in f32"},
    {"adamw_8bit", "", "states are kept in f32"},
    {"lion_8bit", "", "states are kept in f32"},
    {"paged_adamw_8bit", "", "states are kept in f32"},
    {"paged_lion_8bit", "", "states are kept in f32"},
    {"adamw_anyprecision", "", "states are kept in f32"},
    {"rmsprop", "", "there is no RMSprop"},
};

struct HfSchedule {
  std::string_view name, ours;
  std::vector<std::pair<std::string_view, std::string_view>> settings;  // option of the section, value
  std::vector<std::pair<std::string_view, std::string_view>> kwargs;    // of lr_scheduler_kwargs, option of the section
  bool warms_up = true;
  std::string_view needs = {};  // of lr_scheduler_kwargs, between blanks: one of them must be given
};

constexpr std::string_view kMayBeNone = " warmup_lr_rate timescale num_stable_steps ";  // and what a schedule needs
constexpr std::string_view kShareOfRate = "min_lr_ratio of --learning_rate";            // a rate, which becomes that share

const std::vector<HfSchedule>& hf_schedules() {
  static const std::vector<HfSchedule> schedules = {
      {"linear", "linear", {}, {}},
      {"cosine", "cosine", {{"min_lr_ratio", "0"}}, {{"num_cycles", "cycles"}}},
      {"cosine_with_restarts", "cosine_with_restarts", {}, {{"num_cycles", "cycles"}}},
      {"polynomial", "polynomial", {{"end_lr", "1e-7"}, {"power", "1"}}, {{"lr_end", "end_lr"}, {"power", "power"}}},
      {"constant", "constant", {}, {}, false},
      {"constant_with_warmup", "constant", {}, {}},
      {"inverse_sqrt", "inverse_sqrt", {}, {{"timescale", "timescale"}}},
      {"cosine_with_min_lr",
       "cosine",
       {},
       {{"min_lr_rate", "min_lr_ratio"}, {"min_lr", kShareOfRate}, {"num_cycles", "cycles"}},
       true,
       " min_lr min_lr_rate "},
      {"cosine_warmup_with_min_lr",
       "cosine_warmup_with_min_lr",
       {},
       {{"min_lr_rate", "min_lr_ratio"},
        {"min_lr", kShareOfRate},
        {"num_cycles", "cycles"},
        {"warmup_lr_rate", "warmup_lr_ratio"}},
       true,
       " min_lr min_lr_rate "},
      {"warmup_stable_decay",
       "warmup_stable_decay",
       {{"min_lr_ratio", "0"}},
       {{"num_decay_steps", "decay_steps"},
        {"num_stable_steps", "stable_steps"},
        {"min_lr_ratio", "min_lr_ratio"},
        {"num_cycles", "cycles"},
        {"warmup_type", "warmup_type"},
        {"decay_type", "decay_type"}},
       true,
       " num_decay_steps "},
      {"reduce_lr_on_plateau",
       "reduce_lr_on_plateau",
       {},
       {{"factor", "factor"},
        {"patience", "patience"},
        {"threshold", "threshold"},
        {"threshold_mode", "threshold_mode"},
        {"cooldown", "cooldown"},
        {"min_lr", "lowest_lr"}},
       false},
  };
  return schedules;
}

class TrainerFlagsLead {
 public:
  TrainerFlagsLead(const TrainerArguments& args, const DeepSpeedConfig* config, const TrainerFacts& facts, TrainerOutcome& out,
                   bool misread)
      : a_(args), c_(config), facts_(facts), out_(out), misread_(misread) {}

  void all() {
    steps_ = updates_of_run(a_, facts_);
    model();
    data();
    length();
    actions();
    saving();
    if (c_ && c_->has_section("optimizer")) {
      says("optim", "the optimizer of the DeepSpeed config counts");
    } else {
      optimizer();
    }
    if (c_ && c_->has_section("scheduler")) {
      for (const char* flag : {"lr_scheduler_type", "lr_scheduler_kwargs"})
        says(flag, "the scheduler of the DeepSpeed config counts");
    } else {
      schedule();
    }
    if (!(c_ && c_->value("gradient_clipping"))) use("max_grad_norm", "optimizer.clip_norm");
    if (!c_) precision();
    weight_type();
    says("warmup_ratio", a_.number("warmup_steps") > 0 ? "--warmup_steps counts" : "");
    for (const TrainerFlag& f : trainer_flags()) line(f);
  }

 private:
  void refuse(std::string_view flag, const std::string& why) {
    if (misread_ && !a_.was_given(flag)) return;
    out_.refusals.push_back(key_refusal(written(flag), "command line", why));
  }
  std::string written(std::string_view flag) const {
    const auto found = a_.given.find(flag);
    return found == a_.given.end() ? "--" + std::string(flag) : found->second;
  }
  void says(std::string_view flag, const std::string& reason) {
    if (!reason.empty()) inert_[std::string(flag)] = reason;
  }
  void set(const std::string& option, Json value, std::string_view flag) { out_.set(option, std::move(value), written(flag)); }
  void use(std::string_view flag, const std::string& option) {
    if (a_.has(flag)) set(option, json_of(a_.value(flag)), flag);
  }

  void model() {
    if (a_.has("model_name_or_path")) {
      use("model_name_or_path", "model.path");
      says("config_name", a_.has("config_name") ? "the folder of --model_name_or_path has its own" : "");
    } else if (a_.has("config_name")) {
      std::error_code error;
      const std::filesystem::path path = a_.text("config_name");
      set("model.config", std::filesystem::is_directory(path, error) ? (path / "config.json").string() : path.string(),
          "config_name");
    } else {
      refuse("model_name_or_path", "it is missing; name a model folder, or a new model by --config_name FILE");
    }
    use("tokenizer_name", "model.tokenizer");
  }

  void data() {
    std::error_code error;
    const bool named = a_.has("dataset_name");
    if (named && !std::filesystem::exists(a_.text("dataset_name"), error))
      refuse(
          "dataset_name",
          fmt::format(
              "{} is no folder here, and nothing is fetched from a hub; save the set to files, and name them by --train_file",
              a_.text("dataset_name").substr(0, 80)));
    if (named && a_.has("train_file")) refuse("train_file", "--dataset_name is given too; name the data once");
    const std::string_view train = named ? "dataset_name" : "train_file";
    if (a_.has(train)) set("data.train", Json::array({a_.text(train)}), train);
    const bool streams = a_.on("streaming");
    if (streams && named) set("data.shuffle", false, "streaming");  // a stream comes in its own order
    if (streams && named && a_.on("do_train") && a_.whole("max_steps") <= 0)
      refuse("streaming", "a stream has no length; set --max_steps");
    says("streaming", !streams ? "it is off" : named ? "" : "run_clm.py streams a --dataset_name alone");
    if (a_.has("validation_file")) set("data.valid", Json::array({a_.text("validation_file")}), "validation_file");
    if (a_.has("validation_file"))
      says("validation_split_percentage", "--validation_file is given");
    else if (a_.was_given("validation_split_percentage") || (evaluates() && !facts_.columns))
      set("data.valid_fraction", a_.number("validation_split_percentage") / 100, "validation_split_percentage");
    else
      says("validation_split_percentage", "nothing is evaluated, so nothing is held out");
    if (a_.has("block_size"))
      use("block_size", "data.sequence_length");
    else
      set("data.sequence_length", facts_.columns ? *facts_.columns : std::min<int64_t>(1024, facts_.positions.value_or(1024)),
          "block_size");
    set("data.predict_next_block", false, "train_file");  // run_clm.py shifts labels inside a block
    set("data.append_eos", false, "train_file");          // run_clm.py puts nothing between texts but what the tokenizer does
    set("data.cache", !a_.on("overwrite_cache"), "overwrite_cache");
    if (a_.has("max_eval_samples")) {
      const int64_t micro = a_.whole("per_device_train_batch_size");
      set("train.valid_batches", (a_.whole("max_eval_samples") + micro - 1) / micro, "max_eval_samples");
      out_.outputs.valid_rows = a_.whole("max_eval_samples");
    }
  }

  bool evaluates() const { return trainer_evaluates(a_); }

  // A number of steps, or a share of the run, rounded up.
  int64_t steps_of(std::string_view flag) {
    const double x = a_.number(flag);
    if (x >= 1 && std::floor(x) != x)
      refuse(flag, fmt::format("it is {}; a number above 1 is whole, one below is a share of the run", x));
    if (x >= 1 || x == 0) return static_cast<int64_t>(x);
    if (steps_ == 0) refuse(flag, "it is a share of the run, whose length is not known; set --max_steps");
    return static_cast<int64_t>(std::ceil(x * static_cast<double>(steps_)));
  }

  // Steps between what a strategy (no, steps, epoch) asks for; `never`: of no.
  int64_t strategy(std::string_view flag, std::string_view steps, int64_t never) {
    const std::string& word = a_.text(flag);
    if (word == "no") return says(steps, fmt::format("--{} is no", flag)), never;
    if (word == "epoch") {
      says(steps, fmt::format("--{} is epoch", flag));
      const int64_t pass = updates_of_pass(a_, facts_);
      if (pass == 0) refuse(flag, "how long an epoch is follows from the data; name --train_file");
      return pass;
    }
    if (word != "steps") refuse(flag, fmt::format("it is '{}'; it must be no, steps or epoch", word.substr(0, 80)));
    return steps_of(steps);
  }

  void length() {
    const int64_t micro = a_.whole("per_device_train_batch_size");
    set("train.micro_batch", micro, "per_device_train_batch_size");
    set("train.global_batch", micro * a_.whole("gradient_accumulation_steps") * facts_.ranks, "gradient_accumulation_steps");
    if (a_.whole("max_steps") > 0)
      says("num_train_epochs", "--max_steps counts");
    else if (steps_ == 0)
      refuse("num_train_epochs", "how many steps that is follows from the data; name it by --train_file, or set --max_steps");
    if (steps_ > 0) set("train.steps", steps_, a_.whole("max_steps") > 0 ? "max_steps" : "num_train_epochs");
    // 4.37 averages each micro batch, then these; 5.x every label alike.
    set("train.loss_average", facts_.version == TransformersVersion::v4_37 ? "micro" : "tokens", "transformers_version");
    set("data.pass_end", std::string(pass_end(a_, facts_)), "dataloader_drop_last");
    if (a_.has("data_seed") && a_.whole("data_seed") != a_.whole("seed"))
      refuse("data_seed",
             fmt::format("one seed draws weights and order; leave it out, or give --seed {}", a_.whole("data_seed")));
    use("seed", "train.seed");
    if (a_.was_given("ddp_timeout"))
      set("parallel.patience", std::clamp<int64_t>(a_.whole("ddp_timeout"), 2, 3600), "ddp_timeout");
    if (!a_.on("average_tokens_across_devices") && facts_.ranks > 1 && facts_.version != TransformersVersion::v4_37)
      refuse("average_tokens_across_devices", "the labels of all ranks count alike in a step; leave it out");
  }

  void actions() {
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
    says("logging_dir", board ? "" : "--report_to asks for no event files");
    bool watch = false;
    for (const auto& word : a_.value("debug").items) {
      if (word->text == "underflow_overflow")
        watch = true;
      else if (!word->text.empty())
        refuse("debug", fmt::format("'{}' is no tool that is there; write underflow_overflow", word->text.substr(0, 40)));
    }
    set("train.find_nan", watch, "debug");
    if (a_.on("gradient_checkpointing")) set("train.recompute", "full", "gradient_checkpointing");
  }

  void saving() {
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

  // The Trainer counts the epochs that lie behind a checkpoint, and with this flag takes the current one from its beginning.
  void skip_data() {
    if (!a_.on("ignore_data_skip")) return;
    const int64_t pass = updates_of_pass(a_, facts_);
    if (!facts_.resumed) return says("ignore_data_skip", "the run goes on from no checkpoint of the Trainer");
    if (pass == 0) return refuse("ignore_data_skip", "how long an epoch is follows from the data; name --train_file");
    set("checkpoint.data_steps", *facts_.resumed / pass * pass, "ignore_data_skip");
  }

  // What of TrainingArguments is refused there is refused here.
  void best_model() {
    const bool loads = a_.on("load_best_model_at_end"), named = a_.has("metric_for_best_model");
    if (!loads && !named) return says("greater_is_better", "no metric names a best model");
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

  void optimizer() {
    std::string_view name = a_.text("optim");
    if (a_.on("adafactor")) name = "adafactor";
    const auto* found =
        std::find_if(std::begin(kHfOptimizers), std::end(kHfOptimizers), [&](const HfOptimizer& o) { return o.name == name; });
    std::vector<std::string> names;
    for (const HfOptimizer& o : kHfOptimizers) names.emplace_back(o.name);
    if (found == std::end(kHfOptimizers))
      return refuse("optim", fmt::format("'{}' is not known; {}", name.substr(0, 80),
                                         did_you_mean(std::string(name), names, "use adamw_torch")));
    if (found->ours.empty()) return refuse("optim", fmt::format("'{}': {}; use adamw_torch", name, found->says));
    set("optimizer.type", std::string(found->ours), "optim");
    set("optimizer.decay", "matrices", "optim");
    use("learning_rate", "optimizer.lr");
    use("weight_decay", "optimizer.weight_decay");
    const bool moments = found->ours == "adamw" || found->ours == "lion";
    if (moments) set("optimizer.betas", Json::array({a_.number("adam_beta1"), a_.number("adam_beta2")}), "adam_beta1");
    if (found->ours == "adamw") use("adam_epsilon", "optimizer.eps");
    for (const char* flag : {"adam_beta1", "adam_beta2"})
      if (!moments) says(flag, fmt::format("{} has no betas", found->name));
    if (found->ours != "adamw") says("adam_epsilon", fmt::format("{} keeps its own", found->name));
    if (found->ours == "sgd") set("optimizer.momentum", 0, "optim");
    if (found->ours == "adafactor") {
      set("optimizer.relative_step", false, "optim");
      set("optimizer.scale_parameter", false, "optim");
    }
  }

  void schedule() {
    const std::string& name = a_.text("lr_scheduler_type");
    const auto found =
        std::find_if(hf_schedules().begin(), hf_schedules().end(), [&](const HfSchedule& s) { return s.name == name; });
    std::vector<std::string> names;
    for (const HfSchedule& s : hf_schedules()) names.emplace_back(s.name);
    if (found == hf_schedules().end())
      return refuse("lr_scheduler_type", fmt::format("'{}' is not known; {}", name.substr(0, 80),
                                                     did_you_mean(name, names, "use linear, cosine, constant_with_warmup ..")));
    set("schedule.type", std::string(found->ours), "lr_scheduler_type");
    if (found->warms_up) {
      const int64_t warmup = warmup_of_run(a_, facts_);
      if (warmup < 0) refuse("warmup_ratio", "it is a share of the run, whose length is not known; set --max_steps");
      set("schedule.warmup_steps", std::max<int64_t>(0, warmup),
          a_.number("warmup_steps") > 0 ? "warmup_steps" : "warmup_ratio");
    } else {
      set("schedule.warmup_steps", 0, "lr_scheduler_type");
      for (const char* flag : {"warmup_steps", "warmup_ratio"}) says(flag, fmt::format("{} has no warm-up", name));
    }
    for (const auto& [option, value] : found->settings)
      set("schedule." + std::string(option), parse_json(value, "defaults"), "lr_scheduler_type");
    schedule_kwargs(*found);
  }

  void schedule_kwargs(const HfSchedule& of) {
    Json given = Json::object();
    try {
      if (a_.has("lr_scheduler_kwargs") && !a_.text("lr_scheduler_kwargs").empty())
        given = parse_json(a_.text("lr_scheduler_kwargs"), "--lr_scheduler_kwargs");
    } catch (const UserError&) {
      return refuse("lr_scheduler_kwargs", "it is no JSON; write for example '{\"num_cycles\": 2}'");
    }
    if (!given.is_object()) return refuse("lr_scheduler_kwargs", "it must be an object, like '{\"num_cycles\": 2}'");
    int needed = 0;
    for (const auto& [key, value] : given.items()) {
      const auto p =
          std::find_if(of.kwargs.begin(), of.kwargs.end(), [&, &key = key](const auto& k) { return k.first == key; });
      const std::string word = " " + key + " ";
      const bool is_needed = of.needs.find(word) != std::string_view::npos;
      if (p == of.kwargs.end()) {
        refuse("lr_scheduler_kwargs", fmt::format("{} takes no '{}'", of.name, key.substr(0, 80)));
      } else if (value.is_null() && (is_needed || kMayBeNone.find(word) != std::string_view::npos)) {
        continue;  // None, as if it were not given
      } else if (!value.is_number() && !value.is_string()) {
        refuse("lr_scheduler_kwargs", fmt::format("'{}' is no number", key));
      } else if (p->second == kShareOfRate) {
        lowest_rate(value);
      } else {
        set("schedule." + std::string(p->second), value, "lr_scheduler_kwargs");
      }
      needed += is_needed ? 1 : 0;
    }
    if (a_.on("do_train") && !of.needs.empty() && needed != 1) refuse("lr_scheduler_kwargs", needs_text(of, needed));
  }

  static std::string needs_text(const HfSchedule& of, int given) {
    const bool rates = of.needs != " num_decay_steps ";
    if (given > 1) return fmt::format("min_lr and min_lr_rate of {} exclude each other; write one of them", of.name);
    return fmt::format("{} does not begin without {}; write for example '{}'", of.name,
                       rates ? "min_lr or min_lr_rate" : "num_decay_steps",
                       rates ? "{\"min_lr_rate\": 0.1}" : "{\"num_decay_steps\": 100}");
  }

  // min_lr: Transformers makes a share of the optimizer's rate of it.
  void lowest_rate(const Json& value) {
    const double rate = rate_of_optimizer();
    if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > rate)
      return refuse("lr_scheduler_kwargs",
                    fmt::format("min_lr is {}; it is a number from 0 to the rate, which is {}", value.dump(), rate));
    set("schedule.min_lr_ratio", rate > 0 ? value.get<double>() / rate : 0.0, "lr_scheduler_kwargs");
  }

  // Equal to --learning_rate wherever a DeepSpeed config has it.
  double rate_of_optimizer() const {
    if (!c_ || !c_->has_section("optimizer") || c_->value("optimizer.params.lr")) return a_.number("learning_rate");
    for (const DeepSpeedClass& k : deepspeed_optimizers())
      for (const auto& [option, value] : k.settings)
        if (option == "lr" && same_word(k.name, c_->text("optimizer.type", "")))
          return parse_json(value, "defaults").get<double>();
    return a_.number("learning_rate");
  }

  void precision() {
    const bool alone = !a_.on("do_train");
    const bool half = a_.on("fp16") || (alone && a_.on("fp16_full_eval"));
    const bool brain = a_.on("bf16") || (alone && a_.on("bf16_full_eval"));
    if (half && brain) refuse("fp16", "--bf16 is given too; a run has one arithmetic");
    set("precision.compute", half ? "f16" : brain ? "bf16" : "f32", brain ? "bf16" : "fp16");
    for (const char* flag : {"fp16_full_eval", "bf16_full_eval"})
      says(flag, alone ? "" : "it counts without --do_train: a run validates in the arithmetic of its training");
    if (a_.text("half_precision_backend") == "apex" && a_.text("fp16_opt_level") != "O1")
      refuse("fp16_opt_level", "apex is not there, and --fp16 does what its O1 does; leave it out");
    says("half_precision_backend", "there is one arithmetic of 16 bits, which --fp16 and --bf16 choose");
    if (!half) return;  // torch's GradScaler
    set("precision.scale_rule", "deepspeed-0.13", "fp16");
    set("precision.scale_window", 2000, "fp16");
    set("precision.scale_hysteresis", 1, "fp16");
    set("precision.scale_min", 1e-30, "fp16");
  }

  // Transformers computes in the type that weights are loaded in where no flag chooses another.
  void weight_type() {
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
        says(flag, "the DeepSpeed config, --bf16 and --fp16 choose the arithmetic; weights are kept in f32");
      else if (a_.on("fp16") || a_.on("bf16"))
        says(flag, "--bf16 and --fp16 choose the arithmetic; weights that are trained are kept in f32");
      else if (!a_.has("model_name_or_path"))
        says(flag, "a new model begins in f32, in run_clm.py too");
      else if (half && a_.on("do_train"))
        refuse(flag, "weights of float16 are not trained without a loss scale; add --fp16");
      else if (half || type == "bfloat16")
        compute_in(half ? "f16" : "bf16", flag);
      else
        says(flag, "weights are f32 in any case");
    }
  }

  void compute_in(const std::string& type, std::string_view flag) {
    set("precision.compute", type, flag);
    out_.notices.push_back(fmt::format(
        "{}: the arithmetic is {}; weights and states stay f32, which Transformers would keep in it too", written(flag), type));
  }

  void line(const TrainerFlag& f) {
    if (!a_.was_given(f.name)) return;
    const YamlNode& v = a_.value(f.name);
    const auto own = inert_.find(std::string(f.name));
    const bool changed = f.fallback.empty() || json_of(v) != json_of(*default_of(f));
    if (f.fate == DeepSpeedFate::refused_if_on && changed && !(v.kind == Kind::text && v.text.empty()) && !is_zero(f, v))
      refuse(f.name, std::string(f.says));
    const bool used = is_used(f.fate) && own == inert_.end();
    out_.fates[written(f.name)] = {used ? KeyStatus::used : KeyStatus::inert,
                                   own != inert_.end() ? own->second : std::string(f.says), json_of(v)};
  }

  // 0 of a number that has no default switches off what is not there.
  static bool is_zero(const TrainerFlag& f, const YamlNode& v) { return f.type == DeepSpeedValue::number && v.real == 0; }

  static YamlNode::Ptr default_of(const TrainerFlag& f) {
    std::vector<KeyRefusal> none;
    static const TrainerArguments defaults = read_trainer_flags({}, none);
    return defaults.values.find(f.name)->second;
  }

  const TrainerArguments& a_;
  const DeepSpeedConfig* c_;
  const TrainerFacts& facts_;
  TrainerOutcome& out_;
  bool misread_ = false;
  int64_t steps_ = 0;
  std::map<std::string, std::string> inert_;
};

}  // namespace

void TrainerOutcome::set(const std::string& option, Json value, const std::string& from) {
  std::erase_if(choices, [&](const Choice& c) { return c.option == option; });
  choices.push_back({option, std::move(value), from});
}

namespace {

// Checkpoints of a run are the Trainer's, with a DeepSpeed config also DeepSpeed's, where these files can hold them.
void choose_files(const TrainerFacts& facts, bool deepspeed, TrainerOutcome& out) {
  std::string type = "adamw";
  for (const TrainerOutcome::Choice& c : out.choices)
    if (c.option == "optimizer.type" && c.value.is_string()) type = c.value.get<std::string>();
  const bool filed = type == "adamw" || (deepspeed && (type == "adam" || type == "lion"));
  const char* whose = deepspeed ? "DeepSpeed's" : "the Trainer's";
  if (!deepspeed && facts.own_form)
    return out.notices.emplace_back("checkpoints have Ravine's own form, as those that lie in --output_dir"), void();
  // Where nobody can tell, whoever opens the model says what is wrong with it.
  if (filed && facts.ordered.value_or(true))
    return out.set("checkpoint.layout", deepspeed ? "deepspeed" : "trainer", deepspeed ? "--deepspeed" : "--output_dir");
  if (!filed)
    out.notices.push_back(fmt::format("checkpoints have Ravine's own form: {} have states of {} here, not of {}", whose,
                                      deepspeed ? "adamw, adam and lion" : "adamw", type));
  else
    out.notices.push_back(fmt::format(
        "checkpoints have Ravine's own form: the order of this family's parameters in {} files is not known", whose));
}

// --do_eval without --do_train: the loss on the validation data. What only a training reads is inert, and its options are those of
// no line.
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
    if (fate.status == KeyStatus::used && key != eval && of_training(fate.says))
      fate.status = KeyStatus::inert, fate.says = "--do_train is missing: nothing is trained";
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

Translation translate_trainer(TrainerLine line, const TrainerFacts& asked) {
  DeepSpeedConfig* config = line.config ? &*line.config : nullptr;
  const bool evaluation = only_evaluates(line.args);
  TrainerFacts facts = asked;
  if (evaluation || line.misread) facts.samples = 1;  // the length of a training is of no account
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
    t.becomes(key, fate.status, fate.says);
    t.shows(key, fate.value);
  }
  for (const KeyRefusal& r : out.refusals) t.refuse(r);
  for (const auto* notices : {&line.notices, &out.notices})
    for (const std::string& text : *notices) t.notice(text);
  return t;
}

}  // namespace ravine
