// The rules between options (config.h, validate).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "config/asked.h"
#include "config/config.h"
#include "config/optimizer_types.h"
#include "config/step_ranges.h"
#include "config/takes.h"

namespace ravine {
namespace {

// All violated rules, each with the place where a key was set.
class Conflicts {
 public:
  void operator()(const Config& config, const std::string& what, const std::string& key, const std::string& rule,
                  const std::string& fix) {
    const auto found = config.sources.find(key);
    found_.push_back({what, found == config.sources.end() ? "default" : found->second, rule, fix});
  }
  void refuse() const {
    if (found_.empty()) return;
    if (found_.size() == 1) throw UserError(found_[0].what, found_[0].where, found_[0].rule, found_[0].fix);
    std::vector<std::string> places, texts;
    for (const Conflict& f : found_) {
      if (std::find(places.begin(), places.end(), f.where) == places.end()) places.push_back(f.where);
      texts.push_back(fmt::format("{}: {}, {}", f.what, f.rule, f.fix));
    }
    throw UserError(fmt::format("{} conflicts", found_.size()), fmt::format("{}", fmt::join(places, ", ")),
                    fmt::format("{}", fmt::join(texts, "; ")), "correct them all");
  }

 private:
  struct Conflict {
    std::string what, where, rule, fix;
  };
  std::vector<Conflict> found_;
};

// Returns the first of these keys that was set; the first key if none was.
std::string given_of(const Config& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (config.sources.contains(key)) return key;
  return *keys.begin();
}

// Checks sizes that determine the memory of a step and the length of the plan.
void check_sizes(const Config& c, Conflicts& conflict) {
  const int64_t micros = c.train.global_batch / c.train.micro_batch;
  if (c.train.global_batch % c.train.micro_batch != 0)
    conflict(c, fmt::format("train.global_batch is {}", c.train.global_batch),
             given_of(c, {"train.global_batch", "train.micro_batch"}),
             fmt::format("must be a multiple of train.micro_batch, {}", c.train.micro_batch),
             fmt::format("use {} or another multiple", (micros + 1) * c.train.micro_batch));
  if (static_cast<double>(micros) > kMostMicroBatches)
    conflict(c, fmt::format("train.global_batch is {}, train.micro_batch {}", c.train.global_batch, c.train.micro_batch),
             given_of(c, {"train.global_batch", "train.micro_batch"}),
             fmt::format("a step has at most {} micro batches", kMostMicroBatches),
             "raise train.micro_batch or lower train.global_batch");
  if (static_cast<double>(c.train.micro_batch) * static_cast<double>(c.data.sequence_length) > kMostTokens)
    conflict(c, fmt::format("train.micro_batch is {}, data.sequence_length {}", c.train.micro_batch, c.data.sequence_length),
             given_of(c, {"train.micro_batch", "data.sequence_length"}),
             fmt::format("a micro batch has at most {} tokens", kMostTokens),
             fmt::format("train.micro_batch={} is the most for this length",
                         static_cast<int64_t>(kMostTokens) / c.data.sequence_length));
  const ParallelOptions& p = c.parallel;
  if (static_cast<double>(std::max<int64_t>(1, p.data)) * static_cast<double>(p.tensor) * static_cast<double>(p.pipeline) >
      kMostRanks)
    conflict(c, fmt::format("parallel.data={} parallel.tensor={} parallel.pipeline={}", p.data, p.tensor, p.pipeline),
             given_of(c, {"parallel.data", "parallel.tensor", "parallel.pipeline"}),
             fmt::format("their product is the number of ranks, at most {}", kMostRanks), "lower one of them");
}

using Asked = std::set<std::string>;

void check_experts(const Config& c, Conflicts& conflict) {
  const MoeOptions& m = c.moe;
  if (m.drop == Drop::none && m.capacity_factor > 0)
    conflict(c, fmt::format("moe.capacity_factor is {}, moe.drop none", m.capacity_factor),
             given_of(c, {"moe.capacity_factor", "moe.drop"}), "a capacity is kept by leaving choices out",
             "set moe.drop=position, rank or probs, or remove moe.capacity_factor");
  if (m.drop != Drop::none && m.capacity_factor == 0)
    conflict(c, fmt::format("moe.drop is {}, moe.capacity_factor 0", name(m.drop)),
             given_of(c, {"moe.drop", "moe.capacity_factor"}), "choices are left out beyond a capacity",
             "set moe.capacity_factor, for example 1.25, or remove moe.drop");
  if (m.pad_to_capacity && m.drop == Drop::none)
    conflict(c, "moe.pad_to_capacity is true, moe.drop none", "moe.pad_to_capacity", "there is no capacity to pad to",
             "set moe.capacity_factor and moe.drop, or remove it");
  if (m.load_balance == LoadBalance::bias && c.lora.rank > 0)
    conflict(c, fmt::format("moe.load_balance is bias, lora.rank {}", c.lora.rank),
             given_of(c, {"moe.load_balance", "lora.rank"}), "files of an adapter have no place for corrections of routers",
             "set moe.load_balance=none, or train the model itself");
}

void check_dumps(const Config& c, Conflicts& conflict) {
  std::set<std::string> folders;
  for (const DumpOption& d : c.probe.dump) {
    if (!StepRanges::parse(d.steps))
      conflict(c, fmt::format("probe.dump: steps is '{}'", d.steps), "probe.dump",
               "steps are numbers and ranges between bars, each range upwards", "write it like '1|5-8|100-120'");
    if (!folders.insert(d.dir).second)
      conflict(c, fmt::format("probe.dump: dir {} stands twice", d.dir), "probe.dump", "each dump has a folder of its own",
               "give them different folders");
  }
}

// Returns the option that has the effect of `key` under this schedule type.
std::string schedule_instead(ScheduleType type, const std::string& key) {
  auto first = [&](std::initializer_list<const char*> keys) {
    for (const char* k : keys)
      if (takes_setting(type, k)) return fmt::format("write schedule.{}", k);
    return std::string();
  };
  if (key == "warmup_ratio") {
    const std::string steps = first({"warmup_steps", "warmup_num_steps"});
    return steps.empty() ? "" : steps + ", a number of steps";
  }
  if (key == "warmup_steps") return first({"warmup_num_steps"});
  if (key == "warmup_num_steps") return first({"warmup_steps"});
  if (key == "total_steps" || key == "total_num_steps") return first({"total_num_steps", "total_steps", "steps"});
  if (key == "end_lr" || key == "lr_end" || key == "eta_min") return first({"end_lr", "lr_end", "eta_min", "min_lr_ratio"});
  if (key == "min_lr_ratio") return first({"cos_min_ratio", "end_lr", "lr_end", "eta_min"});
  return "";
}

// Adds a conflict for an option that belongs to another value of its selector (config/takes.h).
void refuse_in_vain(const Config& c, const std::string& option, Conflicts& conflict) {
  const Taken& t = *taken_by(option);
  Config copy = c;
  std::map<std::string, std::string> values;
  for (const Section& section : sections_of(copy))
    for (const Option& o : section.options)
      if (o.name() == option || o.name() == t.selector) values[o.name()] = o.yaml();
  const std::string& chosen = values[t.selector];
  const std::string other = t.selector == "schedule.type" ? schedule_instead(c.schedule.type, option.substr(9))
                            : option == "data.split"
                                ? "set data.valid_fraction (0.1 holds out a tenth) or data.valid, or data.order=megatron"
                                : "";
  conflict(c, fmt::format("{} is {}, {} {}", option, values[option], t.selector, chosen), option,
           fmt::format("{} has no such setting, {} ha{}", chosen, fmt::join(t.values, ", "), t.values.size() == 1 ? "s" : "ve"),
           other.empty() ? fmt::format("remove it, or set {}={}", t.selector, t.values.front()) : other);
}

// Checks that a length is set once, by one option.
void check_lengths(const Config& c, const Asked& asked, Conflicts& conflict) {
  if (c.train.epochs > 0 && asked.contains("train.steps"))
    conflict(c, fmt::format("train.epochs is {}, train.steps {}", c.train.epochs, c.train.steps), "train.epochs",
             "each says how long the run is", "remove one of them");
  if (c.train.epochs > 0 && (c.data.order == SampleOrder::megatron || c.data.order == SampleOrder::megatron_2023))
    conflict(c, fmt::format("train.epochs is {}, data.order {}", c.train.epochs, name(c.data.order)), "train.epochs",
             "Megatron's order is made for a number of steps",
             "write train.steps (`ravine data show` says how many a pass takes)");
  if (c.schedule.classes.warmup_ratio && asked.contains("schedule.warmup_ratio") && asked.contains("schedule.warmup_steps") &&
      makes_steps_of_ratio(c.schedule.type))
    conflict(c,
             fmt::format("schedule.warmup_ratio is {}, schedule.warmup_steps {}", *c.schedule.classes.warmup_ratio,
                         c.schedule.warmup_steps),
             "schedule.warmup_ratio", "each says how long the warm-up is", "remove one of them");
}

void check_preferences(const Config& c, Conflicts& conflict) {
  if (c.train.objective != TrainObjective::dpo) return;
  if (c.dpo.loss != PreferenceLossType::sigmoid && c.dpo.label_smoothing != 0)
    conflict(c, fmt::format("dpo.label_smoothing is {}, dpo.loss {}", c.dpo.label_smoothing, name(c.dpo.loss)),
             given_of(c, {"dpo.label_smoothing", "dpo.loss"}), "only sigmoid has label smoothing",
             "remove dpo.label_smoothing, or set dpo.loss=sigmoid");
  if (c.data.loss_on != LossOn::answers)
    conflict(c, fmt::format("data.loss_on is {}, train.objective dpo", name(c.data.loss_on)),
             given_of(c, {"data.loss_on", "train.objective"}), "of a pair the two answers are compared", "remove data.loss_on");
  if (c.data.order != SampleOrder::philox)
    conflict(c, fmt::format("data.order is {}, train.objective dpo", name(c.data.order)),
             given_of(c, {"data.order", "train.objective"}), "orders of Megatron are of token files, which hold no pairs",
             "remove data.order");
  if (c.data.format != RecordFormat::automatic)
    conflict(c, fmt::format("data.format is {}, train.objective dpo", name(c.data.format)),
             given_of(c, {"data.format", "train.objective"}), "records of pairs have one form: prompt, chosen, rejected",
             "remove data.format");
}

// True for signals that a process cannot handle, or that the system or a library sends.
bool is_reserved_signal(int64_t number) {
  static constexpr int kReserved[] = {SIGILL,  SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV,
                                      SIGPIPE, SIGCHLD, SIGSTOP, SIGSYS, 32,     33};
  return std::find(std::begin(kReserved), std::end(kReserved), number) != std::end(kReserved);
}

void check_guards(const Config& c, Conflicts& conflict) {
  if (is_reserved_signal(c.train.stop_signal))
    conflict(c, fmt::format("train.stop_signal is {}", c.train.stop_signal), "train.stop_signal",
             "a run cannot wait for a signal that the system sends, or that ends a process in any case",
             "write 12, which is SIGUSR2");
  if (c.precision.scale_window_max <= c.precision.scale_window_min)
    conflict(c,
             fmt::format("precision.scale_window_max is {}, precision.scale_window_min {}", c.precision.scale_window_max,
                         c.precision.scale_window_min),
             given_of(c, {"precision.scale_window_max", "precision.scale_window_min"}), "the first is larger than the second",
             "correct one of them");
  if (c.health.stop_norm > 0 && c.health.skip_norm > 0)
    conflict(c, fmt::format("health.stop_norm is {}, health.skip_norm {}", c.health.stop_norm, c.health.skip_norm),
             given_of(c, {"health.stop_norm", "health.skip_norm"}),
             "a step whose norm is too large ends the run, or is skipped", "remove one of them");
  if (!c.model.weights.empty() && c.model.config.empty())
    conflict(c, "model.weights without model.config", "model.weights", "files of weights do not say the shape of their model",
             "set model.config, or model.path to a folder of Hugging Face");
}

// Checks the options of optimizer.type, and the rules between them.
void check_type(const Config& c, const Asked& asked, Conflicts& conflict) {
  const OptimizerOptions& o = c.optimizer;
  const OptimizerTraits& type = traits_of(o.type);
  const std::string_view name_of_type = name(o.type);
  if (o.nesterov && type.is_taken("nesterov") && (o.momentum == 0 || o.dampening != 0))
    conflict(c, "optimizer.nesterov is true", "optimizer.nesterov", "needs a momentum above 0 and a dampening of 0",
             "set optimizer.momentum=0.9 optimizer.dampening=0, or remove nesterov");
  if (type.is_taken("eps") && o.eps.size() != type.eps)
    conflict(c, fmt::format("optimizer.eps has {} number{}", o.eps.size(), o.eps.size() == 1 ? "" : "s"), "optimizer.eps",
             fmt::format("{} takes {}", name_of_type, type.eps),
             fmt::format("write optimizer.eps={}, or leave it out", type.default_of("eps", "1e-8")));
  for (double eps : type.is_taken("eps") ? o.eps : std::vector<double>())
    if (eps < (type.eps == 1 ? 1e-20 : 1e-37))
      conflict(c, fmt::format("optimizer.eps is '{}'", eps), "optimizer.eps",
               type.eps == 1
                   ? "must be at least 1e-20 and at most 1: the square of a gradient below 1e-19 is 0 in f32, and "
                     "eps alone divides it"
                   : "each must be at least 1e-37: it divides alone where gradients are 0, and smaller ones are 0 in f32",
               "give a larger value");
  if (type.is_taken("relative_step") && o.relative_step && asked.contains("optimizer.lr"))
    conflict(c, fmt::format("optimizer.lr is {}, optimizer.relative_step true", o.lr),
             given_of(c, {"optimizer.lr", "optimizer.relative_step"}),
             "adafactor works out its own rate where relative_step is true, as it is by default",
             "remove optimizer.lr, or set optimizer.relative_step=false");
  if (o.warmup_init && !o.relative_step)
    conflict(c, "optimizer.warmup_init is true, optimizer.relative_step false", "optimizer.warmup_init",
             "it is how relative_step begins", "set optimizer.relative_step=true, or remove optimizer.warmup_init");
  if (type.is_taken("max_coeff") && o.max_coeff < o.min_coeff)
    conflict(c, fmt::format("optimizer.max_coeff is {}, optimizer.min_coeff {}", o.max_coeff, o.min_coeff),
             given_of(c, {"optimizer.max_coeff", "optimizer.min_coeff"}), "a trust ratio lies between the two",
             "set optimizer.max_coeff above optimizer.min_coeff");
  if (type.is_taken("factor_max") && o.factor_max < o.factor_min)
    conflict(c, fmt::format("optimizer.factor_max is {}, optimizer.factor_min {}", o.factor_max, o.factor_min),
             given_of(c, {"optimizer.factor_max", "optimizer.factor_min"}), "a factor lies between the two",
             "set optimizer.factor_max above optimizer.factor_min");
  const bool one_bit = type.is_taken("freeze_step") || type.is_taken("var_freeze_step");
  auto refuse_ranks = [&](const char* key, int64_t value, int64_t most, const char* rule) {
    if (value > most)
      conflict(c, fmt::format("{} is {}, optimizer.type {}", key, value, name_of_type), given_of(c, {key, "optimizer.type"}),
               rule, fmt::format("set {}={}, or another optimizer.type", key, most));
  };
  if (one_bit)
    refuse_ranks("parallel.zero", c.parallel.zero, 0,
                 "data ranks send moments in place of gradients, so each keeps all of them, as in DeepSpeed");
  if (one_bit)
    refuse_ranks("parallel.tensor", c.parallel.tensor, 1, "moments are compressed whole, and tensor ranks have parts of them");
  if (one_bit)
    refuse_ranks("parallel.expert", c.parallel.expert, 1,
                 "data ranks send moments of all parameters to each other, and expert ranks have some of the experts");
  for (size_t i = 0; one_bit && i < o.groups.size(); ++i)
    if (o.groups[i].from_step > 1)
      conflict(c,
               fmt::format("optimizer.groups[{}].from_step is {}, optimizer.type {}", i, o.groups[i].from_step, name_of_type),
               given_of(c, {"optimizer.groups", "optimizer.type"}), "its steps of compression are those of all parameters",
               "remove from_step, or take another optimizer.type");
  if (o.type == OptimizerType::onebit_lamb)
    refuse_ranks("parallel.pipeline", c.parallel.pipeline, 1,
                 "moments of all layers are brought to one size and sent together");
  if (o.type == OptimizerType::came && o.beta1 == 0)
    conflict(c, "optimizer.beta1 is 0", "optimizer.beta1", "came moves weights along the first moment, and needs one",
             "set optimizer.beta1=0.9");
}

// Checks the rules of the schedules of other programs.
void check_class_schedule(const Config& c, Conflicts& conflict) {
  using enum ScheduleType;
  const ScheduleOptions& s = c.schedule;
  const ScheduleClasses& x = s.classes;
  auto refuse = [&](const std::string& what, const char* key, const std::string& rule, const std::string& fix) {
    conflict(c, what, given_of(c, {key, "schedule.type"}), rule, fix);
  };
  auto need = [&](bool given, const char* key, const char* words, const std::string& example) {
    if (!given)
      refuse(fmt::format("schedule.type is {}, {} not given", name(s.type), key), key, words,
             fmt::format("set {}, for example {}", key, example));
  };
  if (s.warmup_type == RateShape::log && s.type == warmup_stable_decay)
    refuse("schedule.warmup_type is log", "schedule.warmup_type", "only WarmupLR, WarmupDecayLR and WarmupCosineLR rise so",
           "choose linear, cosine or 1-sqrt");
  if ((s.type == WarmupLR || s.type == WarmupDecayLR || s.type == WarmupCosineLR) && s.warmup_type &&
      *s.warmup_type != RateShape::log && *s.warmup_type != RateShape::linear)
    refuse(fmt::format("schedule.warmup_type is {}", name(*s.warmup_type)), "schedule.warmup_type",
           fmt::format("the warm-up of {} is log or linear", name(s.type)), "choose one of these");
  if (s.type == OneCycle) {
    const std::string cycle =
        fmt::format("schedule.cycle_min_lr={} schedule.cycle_max_lr={}", c.optimizer.lr / 10, c.optimizer.lr);
    need(x.cycle_min_lr.has_value(), "schedule.cycle_min_lr", "the cycle begins and ends at it", cycle);
    need(x.cycle_max_lr.has_value(), "schedule.cycle_max_lr", "the cycle rises to it", cycle);
    if (x.cycle_min_lr && x.cycle_max_lr && *x.cycle_min_lr > *x.cycle_max_lr)
      refuse(fmt::format("schedule.cycle_min_lr is {}, schedule.cycle_max_lr {}", *x.cycle_min_lr, *x.cycle_max_lr),
             "schedule.cycle_min_lr", "the cycle rises from one to the other", "lower schedule.cycle_min_lr");
  }
  if (s.type == OptimizerParamScheduler) {
    const double length = x.lr_decay_steps > 0 ? x.lr_decay_steps : static_cast<double>(s.steps > 0 ? s.steps : c.train.steps);
    if (x.min_lr > c.optimizer.lr)
      refuse(fmt::format("schedule.min_lr is {}, optimizer.lr {}", x.min_lr, c.optimizer.lr), "schedule.min_lr",
             "the rate falls from one to the other", "lower schedule.min_lr");
    if (x.lr_warmup_steps > length)
      refuse(fmt::format("schedule.lr_warmup_steps is {}, the schedule {} steps long", x.lr_warmup_steps, length),
             "schedule.lr_warmup_steps", "the warm-up ends before the decay does", "warm up in fewer steps");
    if (x.lr_decay_style == DecayStyle::inverse_square_root)
      need(x.lr_warmup_steps > 0, "schedule.lr_warmup_steps", "the root is taken of steps over the warm-up's", "100");
  }
  if (s.type == CosineAnnealingLR)
    need(x.t_max > 0, "schedule.t_max", "half a wave is so many steps long", fmt::format("schedule.t_max={}", c.train.steps));
  if (s.type == CosineAnnealingWarmRestarts)
    need(x.t_0 > 0, "schedule.t_0", "the first wave is so many steps long", fmt::format("schedule.t_0={}", c.train.steps));
  if (s.type == WarmUpStableDecayLR)
    need(x.decay_start_ratio || x.decay_start_steps >= 0, "schedule.decay_start_steps", "the decay begins at this step",
         "schedule.decay_start_ratio=0.8");
  if (s.type == PolynomialWithWarmUpLR || s.type == WarmUpStableDecayLR) {
    const double end = x.lr_end.value_or(1e-7);
    if (end >= c.optimizer.lr)
      refuse(fmt::format("schedule.lr_end is {}, optimizer.lr {}", end, c.optimizer.lr), "schedule.lr_end",
             fmt::format("{} falls from optimizer.lr to schedule.lr_end", name(s.type)), "lower schedule.lr_end");
  }
  if (s.type == WarmUpStableDecayLR) {
    const int64_t length = x.total_steps > 0 ? x.total_steps : s.steps > 0 ? s.steps : c.train.steps;
    const double begin = x.decay_start_ratio ? std::floor(static_cast<double>(length) * *x.decay_start_ratio)
                                             : static_cast<double>(x.decay_start_steps);
    const std::string key = x.decay_start_ratio ? "schedule.decay_start_ratio" : "schedule.decay_start_steps";
    if (begin >= static_cast<double>(length))
      refuse(fmt::format("by {} the decay begins at step {} of {}", key, begin, length), key.c_str(),
             "WarmUpStableDecayLR decays between there and its end", "lower it");
  }
}

void check_update(const Config& c, const Asked& asked, Conflicts& conflict) {
  const OptimizerOptions& o = c.optimizer;
  check_type(c, asked, conflict);
  check_class_schedule(c, conflict);
  // The last element stands for the parameters that no group matches.
  std::vector<ParamGroup> groups = o.groups;
  groups.push_back({});
  for (size_t i = 0; i < groups.size(); ++i) {
    const double rate = o.lr * groups[i].lr_mult, decay = rate * o.weight_decay * groups[i].wd_mult;
    const std::string of = i < o.groups.size() ? fmt::format(" times the factors of optimizer.groups[{}]", i) : "";
    const char* group = i < o.groups.size() ? "optimizer.groups" : "optimizer.lr";
    const bool free = c.health.stop_not_finite;  // a run with overflows then ends by that rule
    if (rate > kMostRate && !free)
      conflict(c, fmt::format("optimizer.lr={}{} is {}", o.lr, of, rate), given_of(c, {group, "optimizer.lr"}),
               fmt::format("a rate is at most {}", kMostRate), "lower one of them");
    else if (decay > 1 && !traits_of(o.type).decay_scaled && !free)
      conflict(c, fmt::format("optimizer.lr={} times optimizer.weight_decay={}{} is {}", o.lr, o.weight_decay, of, decay),
               given_of(c, {"optimizer.weight_decay", group, "optimizer.lr"}),
               "a step takes away this share of each weight, at most 1", "lower one of them");
  }
  if (c.schedule.type == ScheduleType::polynomial && c.schedule.end_lr >= o.lr)
    conflict(c, fmt::format("schedule.end_lr is {}, optimizer.lr {}", c.schedule.end_lr, o.lr),
             given_of(c, {"schedule.end_lr", "optimizer.lr", "schedule.type"}),
             "a polynomial schedule falls from optimizer.lr to schedule.end_lr", "lower schedule.end_lr");
  const ScheduleOptions& s = c.schedule;
  if (!follows_validation(s)) return;
  if (c.train.valid_every == 0)
    conflict(c, fmt::format("schedule.type is {}, train.valid_every 0", name(s.type)),
             given_of(c, {"schedule.type", "train.valid_every"}), "the rate follows the validation loss",
             "set train.valid_every, and data.valid or data.valid_fraction");
  if (s.type == ScheduleType::greedy &&
      (o.lr < lowest_lr(s) || o.lr > s.highest_lr))  // the original code would never change such a learning rate
    conflict(c,
             fmt::format("optimizer.lr is {}, schedule.lowest_lr {}, schedule.highest_lr {}", o.lr, lowest_lr(s), s.highest_lr),
             given_of(c, {"schedule.lowest_lr", "schedule.highest_lr", "optimizer.lr", "schedule.type"}),
             "the rate moves between the two", "set schedule.lowest_lr and schedule.highest_lr around optimizer.lr");
}

// True for "969,30,1" or "98/1/1": at most three numbers, one of them above 0. Megatron extracts numbers from any text;
// this function allows separators only.
bool is_split(const std::string& text) {
  int numbers = 0;
  bool above = false;
  for (size_t at = 0; (at = text.find_first_not_of(" ,/", at)) != std::string::npos;) {
    double x = 0;
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), x, std::chars_format::fixed);
    if (error != std::errc() || !(x >= 0 && x <= 1e15)) return false;
    at = static_cast<size_t>(end - text.data());
    if (at < text.size() && std::string_view(" ,/").find(text[at]) == std::string_view::npos) return false;
    above |= x > 0;
    ++numbers;
  }
  return numbers <= 3 && above;
}

}  // namespace

