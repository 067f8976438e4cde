#include "apps/check.h"
#include "apps/config_word.h"
#include "apps/rank_job.h"
#include "base/log.h"
#include "base/text.h"
#include "checks/frozen.h"
#include "checks/repeated_run.h"
#include "files/atomic.h"
#include "probe/curve_band.h"
#include "runs/open.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

struct Lr0Flags {
  ModelFlag model;
  CommonFlags common;
  int64_t steps = 1000;
  std::string against, out;
  FrozenLimits limits;
  bool json = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("steps", steps, "steps to run; at most train.steps", between(1, kMostSteps));
    v("against", against, "log or run of the other side, trained without an update too", metavar("LOG") & reads());
    v("loss-limit", limits.loss, "largest difference of a step's losses", between(1e-12, 1e6));
    v("norm-limit", limits.norm, "largest difference of a step's global norms", between(1e-12, 1e9));
    v("out", out, "file for both curves, a band for ravine curves --band", filled() & writes() & metavar("FILE"));
    v("overwrite", overwrite, "replace an existing file of that name");
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

int run_lr0(Lr0Flags& flags, Config& config) {
  refuse_without_model(config);
  check_output_file(flags.out, flags.overwrite);
  std::vector<TrainingCurve> curves(1);
  if (!flags.against.empty()) curves.push_back(read_training_curve(resolve_run(flags.against)));
  const int64_t steps = std::min(flags.steps, config.train.steps);
  const Config frozen = without_updates(config);
  RankJob job(config.parallel, config.train.threads);
  bool agrees = true;
  const int status = job.run([&](World* world) {
    curves[0] = repeat_run(frozen, flags.common.backend, world, steps);
    if (world && world->rank() > 0) return;
    curves[0].name = "without updates";
    if (!flags.out.empty()) write_curve_band(flags.out, "lr0", curves, may_overwrite(flags.overwrite));
    if (curves.size() == 1) {
      const auto& [last, loss] = *curves[0].loss.rbegin();
      if (flags.json)
        fmt::print("{}\n", Json{{"agrees", Json()}, {"steps", steps}, {"last_loss", loss}}.dump());
      else
        fmt::print(
            "lr0      {} steps without an update, last loss {:.6g} at step {}; --against LOG holds them against another program\n",
            steps, loss, last);
    } else {
      const FrozenVerdict v = judge_frozen(curves[0], curves[1], flags.limits);
      agrees = v.agrees();
      if (flags.json)
        fmt::print("{}\n", v.json(flags.limits).dump(-1, ' ', true, Json::error_handler_t::replace));
      else
        fmt::print("verdict  {}\n", v.text(flags.limits));
    }
    if (!flags.out.empty()) print_stderr("saved    " + escaped(flags.out));
  });
  return status != 0 ? status : agrees ? 0 : 1;
}

}  // namespace

Command check_lr0_command() {
  Command made = command<Lr0Flags>(
      {.name = "check lr0",
       .summary = "run without an update, and hold losses and global norms against another program's log",
       .example = "ravine check lr0 run.yaml --steps 1000 --against megatron.log",
       .about =
           "The weights stay, so each step shows the forward and backward pass of its own batch. Train the other side with a learning rate of 0 and no warm-up. The exit status is 1 if a step is beyond a limit.",
       .sections = {"model", "lora", "moe", "data", "train", "dpo", "optimizer", "schedule", "precision", "parallel"}},
      "", run_lr0);
  made.rewrite = config_word;
  return made;
}

}  // namespace ravine
