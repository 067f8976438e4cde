#include "styles/mindformers_monitor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "styles/mindformers_log.h"

namespace ravine {
namespace {

bool has_word(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

MindFormersMonitor::MindFormersMonitor(const LogOptions& log) {
  if (log.monitor_target.empty()) return;
  try {
    target_ = std::regex(log.monitor_target);
  } catch (const std::regex_error& e) {
    throw UserError(fmt::format("'{}' is no regular expression: {}", log.monitor_target, e.what()), "log.monitor_target",
                    "it names parameters by a regular expression", "correct it");
  }
}

void MindFormersMonitor::each(RunView& run, const StepReport& r, const std::vector<std::string>& asked, bool events,
                              const Say& say) const {
  const Config& c = run.config();
  if (asked.empty() || r.step % c.log.monitor_every != 0) return;
  double squares = 0;
  for (const LocalNorm& n : in_mindformers_order(r.local_norms, run.model_config())) {
    double own = 0;
    for (size_t i = 0; i < n.ranks.size(); ++i)
      if (n.ranks[i] == 0) own = n.squares[i];
    squares += own;
    if (has_word(asked, "local_norm") && fits(n.parameter)) say("local_norm/" + n.parameter, std::sqrt(own));
  }
  if (has_word(asked, "device_local_norm")) say("device_local_norm", std::sqrt(squares));
  if (has_word(asked, "local_loss")) say(events ? "local_loss" : "micro_local_loss", r.loss);
  if (has_word(asked, "device_local_loss")) say("device_accum_local_loss", r.loss);
  if (!r.state_squares.empty()) states(run, r, asked, say);
  if (has_word(asked, "throughput") && c.log.baseline > 0)
    say("throughput_linearity",
        static_cast<double>(c.train.global_batch) / r.ranks / std::max(1e-9, r.step_time) / c.log.baseline);
}

void MindFormersMonitor::states(RunView& run, const StepReport& r, const std::vector<std::string>& asked,
                                const Say& say) const {
  double weights = 0;
  std::vector<LocalNorm> norms[2];
  for (const auto& [name, squares] : r.state_squares) {
    const size_t slash = name.find('/');
    const std::string kind = name.substr(0, slash);
    if (kind == "weights") weights += squares;
    if (kind == "m" || kind == "v")
      norms[kind == "v"].push_back({.parameter = name.substr(slash + 1), .ranks = {0}, .squares = {squares}, .counts = {0}});
  }
  if (has_word(asked, "optimizer_state"))
    for (const int v : {0, 1})
      for (const LocalNorm& n : in_mindformers_order(norms[v], run.model_config()))
        if (fits(n.parameter)) say(fmt::format("adam_{}_norm/{}", v ? 'v' : 'm', n.parameter), std::sqrt(n.squares[0]));
  if (has_word(asked, "weight_state")) say("weight_norm", std::sqrt(weights));
}

}  // namespace ravine