void validate(const Config& c) {
  const Asked asked = asked_options(c);
  Conflicts conflict;
  if (!c.model.path.empty() && !c.model.config.empty())
    conflict(c, "model.path and model.config are both given", "model.config", "a model comes from one of them", "remove one");
  check_experts(c, conflict);
  check_dumps(c, conflict);
  if (c.data.valid_fraction > 0 && !c.data.valid.empty())
    conflict(c, "data.valid and data.valid_fraction are both given", "data.valid_fraction",
             "validation data come from one of them", "remove one");
  if (!is_split(c.data.split))
    conflict(c, fmt::format("data.split is '{}'", c.data.split.substr(0, 80)), "data.split",
             "must be one to three numbers between commas, one of them above 0", "write for example 969,30,1");
  if (c.parallel.split == StageSplit::cost && !c.parallel.stage_layers.empty())
    conflict(c, "parallel.split and parallel.stage_layers are both given", "parallel.stage_layers",
             "layers are shared by one of them", "remove one");
  for (size_t i = 0; i < c.precision.recipes.size(); ++i)
    if (!c.precision.recipes[i].compute && !c.precision.recipes[i].round)
      conflict(c, fmt::format("precision.recipes[{}] changes nothing", i), "precision.recipes",
               "an exception names the arithmetic or a rounding", "set its compute or round, or remove it");
  if (asked.contains("precision.scale_min") && c.precision.scale_min > c.precision.scale_initial)
    conflict(
        c,
        fmt::format("precision.scale_min is {}, precision.scale_initial {}", c.precision.scale_min, c.precision.scale_initial),
        "precision.scale_min", "the loss scale falls from one to the other",
        fmt::format("set precision.scale_min to {} or less", c.precision.scale_initial));
  check_guards(c, conflict);
  if (c.train.recompute == Recompute::automatic && c.train.memory_mb == 0)
    conflict(c, "train.recompute is auto, train.memory_mb 0", "train.recompute", "auto keeps within a memory",
             "set train.memory_mb=MB too");
  if (c.offload.asks_for_disk() && c.offload.path.empty())
    conflict(c, "offload.path is empty", given_of(c, {"offload.optimizer", "offload.params"}), "disk is a folder on a disk",
             "set offload.path=DIR");
  if (c.health.skip_count > 0 && c.health.skip_norm == 0)
    conflict(c, fmt::format("health.skip_count is {}", c.health.skip_count), "health.skip_count",
             "it counts the steps that health.skip_norm skips", "set health.skip_norm too, or leave it out");
  check_sizes(c, conflict);
  check_preferences(c, conflict);
  check_lengths(c, asked, conflict);
  for (const std::string& option : asked_in_vain(c, false)) refuse_in_vain(c, option, conflict);
  check_update(c, asked, conflict);
  conflict.refuse();
}

}  // namespace ravine
