// Translates the flags of the optimizer and of the schedule.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/option.h"
#include "dialects/deepspeed_keys.h"
#include "dialects/trainer_lead.h"

namespace ravine {

// A value of --lr_scheduler_type.
struct HfSchedule {
  std::string_view name, ours;
  std::vector<std::pair<std::string_view, std::string_view>> settings;  // option in `schedule`, value
  std::vector<std::pair<std::string_view, std::string_view>> kwargs;    // lr_scheduler_kwargs, option in `schedule`
  bool warms_up = true;
  std::string_view needs = {};  // keys of lr_scheduler_kwargs, separated by blanks: one of them must be given
};

namespace {

struct HfOptimizer {
  std::string_view name, ours;   // ours: Ravine's type; "" if refused
  std::string_view effect = {};  // why it is refused, or a note
};

// The values of --optim.
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

// Keys of lr_scheduler_kwargs that may be null, separated by blanks. Keys that a schedule needs may be null, too.
constexpr std::string_view kMayBeNone = " warmup_lr_rate timescale num_stable_steps ";
// Option of a key that is a learning rate: it becomes a share of --learning_rate.
constexpr std::string_view kShareOfRate = "min_lr_ratio of --learning_rate";

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

// Returns the fault of lr_scheduler_kwargs: none of the needed keys is given, or several are.
std::string needs_text(const HfSchedule& of, int given) {
  const bool rates = of.needs != " num_decay_steps ";
  if (given > 1) return fmt::format("min_lr and min_lr_rate of {} exclude each other; write one of them", of.name);
  return fmt::format("{} does not begin without {}; write for example '{}'", of.name,
                     rates ? "min_lr or min_lr_rate" : "num_decay_steps",
                     rates ? "{\"min_lr_rate\": 0.1}" : "{\"num_decay_steps\": 100}");
}

}  // namespace

void TrainerFlagsLead::optimizer() {
  std::string_view name = a_.text("optim");
  if (a_.on("adafactor")) name = "adafactor";
  const auto* found =
      std::find_if(std::begin(kHfOptimizers), std::end(kHfOptimizers), [&](const HfOptimizer& o) { return o.name == name; });
  std::vector<std::string> names;
  for (const HfOptimizer& o : kHfOptimizers) names.emplace_back(o.name);
  if (found == std::end(kHfOptimizers))
    return refuse("optim", fmt::format("'{}' is not known; {}", name.substr(0, 80),
                                       did_you_mean(std::string(name), names, "use adamw_torch")));
  if (found->ours.empty()) return refuse("optim", fmt::format("'{}': {}; use adamw_torch", name, found->effect));
  set("optimizer.type", std::string(found->ours), "optim");
  set("optimizer.decay", "matrices", "optim");
  use("learning_rate", "optimizer.lr");
  use("weight_decay", "optimizer.weight_decay");
  const bool moments = found->ours == "adamw" || found->ours == "lion";
  if (moments) set("optimizer.betas", Json::array({a_.number("adam_beta1"), a_.number("adam_beta2")}), "adam_beta1");
  if (found->ours == "adamw") use("adam_epsilon", "optimizer.eps");
  for (const char* flag : {"adam_beta1", "adam_beta2"})
    if (!moments) mark_unused(flag, fmt::format("{} has no betas", found->name));
  if (found->ours != "adamw") mark_unused("adam_epsilon", fmt::format("{} keeps its own", found->name));
  if (found->ours == "sgd") set("optimizer.momentum", 0, "optim");
  if (found->ours == "adafactor") {
    set("optimizer.relative_step", false, "optim");
    set("optimizer.scale_parameter", false, "optim");
  }
}

void TrainerFlagsLead::schedule() {
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
    set("schedule.warmup_steps", std::max<int64_t>(0, warmup), a_.number("warmup_steps") > 0 ? "warmup_steps" : "warmup_ratio");
  } else {
    set("schedule.warmup_steps", 0, "lr_scheduler_type");
    for (const char* flag : {"warmup_steps", "warmup_ratio"}) mark_unused(flag, fmt::format("{} has no warm-up", name));
  }
  for (const auto& [option, value] : found->settings)
    set("schedule." + std::string(option), parse_json(value, "defaults"), "lr_scheduler_type");
  schedule_kwargs(*found);
}

void TrainerFlagsLead::schedule_kwargs(const HfSchedule& of) {
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
    const auto p = std::find_if(of.kwargs.begin(), of.kwargs.end(), [&, &key = key](const auto& k) { return k.first == key; });
    const std::string word = " " + key + " ";
    const bool is_needed = of.needs.find(word) != std::string_view::npos;
    if (p == of.kwargs.end()) {
      refuse("lr_scheduler_kwargs", fmt::format("{} takes no '{}'", of.name, key.substr(0, 80)));
    } else if (value.is_null() && (is_needed || kMayBeNone.find(word) != std::string_view::npos)) {
      continue;  // null is as if the key were not given
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

// Sets min_lr. Transformers divides it by the learning rate of the optimizer.
void TrainerFlagsLead::lowest_rate(const Json& value) {
  const double rate = rate_of_optimizer();
  if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > rate)
    return refuse("lr_scheduler_kwargs",
                  fmt::format("min_lr is {}; it is a number from 0 to the rate, which is {}", value.dump(), rate));
  set("schedule.min_lr_ratio", rate > 0 ? value.get<double>() / rate : 0.0, "lr_scheduler_kwargs");
}

// Returns the learning rate of the optimizer: of the DeepSpeed config, else --learning_rate.
double TrainerFlagsLead::rate_of_optimizer() const {
  if (!c_ || !c_->has_section("optimizer") || c_->value("optimizer.params.lr")) return a_.number("learning_rate");
  for (const DeepSpeedClass& k : deepspeed_optimizers())
    for (const auto& [option, value] : k.settings)
      if (option == "lr" && same_word(k.name, c_->text("optimizer.type", "")))
        return parse_json(value, "defaults").get<double>();
  return a_.number("learning_rate");
}

}  // namespace ravine
