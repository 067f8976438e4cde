#include "config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/look_alike.h"
#include "config/optimizer_types.h"
#include "config/other_names.h"
#include "config/schedule_takes.h"
#include "config/yaml_slips.h"

namespace ravine {
namespace {

std::string place(const YamlNode& node, const std::string& source) {
  return node.line > 0 ? fmt::format("{}:{}", source, node.line) : source;
}

std::string short_name(const std::string& text) { return text.size() > 80 ? text.substr(0, 80) + "..." : text; }

class Loader {
 public:
  explicit Loader(Config& config) : config_(config), sections_(sections_of(config)) {}

  void document(const YamlNode& root, const std::string& source) {
    if (root.kind == YamlNode::Kind::null) return;
    if (root.kind != YamlNode::Kind::map) {
      const LookAlikeLine slip = root.kind == YamlNode::Kind::text ? find_look_alike_line(root.text) : LookAlikeLine{};
      throw UserError(
          "not a config", place(root, source), slip.number > 0 ? slip.what : "a config is a map of sections",
          slip.number > 0 ? "write with plain characters: " + slip.meant : "write sections like train: {steps: 1000}");
    }
    for (const auto& [name, value] : root.fields)
      if (name == "model_type" || name == "architectures")
        throw UserError(
            "a model's config.json", place(*value, source), "--config takes options of a run",
            fmt::format("write model.config={} for a new model of this shape, or model.path=FOLDER for its weights", source));
    refuse_names_of_others(root, source);
    for (const auto& [name, value] : root.fields) {
      const Section& section = find_section(name, place(*value, source), value.get());
      if (value->kind == YamlNode::Kind::null) continue;
      if (value->kind != YamlNode::Kind::map) refuse_section(section, *value, place(*value, source));
      for (const auto& [key, item] : value->fields) {
        const Option& option = find_option(section, key, place(*item, source), item.get());
        option.assign(*item, source);
        config_.sources[option.name()] = place(*item, source);
      }
    }
  }

  void setting(const Setting& s) {
    size_t dot = s.key.find('.');
    if (dot == std::string::npos) {
      const Section& section = find_section(s.key, s.source);
      throw UserError(fmt::format("'{}' is a section", s.key), s.source, "values are given to section.key",
                      fmt::format("write {}.{}=..", s.key, section.options.front().key));
    }
    const Section& section = find_section(s.key.substr(0, dot), s.source);
    const Option& option = find_option(section, s.key.substr(dot + 1), s.source);
    if (s.literal)
      option.assign_text(s.value, s.source);
    else
      option.assign(*load_yaml(s.value, fmt::format("{}, {}", s.source, option.name()), false), s.source);
    config_.sources[option.name()] = s.source;
  }

 private:
  // Files of other programs are flat: all that stands there under another name is named at once.
  void refuse_names_of_others(const YamlNode& root, const std::string& source) const {
    std::vector<std::string> found;
    const YamlNode* first = nullptr;
    std::string name;
    for (const auto& [key, value] : root.fields) {
      if (std::any_of(sections_.begin(), sections_.end(), [&key = key](const Section& s) { return s.name == key; })) continue;
      const std::string advice = advice_on(key, value.get());
      if (advice.empty()) continue;
      if (!first) first = value.get(), name = key;
      found.push_back(fmt::format("{}: {}", short_name(key), advice));
    }
    constexpr size_t kShown = 24;
    if (found.size() < 2) return;
    const size_t all = found.size();
    found.resize(std::min(all, kShown));
    throw UserError(fmt::format("unknown section '{}'", short_name(name)), place(*first, source),
                    fmt::format("{} names of this file are another program's, options stand in sections here", all),
                    fmt::format("{}", fmt::join(found, "; ")));
  }

  [[noreturn]] static void refuse_section(const Section& section, const YamlNode& value, const std::string& where) {
    std::string rule = "a section is a map of options",
                fix = fmt::format("write {}: {{{}: ..}}", section.name, section.options.front().key);
    auto refuse = [&] { throw UserError(fmt::format("section '{}' holds no keys", section.name), where, rule, fix); };
    if (value.kind == YamlNode::Kind::list) {
      rule = "a section is a map of options, not a list";
      const YamlNode* item = value.items.empty() ? nullptr : value.items.front().get();
      if (item && item->kind == YamlNode::Kind::map && !item->fields.empty())
        fix = fmt::format("leave out the '-' before {}:", item->fields.front().first);
      refuse();
    }
    const auto [key, given] = key_and_value(value.text);
    if (key.empty()) refuse();
    const std::string strange = look_alike(value.text);
    rule = !strange.empty() ? strange : "a colon and a blank stand between a key and its value";
    fix = fmt::format("write {}: {}", key, given);
    refuse();
    fail("config: unreachable");
  }

