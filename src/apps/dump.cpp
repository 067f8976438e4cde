#include <filesystem>

#include "apps/commands.h"
#include "apps/rank_job.h"
#include "base/missing_path.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "base/shell_word.h"
#include "config/load.h"
#include "io/checkpoint.h"
#include "probe/capture.h"
#include "runs/run_folder.h"
#include "train/trainer.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

struct DumpFlags {
  CommonFlags common;
  std::string from, run;
  int64_t step = 0;
  DumpOption dump;
  template <class V>
  void each(V&& v) {
    v("from", from, "checkpoint of a run, RUN/checkpoints/step_N", required() & metavar("CHECKPOINT") & reads_folder());
    v("step", step, "the step that is run again, with all between it and the checkpoint; 0: the one behind the checkpoint",
      between(0, kMostSteps));
    v("out", dump.dir, "folder of the dump", required() & filled() & metavar("DIR") & writes());
    v("run", run, "run whose options count; empty: the one in which the checkpoint lies", metavar("RUN") & reads_folder());
    v("steps", dump.steps, "which of the steps up to --step are kept; empty: that step alone", metavar("RANGES"));
    v("ranks", dump.ranks, "which ranks of the job; empty: all", between(0, kMostRanks));
    v("paths", dump.paths, "glob patterns of dotted paths of calls, and of names of parameters", filled());
    v("phases", dump.phases, "which phases", one_of({"forward", "backward", "update"}) & filled());
    v("what", dump.what, "of each tensor two checksums; those and statistics; those and the tensor itself");
    v("io", dump.io, "what calls read, what they write, or both");
    v("limit-mb", dump.limit_mb, "the dump of a rank ends at this size; 0: no limit", between(0, 1e9));
    common.each(v);
  }
};

// RUN of RUN/checkpoints/step_N.
std::string run_of(const std::string& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).lexically_normal();
  const fs::path run = (folder.has_filename() ? folder : folder.parent_path()).parent_path().parent_path();
  std::error_code error;
  if (fs::exists(run / "config.yaml", error)) return run.string();
  throw UserError("the run of this checkpoint is not known", checkpoint, "RUN/config.yaml says how its steps are made",
                  "name the run by --run RUN");
}

int run_dump(DumpFlags& flags, Config&) {
  if (!is_checkpoint(flags.from))
    throw UserError("no checkpoint", flags.from, "a replay goes on from a checkpoint of a run",
                    fs::exists(flags.from) ? "name RUN/checkpoints/step_N" : missing_path_advice(flags.from));
  const std::string run = flags.run.empty() ? run_of(flags.from) : flags.run;
  Config config = load_config(run + "/config.yaml", {{.key = "checkpoint.resume", .value = flags.from, .literal = true},
                                                     {.key = "train.output", .value = run, .literal = true}});
  if (flags.common.threads > 0) config.train.threads = flags.common.threads;
  if (config.train.threads > 0) set_thread_count(narrow_option<int>(config.train.threads, "train.threads"));
  const int64_t last = flags.step > 0 ? flags.step : CheckpointReader(flags.from, false).step() + 1;
  if (flags.dump.steps.empty()) flags.dump.steps = fmt::format("{}", last);
  config.probe.dump = {flags.dump};
  validate(config);
  RankJob job(config.parallel, config.train.threads);
  Log log;
  std::unique_ptr<Capture> capture;  // outlives the trainer, which calls it
  std::unique_ptr<Trainer> trainer;
  return job.run([&](World* world) {
    capture = std::make_unique<Capture>(flags.dump);
    trainer = std::make_unique<Trainer>(config, flags.common.backend, log, world);
    trainer->watch(*capture);
    trainer->replay(last);
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
       .summary = "run a step of a finished or running run again, bit for bit, and keep what its calls read and write",
       .example = "ravine dump --from runs/a/checkpoints/step_000200 --step 203 --out dumps/a --what tensors",
       .lasting = true},
      "Precision", run_dump);
}

}  // namespace ravine
