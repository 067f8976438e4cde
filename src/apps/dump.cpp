#include "apps/commands.h"
#include "apps/rank_job.h"
#include "apps/replayed_run.h"
#include "base/shell_word.h"
#include "probe/capture.h"
#include "styles/styles.h"
#include "train/trainer.h"

namespace ravine {
namespace {

struct DumpFlags {
  CommonFlags common;
  std::string from, run;
  int64_t step = 0;
  DumpOption dump;
  template <class V>
  void each(V&& v) {
    v("from", from, kReplayFrom, required() & metavar("CHECKPOINT") & reads_folder());
    v("step", step, "step to run again, with all steps since the checkpoint; 0: the first step after the checkpoint",
      between(0, kMostSteps));
    v("out", dump.dir, "folder of the dump", required() & filled() & metavar("DIR") & writes());
    v("run", run, kReplayRun, metavar("RUN") & reads_folder());
    v("steps", dump.steps, "steps up to --step to dump, like 5-8|12; empty: that step alone", metavar("RANGES"));
    v("ranks", dump.ranks, "ranks of the job to dump; empty: all", between(0, kMostRanks));
    v("paths", dump.paths, "glob patterns of dotted paths of calls, and of names of parameters", filled());
    v("phases", dump.phases, "phases to dump", one_of({"forward", "backward", "update"}) & filled());
    v("what", dump.what, "content per tensor: checksums, statistics too, or the tensor itself too");
    v("io", dump.io, "tensors to keep: inputs of calls, outputs, or both");
    v("limit-mb", dump.limit_mb, "size limit of the dump of a rank, in MB; 0: no limit", between(0, 1e9));
    common.each(v);
  }
};

int run_dump(DumpFlags& flags, Config&) {
  Config config = config_of_replay(flags.from, flags.run, flags.common.threads);
  const int64_t last = flags.step > 0 ? flags.step : step_before_replay(flags.from) + 1;
  if (flags.dump.steps.empty()) flags.dump.steps = fmt::format("{}", last);
  config.probe.dump = {flags.dump};
  validate(config);
  RankJob job(config.parallel, config.train.threads);
  Log log;
  RecordedSteps recorded(flags.from, flags.run);
  std::unique_ptr<Capture> capture;  // outlives the trainer, which calls it
  std::unique_ptr<Trainer> trainer;
  return job.run([&](World* world) {
    capture = std::make_unique<Capture>(flags.dump);
    trainer = std::make_unique<Trainer>(config, flags.common.backend, log, world, style_of(config));
    trainer->add_observer(*capture);
    trainer->replay(last, [&](int64_t step, double loss, double rate) { recorded.hold(step, loss, rate, log); });
    log.line("dump     {} records in {}: ravine info {}", capture->records(), flags.dump.dir, shell_word(flags.dump.dir));
    trainer.reset();
    if (!capture->ended().empty())
      throw Error(fmt::format("the dump in {} is not whole: {}", flags.dump.dir, capture->ended()));
  });
}

}  // namespace

Command dump_command() {
  return command<DumpFlags>(
      {.name = "dump",
       .summary = "run a step of a run again, bit for bit, and dump the inputs and outputs of its calls",
       .example = "ravine dump --from runs/a/checkpoints/step_000200 --step 203 --out dumps/a --what tensors",
       .about =
           "Replays a step from the nearest checkpoint of the run, and keeps inputs and outputs of its kernel calls for `ravine compare`.",
       .lasting = true},
      "Precision", run_dump);
}

}  // namespace ravine
