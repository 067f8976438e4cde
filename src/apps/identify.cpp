#include "apps/identify.h"

#include "optim/class_schedules.h"
#include "optim/schedule.h"
#include "probe/identify.h"

namespace ravine {

int run_identify(const ReplayInput& input, const std::string& after, const Config& config, bool json) {
  const OptimizerOptions& o = config.optimizer;
  if (o.type != OptimizerType::adamw && o.type != OptimizerType::adam)
    throw UserError(fmt::format("optimizer.type is {}", name(o.type)), "--identify",
                    "the settings of adamw and adam are searched",
                    "set optimizer.type=adamw, or look at the weights: replay without --identify, then ravine diff");
  std::vector<double> rates = input.lrs;
  const int64_t length = config.sources.contains("train.steps") ? config.train.steps : input.steps;
  for (int64_t s = 0; s < input.steps; ++s) {
    if (class_betas(config.schedule, s))
      throw UserError("a schedule that moves the betas", "--identify", "betas are the same at all steps",
                      "give lrs in the file, and another schedule.type");
    if (input.lrs.empty()) rates.push_back(formula_rate(config.schedule, o.lr, length, s));
  }
  AdamSettings rule{.beta1 = o.betas[0],
                    .beta2 = o.betas[1],
                    .eps = o.eps[0],
                    .weight_decay = o.weight_decay,
                    .clip_norm = config.sources.contains("optimizer.clip_norm") ? o.clip_norm : 0,
                    .bias_correction = o.bias_correction,
                    .coupled = o.type == OptimizerType::adam};
  for (const ReplayParam& p : input.params) rule.decays.push_back(o.decay == DecayOf::all || p.shape.rank() >= 2);
  const RecordedUpdates updates = read_updates(input, after, rates);
  const Identified found = identify(updates, rule);
  if (json)
    fmt::print("{}\n", found.json(updates).dump(-1, ' ', true, Json::error_handler_t::replace));
  else
    fmt::print("verdict  {}\n", found.text(updates));
  return found.explained.empty() ? 1 : 0;
}

}  // namespace ravine
