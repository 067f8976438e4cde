// --override-opt_param-scheduler and --use-checkpoint-opt_param-scheduler choose the schedule of a resumed run.
// Source: OptimizerParamScheduler.load_state_dict (megatron/core/optimizer_param_scheduler.py).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "dialects/megatron_run.h"
#include "dialects/reverse.h"

namespace ravine {
namespace {

struct Part {
  const char* option;
  std::vector<const char*> flags;  // the first given flag sets the option
};

const Part kParts[] = {
    {"optimizer.lr", {"--lr"}},
    {"schedule.min_lr", {"--min-lr"}},
    {"schedule.lr_warmup_steps", {"--lr-warmup-fraction", "--lr-warmup-samples", "--lr-warmup-iters"}},
    {"schedule.lr_decay_style", {"--lr-decay-style"}},
    {"schedule.lr_decay_steps", {"--lr-decay-iters", "--lr-decay-samples", "--train-samples", "--train-iters"}},
    {"optimizer.weight_decay", {"--start-weight-decay", "--weight-decay"}},
};

struct Difference {
  const Part* part;
  std::string flag;
  Json now, was;
};

// True if the values are equal within `slack`: half a sample, since some programs store steps in whole samples.
bool same(const Json& a, const Json& b, double slack) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= slack + 1e-12 * std::max(std::abs(x), std::abs(y));
}

// Returns the parts of the schedule that differ between checkpoint and flags. A constant learning rate has no end.
std::vector<Difference> differences(const Translation& t, const Config& config, const Json& held) {
  std::vector<Difference> out;
  const std::string style = "schedule.lr_decay_style", constant = "constant";
  const bool level = held.contains(style) && held[style] == Json(constant) && option_value(config, style) == Json(constant);
  for (const Part& part : kParts) {
    const auto was = held.find(part.option);
    const std::string_view option = part.option;
    if (was == held.end() || (level && (option == "schedule.min_lr" || option == "schedule.lr_decay_steps"))) continue;
    const Json now = option_value(config, part.option);
    const double slack = option.ends_with("_steps") ? 0.5 / static_cast<double>(config.train.global_batch) : 0;
    if (same(now, *was, slack)) continue;
    std::string flag = part.flags.back();
    for (const char* given : part.flags)
      if (t.has(given)) {
        flag = given;
        break;
      }
    out.push_back({&part, flag, now, *was});
  }
  return out;
}

}  // namespace

void set_megatron_scheduler(Translation& t, const MegatronJob& job, const std::string& folder) {
  std::string override_flag, use_flag;
  for (const char* name : {"opt_param-scheduler", "lr-scheduler"})
    for (auto& [flag, before] :
         {std::pair<std::string&, const char*>{override_flag, "--override-"}, {use_flag, "--use-checkpoint-"}})
      if (const std::string key = std::string(before) + name; t.is_on(key)) flag = key;
  const auto idle = [&](const std::string& reason) {
    for (const std::string& flag : {override_flag, use_flag})
      if (!flag.empty()) t.becomes(flag, KeyStatus::inert, reason);
  };
  if (folder.empty()) return idle("the run goes on from no checkpoint");
  if (!job.held || !t.refusals().empty()) return;
  Config config;
  try {
    config = config_of(t);
  } catch (const UserError&) {  // reported when the config is run
    return;
  }
  const Json held = job.held(folder, config.train.global_batch);
  const std::vector<Difference> other = differences(t, config, held);
  const bool grows = held.contains("end_weight_decay");
  if (other.empty() && !grows) return idle(fmt::format("the schedule in {} is that of the flags", folder));
  if (!override_flag.empty()) return;  // the run itself logs the differences
  if (grows)
    return t.refuse(use_flag.empty() ? "--weight-decay" : use_flag,
                    fmt::format("the weight decay in {} goes from {} to {}", folder,
                                held.value("optimizer.weight_decay", Json()).dump(), held["end_weight_decay"].dump()),
                    "the weight decay does not change within a run",
                    "write --override-opt_param-scheduler for that of the flags");
  std::vector<std::string> words;
  for (const Difference& d : other) {
    words.push_back(fmt::format("{} ({}) is {}, and {} in the checkpoint", d.part->option, d.flag, d.now.dump(), d.was.dump()));
    if (!use_flag.empty()) t.set(d.part->option, d.was, use_flag);
  }
  const std::string all = fmt::format("{}", fmt::join(words, "; "));
  if (!use_flag.empty()) return t.notice(fmt::format("{}: {}: the checkpoint's counts", use_flag, all));
  t.refuse(
      other[0].flag, fmt::format("the schedule of the flags is not that in {}: {}", folder, all),
      "a run goes on with the schedule that it had, in Megatron too",
      "write --override-opt_param-scheduler for that of the flags, or --use-checkpoint-opt_param-scheduler for the checkpoint's");
}

}  // namespace ravine