  // The words that say it in a file: "here it is model.path=x" becomes "here it is model.path: write model: {path: x}".
  static std::string in_file(const std::string& advice) {
    static constexpr std::string_view kHere = "here it is ";
    if (!advice.starts_with(kHere)) return advice;
    std::string rest = advice.substr(kHere.size()), value = "VALUE";
    std::string name = rest.substr(0, rest.find_first_of(" =,"));
    const size_t dot = name.find('.');
    if (dot == std::string::npos) return advice;
    if (rest.size() > name.size() && rest[name.size()] == '=') {
      value = rest.substr(name.size() + 1);
      if (!value.starts_with('\'') && resolve_scalar(value).kind == YamlNode::Kind::text) value = yaml_text(value);
      rest = name;
    }
    return fmt::format("here it is {}: write {}: {{{}: {}}}", rest, name.substr(0, dot), name.substr(dot + 1), value);
  }

  // `value` as a file gives it; null: the name stands on the command line.
  const Section& find_section(const std::string& name, const std::string& where, const YamlNode* value = nullptr) const {
    std::vector<std::string> names;
    for (const Section& s : sections_) {
      if (s.name == name) return s;
      names.push_back(s.name);
    }
    if (const size_t dot = name.find('.');
        dot != std::string::npos && std::find(names.begin(), names.end(), name.substr(0, dot)) != names.end())
      throw UserError(fmt::format("'{}' as a section", short_name(name)), where,
                      "section.key is the spelling of the command line, a file holds sections",
                      fmt::format("write {}: {{{}: VALUE}}", name.substr(0, dot), short_name(name.substr(dot + 1))));
    if (const std::string strange = look_alike(name); !strange.empty())
      throw UserError(fmt::format("unknown section '{}'", short_name(name)), where, strange,
                      fmt::format("write it with plain characters: {}", with_plain_characters(name)));
    std::string advice = advice_on(name, value);
    if (std::string whole = with_key(name); !whole.empty() && advice.empty())
      throw UserError(fmt::format("unknown section '{}'", name), where, "options stand in sections",
                      value ? fmt::format("did you mean {}: {{{}: ..}}?", whole.substr(0, whole.find('.')), name)
                            : fmt::format("did you mean '{}'?", whole));
    throw UserError(fmt::format("unknown section '{}'", short_name(name)), where,
                    fmt::format("sections are {}", fmt::join(names, ", ")),
                    advice.empty() ? did_you_mean(name, names, "use one of them") : advice);
  }

  const Option& find_option(const Section& section, const std::string& key, const std::string& where,
                            const YamlNode* value = nullptr) const {
    std::vector<std::string> keys, names;
    for (const Option& o : section.options) {
      if (o.key == key) return o;
      keys.push_back(o.key);
      names.push_back(o.name());
    }
    if (const std::string strange = look_alike(key); !strange.empty())
      throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where, strange,
                      fmt::format("write it with plain characters: {}", with_plain_characters(key)));
    if (const auto [word, given] = key_and_value(key);
        value && !word.empty() && std::find(keys.begin(), keys.end(), word) != keys.end())
      throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where,
                      "a colon and a blank stand between a key and its value", fmt::format("write {}: {}", word, given));
    std::string fix = did_you_mean(section.name + "." + key, names, fmt::format("its keys are {}", fmt::join(keys, ", ")));
    std::string elsewhere = with_key(key);
    if (!elsewhere.empty()) fix = fmt::format("did you mean '{}'?", elsewhere);
    if (std::string advice = advice_on(key, value); !advice.empty() && elsewhere.empty()) fix = advice;
    if (std::string advice = advice_on(section.name + "." + key, value); !advice.empty()) fix = advice;
    throw UserError(fmt::format("unknown key '{}.{}'", section.name, short_name(key)), where,
                    fmt::format("section {} has no such key", section.name), fix);
  }

