#include <cstdio>

#include "apps/commands.h"
#include "apps/stop_signals.h"
#include "base/text.h"
#include "checks/bisect.h"
#include "checks/bisect_features.h"
#include "checks/child_run.h"

namespace ravine {
namespace {

struct BisectFlags {
  std::vector<std::string> words;
  std::string features, other_build, reference, out;
  int64_t steps = 0;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("sides", words, "two configs or runs to compare; or `features` and one config, whose features are tried one by one",
      positional() & required() & reads() & metavar("A B | features CONFIG"));
    v("steps", steps, "steps to train of a config; 0: 10, and 4 for features", between(0, kMostSteps));
    v("other-build", other_build, "another build of Ravine, which runs B; A may then stand alone",
      filled() & reads() & metavar("PROGRAM"));
    v("features", features, "features: names or options to choose from, like train.recompute,parallel.tensor; empty: all",
      filled() & metavar("A,B,..") &
          detail("Any option that has another value than its default is a feature too, and is switched off by its default."));
    v("reference", reference, "features: curve, log or dump of the right result; empty: the config without its features",
      filled() & reads() & metavar("FILE"));
    v("out", out, "folder for the trained runs and dumps; empty: a temporary folder", filled() & writes() & metavar("DIR"));
    v("json", json, "print one JSON object");
  }
};

void print_json(const Json& j) { fmt::print("{}\n", j.dump(-1, ' ', true, Json::error_handler_t::replace)); }

int run_bisect(BisectFlags& flags, Config&) {
  const StopSignals signals;
  const bool features = flags.words[0] == "features";
  const auto report = [&](const std::string& line) {
    if (flags.json) return;
    fmt::print("{}\n", escaped(line));
    std::fflush(stdout);
  };
  if (features) {
    if (flags.words.size() != 2)
      throw UserError(fmt::format("features and {} configs", flags.words.size() - 1), "bisect", "one config is taken apart",
                      "ravine bisect features CONFIG.yaml");
    if (!flags.other_build.empty())
      throw UserError("features with --other-build", "--other-build", "all trainings are of one build", "leave it out");
    const WorkFolder folder(flags.out);
    const FeatureBisection found = bisect_features(
        flags.words[1], {.steps = flags.steps > 0 ? std::max<int64_t>(2, flags.steps) : 4,
                         .program = this_program(),
                         .folder = folder.path(),
                         .reference = flags.reference,
                         .stop = &signals,
                         .only = flags.features.empty() ? std::vector<std::string>() : split(flags.features, ','),
                         .report = report});
    flags.json ? print_json(feature_bisection_json(found)) : report(found.text());
    return found.agrees() ? 0 : 1;
  }
  if (!flags.features.empty())
    throw UserError("--features with two sides", "--features", "the features of one config are tried",
                    "ravine bisect features CONFIG --features A,B");
  if (!flags.reference.empty())
    throw UserError("--reference without features", "--reference", "two sides are compared with each other",
                    "ravine bisect features CONFIG --reference FILE");
  if (flags.words.size() == 1 && !flags.other_build.empty()) flags.words.push_back(flags.words[0]);
  if (flags.words.size() != 2)
    throw UserError(fmt::format("{} sides", flags.words.size()), "bisect", "two are compared",
                    "ravine bisect A B, or ravine bisect A --other-build PROGRAM");
  const WorkFolder folder(flags.out);
  const std::string program = this_program();
  const Bisection found =
      bisect({flags.words[0], program}, {flags.words[1], flags.other_build.empty() ? program : flags.other_build},
             {.steps = flags.steps > 0 ? flags.steps : 10, .folder = folder.path(), .stop = &signals, .report = report});
  flags.json ? print_json(bisection_json(found)) : report(found.text());
  return found.agrees ? 0 : 1;
}

}  // namespace

Command bisect_command() {
  return command<BisectFlags>(
      {.name = "bisect",
       .summary = "find the step, phase, layer, call and element at which two runs part, or the feature that changes a result",
       .example = "ravine bisect here.yaml there.yaml --steps 20",
       .about =
           "Trains both configs, or takes recorded runs; repeats the first steps that differ, and names the first tensor with other bits. "
           "`ravine bisect features run.yaml` trains with subsets of the features of a config.",
       .stoppable = true},
      "Precision", run_bisect);
}

}  // namespace ravine
