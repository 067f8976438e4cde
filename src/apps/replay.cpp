#include "apps/commands.h"
#include "apps/identify.h"
#include "apps/rank_job.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/text.h"
#include "files/atomic.h"
#include "files/safetensors.h"
#include "probe/replay_optimizer.h"

namespace ravine {
namespace {

struct ReplayOptimizerFlags {
  CommonFlags common;
  std::string input, out, after, gradients;
  GivenWhen when = GivenWhen::before_clip;
  bool overwrite = false, identify = false, json = false;
  template <class V>
  void each(V&& v) {
    v("input", input, "safetensors file with p.NAME [..], g.NAME [S, ..] (of R ranks [R, S, ..]) and optional lrs [S]",
      required() & metavar("FILE") & reads());
    v("out", out, "safetensors file to write: p.NAME [S + 1, ..] (of R ranks [R, S + 1, ..]) and state.STATE.NAME",
      filled() & metavar("FILE") & writes());
    v("gradients", gradients, "gradients of another program instead of g.NAME: folder of grad_N.npy, .npz or safetensors",
      metavar("DIR|FILE") & reads());
    v("when", when, "--gradients are those before_clip, or after_clip: then optimizer.clip_norm is not applied");
    v("identify", identify, "name the settings that turn the gradients of --input into the weights of --after");
    v("after", after, "for --identify: safetensors file of weights after the updates: p.NAME [..] or [S + 1, ..], or NAME",
      metavar("FILE") & reads());
    v("json", json, "for --identify: print one JSON object");
    v("overwrite", overwrite, "replace an existing file of that name");
    common.each(v);
  }
};

int run_replay_optimizer(ReplayOptimizerFlags& flags, Config& config) {
  if (flags.identify == flags.after.empty())
    throw UserError(flags.identify ? "--identify without --after" : "--after without --identify", "command line",
                    "--identify looks for settings that lead from --input to --after", "give both");
  if (!flags.identify && flags.out.empty())
    throw UserError("no --out", "command line", "the weights after each step are written to it",
                    "give --out FILE, or --identify --after FILE");
  if (!flags.out.empty()) refuse_existing_file(flags.out, flags.overwrite);
  if (follows_validation(config.schedule))
    throw UserError(fmt::format("schedule.type is {}", name(config.schedule.type)), "schedule.type",
                    "its rate follows the validation loss, and a replay has none", "choose another, or give lrs in the file");
  if (flags.when == GivenWhen::after_clip) config.optimizer.clip_norm = 0;
  auto read_input = [&](const Ranks& ranks) {
    if (flags.gradients.empty()) return read_replay_input(flags.input, ranks.rank(), ranks.size());
    return read_replay_input(flags.input, flags.gradients, config.optimizer.decay == DecayOf::all);
  };
  if (flags.identify) return run_identify(read_input(Ranks()), flags.after, config, flags.json);
  RankJob job(config.parallel, config.train.threads);
  return job.run([&](World* world) {
    const Ranks ranks = world ? Ranks(*world, {.data = world->size()}) : Ranks();
    const ReplayInput input = read_input(ranks);
    const std::vector<ReplayTensor> tensors = replay_optimizer(input, config, flags.common.backend, ranks);
    if (!ranks.first()) return;
    std::vector<TensorBytes> views;
    for (const ReplayTensor& t : tensors) views.push_back({t.name, t.dtype, t.shape, t.data});
    save_safetensors(flags.out, views, {}, may_overwrite(flags.overwrite));
    if (!input.paired.empty()) print_stderr(fmt::format("paired   {}: {}", escaped(flags.gradients), input.paired));
    print_stderr(fmt::format("saved    {}: {} of {}, {} each", escaped(flags.out), counted(input.steps, "step"),
                             name(config.optimizer.type), counted(static_cast<int64_t>(input.params.size()), "parameter")));
  });
}

}  // namespace

Command replay_command() {
  return command_of(
      {.name = "replay",
       .summary = "run one part of a training step on recorded inputs",
       .example = "ravine replay optimizer --input grads.safetensors --out weights.safetensors optimizer.type=lion"},
      "Precision",
      {command<ReplayOptimizerFlags>(
          {.name = "replay optimizer",
           .summary = "run the update rule on recorded gradients; write the weights after each step, and the states",
           .example = "ravine replay optimizer --input grads.safetensors --out weights.safetensors optimizer.type=lion",
           .sections = {"optimizer", "schedule", "train.steps", "precision.compute", "precision.bf16_products",
                        "parallel.patience", "parallel.interface"}},
          "", run_replay_optimizer)});
}

}  // namespace ravine