  std::string advice_on(const std::string& word, const YamlNode* value) const {
    const std::string advice = other_name_advice(
        word,
        [this](const std::string& name) {
          return std::any_of(sections_.begin(), sections_.end(), [&](const Section& s) {
            return std::any_of(s.options.begin(), s.options.end(), [&](const Option& o) { return o.name() == name; });
          });
        },
        value && value->scalar() ? value->text : "");
    return value ? in_file(advice) : advice;
  }

  std::string with_key(const std::string& key) const {  // the first option of any section with this key
    for (const Section& s : sections_)
      for (const Option& o : s.options)
        if (o.key == key) return o.name();
    return "";
  }

  Config& config_;
  std::vector<Section> sections_;
};

[[noreturn]] void conflict(const Config& config, const std::string& what, const std::string& key, const std::string& rule,
                           const std::string& fix) {
  auto found = config.sources.find(key);
  throw UserError(what, found == config.sources.end() ? "default" : found->second, rule, fix);
}

// Where the first of these keys was given; the first, if none was.
std::string given_of(const Config& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (config.sources.contains(key)) return key;
  return *keys.begin();
}

// What a step keeps in memory and the plan walks through.
void check_sizes(const Config& c) {
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

void check_preferences(const Config& c) {
  Config copy = c, table;
  const std::vector<Option> given = options_of(copy.dpo, "dpo"), plain = options_of(table.dpo, "dpo");
  for (size_t i = 0; i < given.size() && c.train.objective != TrainObjective::dpo; ++i)
    if (given[i].yaml() != plain[i].yaml())
      conflict(c, fmt::format("{} is {}, train.objective {}", given[i].name(), given[i].yaml(), name(c.train.objective)),
               given[i].name(), "it says how preferences are learned", "set train.objective=dpo, or remove it");
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

// What optimizer.type takes, and rules between its settings.
void check_type(const Config& c) {
  Config copy = c, table;
  const OptimizerOptions& o = c.optimizer;
  const OptimizerTraits& type = traits_of(o.type);
  const std::string_view name_of_type = name(o.type);
  const std::vector<Option> given = options_of(copy.optimizer, "optimizer"), plain = options_of(table.optimizer, "optimizer");
  for (size_t i = 0; i < given.size(); ++i) {
    if (type.is_taken(given[i].key) || !c.sources.contains(given[i].name()) || given[i].yaml() == plain[i].yaml()) continue;
    std::vector<std::string> others;
    for (const OptimizerTraits& t : optimizer_traits())
      if (t.is_taken(given[i].key)) others.emplace_back(name(t.type));
    conflict(
        c, fmt::format("{} is {}, optimizer.type {}", given[i].name(), given[i].yaml(), name_of_type), given[i].name(),
        fmt::format("{} has no such setting, {} ha{}", name_of_type, fmt::join(others, ", "), others.size() == 1 ? "s" : "ve"),
        fmt::format("remove it, or set optimizer.type={}", others.front()));
  }
  if (o.nesterov && type.is_taken("nesterov") && (o.momentum == 0 || o.dampening != 0))
    conflict(c, "optimizer.nesterov is true", "optimizer.nesterov", "needs a momentum above 0 and a dampening of 0",
             "set optimizer.momentum=0.9 optimizer.dampening=0, or remove nesterov");
  if (type.is_taken("eps") && o.eps.size() != type.eps)
    conflict(c, fmt::format("optimizer.eps has {} number{}", o.eps.size(), o.eps.size() == 1 ? "" : "s"), "optimizer.eps",
             fmt::format("{} takes {}", name_of_type, type.eps), "write as many");
  for (double eps : type.is_taken("eps") ? o.eps : std::vector<double>())
    if (eps < (type.eps == 1 ? 1e-20 : 1e-37))
      conflict(c, fmt::format("optimizer.eps is '{}'", eps), "optimizer.eps",
               type.eps == 1
                   ? "must be at least 1e-20 and at most 1: the square of a gradient below 1e-19 is 0 in f32, and "
                     "eps alone divides it"
                   : "each must be at least 1e-37: it divides alone where gradients are 0, and smaller ones are 0 in f32",
               "give a larger value");
  if (type.is_taken("relative_step") && o.relative_step && o.lr != table.optimizer.lr)
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
  if (o.type == OptimizerType::onebit_lamb)
    refuse_ranks("parallel.pipeline", c.parallel.pipeline, 1,
                 "moments of all layers are brought to one size and sent together");
  if (o.type == OptimizerType::came && o.beta1 == 0)
    conflict(c, "optimizer.beta1 is 0", "optimizer.beta1", "came moves weights along the first moment, and needs one",
             "set optimizer.beta1=0.9");
}

// What the classes of other programs need, and where they refuse.
void check_class_schedule(const Config& c) {
  using enum ScheduleType;
  const ScheduleOptions& s = c.schedule;
  const ScheduleClasses& x = s.classes;
  auto refuse = [&](const std::string& what, const char* key, const std::string& rule, const std::string& fix) {
    conflict(c, what, given_of(c, {key, "schedule.type"}), rule, fix);
  };
  auto need = [&](bool given, const char* key, const char* words) {
    if (!given)
      refuse(fmt::format("schedule.type is {}, {} not given", name(s.type), key), key, words, fmt::format("set {}", key));
  };
  Config copy = c, table;
  const std::vector<Option> given = options_of(copy.schedule, "schedule"), plain = options_of(table.schedule, "schedule");
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& key = given[i].key;
    if (!is_class_argument(key) || takes_argument(s.type, key) || given[i].yaml() == plain[i].yaml()) continue;
    std::vector<std::string> others;
    for (const auto& row : names_of(ScheduleType{}))
      if (takes_argument(row.value, key)) others.emplace_back(row.name);
    conflict(
        c, fmt::format("{} is {}, schedule.type {}", given[i].name(), given[i].yaml(), name(s.type)), given[i].name(),
        fmt::format("{} has no such setting, {} ha{}", name(s.type), fmt::join(others, ", "), others.size() == 1 ? "s" : "ve"),
        key == "warmup_ratio" ? std::string("write schedule.warmup_steps, a number of steps")
                              : fmt::format("remove it, or set schedule.type={}", others.front()));
  }
  if (s.warmup_type == RateShape::log && s.type != WarmupLR && s.type != WarmupDecayLR && s.type != WarmupCosineLR)
    refuse("schedule.warmup_type is log", "schedule.warmup_type", "only WarmupLR, WarmupDecayLR and WarmupCosineLR rise so",
           "choose linear, cosine or 1-sqrt");
  if ((s.type == WarmupLR || s.type == WarmupDecayLR || s.type == WarmupCosineLR) && s.warmup_type &&
      *s.warmup_type != RateShape::log && *s.warmup_type != RateShape::linear)
    refuse(fmt::format("schedule.warmup_type is {}", name(*s.warmup_type)), "schedule.warmup_type",
           fmt::format("the warm-up of {} is log or linear", name(s.type)), "choose one of these");
  if (s.type == OneCycle) {
    need(x.cycle_min_lr.has_value(), "schedule.cycle_min_lr", "the cycle begins and ends at it");
    need(x.cycle_max_lr.has_value(), "schedule.cycle_max_lr", "the cycle rises to it");
    if (*x.cycle_min_lr > *x.cycle_max_lr)
      refuse(fmt::format("schedule.cycle_min_lr is {}, schedule.cycle_max_lr {}", *x.cycle_min_lr, *x.cycle_max_lr),
             "schedule.cycle_min_lr", "the cycle rises from one to the other", "lower schedule.cycle_min_lr");
  }
  if (s.type == CosineAnnealingLR) need(x.t_max > 0, "schedule.t_max", "half a wave is so many steps long");
  if (s.type == CosineAnnealingWarmRestarts) need(x.t_0 > 0, "schedule.t_0", "the first wave is so many steps long");
  if (s.type == WarmUpStableDecayLR)
    need(x.decay_start_ratio || x.decay_start_steps >= 0, "schedule.decay_start_steps", "the decay begins at this step");
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

void check_update(const Config& c) {
  const OptimizerOptions& o = c.optimizer;
  check_type(c);
  check_class_schedule(c);
  // One element for what no group names.
  std::vector<ParamGroup> groups = o.groups;
  groups.push_back({});
  for (size_t i = 0; i < groups.size(); ++i) {
    const double rate = o.lr * groups[i].lr_mult, decay = rate * o.weight_decay * groups[i].wd_mult;
    const std::string of = i < o.groups.size() ? fmt::format(" times the factors of optimizer.groups[{}]", i) : "";
    const char* group = i < o.groups.size() ? "optimizer.groups" : "optimizer.lr";
    if (rate > kMostRate)
      conflict(c, fmt::format("optimizer.lr={}{} is {}", o.lr, of, rate), given_of(c, {group, "optimizer.lr"}),
               fmt::format("a rate is at most {}", kMostRate), "lower one of them");
    // These add the decay to what they scale to one.
    const bool scaled = o.type == OptimizerType::adam || o.type == OptimizerType::adagrad || o.type == OptimizerType::lamb ||
                        o.type == OptimizerType::onebit_lamb;
    if (decay > 1 && !scaled)
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
      (o.lr < lowest_lr(s) || o.lr > s.highest_lr))  // the code it comes from would leave such a rate alone for ever
    conflict(c,
             fmt::format("optimizer.lr is {}, schedule.lowest_lr {}, schedule.highest_lr {}", o.lr, lowest_lr(s), s.highest_lr),
             given_of(c, {"schedule.lowest_lr", "schedule.highest_lr", "optimizer.lr", "schedule.type"}),
             "the rate moves between the two", "set schedule.lowest_lr and schedule.highest_lr around optimizer.lr");
}

// "969,30,1" or "98/1/1": at most three numbers, one of them above 0. Megatron reads numbers out of any text; here nothing else
// stands between them.
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

bool follows_validation(const ScheduleOptions& s) {
  return s.type == ScheduleType::reduce_lr_on_plateau || s.type == ScheduleType::greedy;
}

double lowest_lr(const ScheduleOptions& s) {
  return s.lowest_lr >= 0 ? s.lowest_lr : s.type == ScheduleType::greedy ? 1e-3 : 0;
}

std::vector<Section> sections_of(Config& config) {
  std::vector<Section> sections;
  config.each_section([&](const char* name, auto& options, const char* help) {
    sections.push_back({name, help, options_of(options, name)});
  });
  return sections;
}

Setting parse_setting(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError(fmt::format("'{}'", short_name(text)), "command line", "options are written section.key=value",
                    "write for example train.steps=100");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Config parse_config(const std::string& yaml, const std::string& name, const std::vector<Setting>& settings) {
  Config config;
  Loader loader(config);
  loader.document(*load_yaml(yaml, name), name);
  for (const Setting& s : settings) loader.setting(s);
  apply_type_defaults(config);
  validate(config);
  return config;
}

Config load_config(const std::string& file, const std::vector<Setting>& settings) {
  Config config;
  Loader loader(config);
  if (!file.empty()) loader.document(*read_yaml(file), file);
  for (const Setting& s : settings) loader.setting(s);
  apply_type_defaults(config);
  validate(config);
  return config;
}

void validate(const Config& c) {
  if (!c.model.path.empty() && !c.model.config.empty())
    conflict(c, "model.path and model.config are both given", "model.config", "a model comes from one of them", "remove one");
  if (c.data.valid_fraction > 0 && !c.data.valid.empty())
    conflict(c, "data.valid and data.valid_fraction are both given", "data.valid_fraction",
             "validation data come from one of them", "remove one");
  if (!is_split(c.data.split))
    conflict(c, fmt::format("data.split is '{}'", short_name(c.data.split)), "data.split",
             "must be one to three numbers between commas, one of them above 0", "write for example 969,30,1");
  if (c.parallel.split == StageSplit::cost && !c.parallel.stage_layers.empty())
    conflict(c, "parallel.split and parallel.stage_layers are both given", "parallel.stage_layers",
             "layers are shared by one of them", "remove one");
  for (size_t i = 0; i < c.precision.recipes.size(); ++i)
    if (!c.precision.recipes[i].compute && !c.precision.recipes[i].round)
      conflict(c, fmt::format("precision.recipes[{}] changes nothing", i), "precision.recipes",
               "an exception names the arithmetic or a rounding", "set its compute or round, or remove it");
  if (c.health.skip_count > 0 && c.health.skip_norm == 0)
    conflict(c, fmt::format("health.skip_count is {}", c.health.skip_count), "health.skip_count",
             "it counts the steps that health.skip_norm skips", "set health.skip_norm too, or leave it out");
  check_sizes(c);
  check_preferences(c);
  check_update(c);
}

std::string to_yaml(const Config& config) {
  Config copy = config;
  std::string text;
  for (const Section& s : sections_of(copy)) {
    text += s.name + ":\n";
    for (const Option& o : s.options) text += fmt::format("  {}: {}\n", o.key, o.yaml());
  }
  return text;
}

}  // namespace ravine
